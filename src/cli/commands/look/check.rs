//! `wfctl fsck`: findings as they are found.

use serde_json::json;

use super::super::{Done, Session};
use crate::{
    cli::{progress::Progress, table::Tone, text},
    engine::fsck::{self, Finding, Severity},
};

pub(in crate::cli::commands) fn fsck(session: &Session<'_>) -> Done {
    let store = session.open_store()?;
    let progress = Progress::new(session.out);
    let mut findings = Vec::new();
    let mut report = |finding: Finding| {
        if session.out.is_json() {
            findings.push(finding);
        } else {
            progress.suspend(|| {
                print(session, &finding);
                session.out.flush();
            });
        }
    };
    let summary = fsck::watch_check(&store, session.now(), &mut report, &|runs| {
        progress.counted("runs checked:", runs);
    });
    progress.clear();
    if session.out.is_json() {
        session.out.json(&json!({ "items": findings, "summary": summary }));
    } else {
        let tone = if summary.errors > 0 { Tone::Bad } else { Tone::Good };
        session.out.paragraph(
            0,
            &format!(
                "{} errors, {} warnings in {} runs and {} schedules",
                summary.errors, summary.warnings, summary.runs, summary.schedules
            ),
            tone,
        );
    }
    Ok(if summary.errors > 0 { 65 } else { 0 })
}

fn print(session: &Session<'_>, finding: &Finding) {
    let (word, tone) = match finding.severity {
        Severity::Error => ("error", Tone::Bad),
        Severity::Warning => ("warning", Tone::Waiting),
    };
    let what = format!("{word}: {}: {}", finding.path.display(), text::one_line(&finding.what));
    session.out.paragraph(0, &what, tone);
    session.out.paragraph(2, &format!("hint: {}", text::one_line(&finding.hint)), Tone::Plain);
}
