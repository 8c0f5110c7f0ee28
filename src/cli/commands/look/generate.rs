//! What is made for other programs: metrics, completion scripts, manual pages.

use std::path::Path;

use super::super::{Done, Session};
use crate::{
    cli::{
        args::{CompletionsArgs, ManArgs, MetricsArgs},
        error::Failure,
        generate,
    },
    engine::metrics as engine_metrics,
    store::disk,
};

pub(in crate::cli::commands) fn metrics(session: &Session<'_>, args: &MetricsArgs) -> Done {
    let store = session.open_store()?;
    let text = engine_metrics::render(&store, session.now()).map_err(|error| Failure::of(&error))?;
    match &args.output {
        Some(path) => write(path, text.as_bytes())?,
        None if session.out.is_json() => session.out.json(&serde_json::json!({ "metrics": text })),
        None => session.out.bytes(text.as_bytes()),
    }
    Ok(0)
}

pub(in crate::cli::commands) fn completions(session: &Session<'_>, args: &CompletionsArgs) -> u8 {
    session.out.bytes(generate::completions(args.shell).as_bytes());
    0
}

pub(in crate::cli::commands) fn man(session: &Session<'_>, args: &ManArgs) -> Done {
    let failed = |error| Failure::file("make", Path::new("the manual"), &error);
    let Some(folder) = &args.dir else {
        session.out.bytes(&generate::man_page().map_err(failed)?);
        return Ok(0);
    };
    disk::create_folder_outside(folder).map_err(|error| Failure::file("create", folder, &error))?;
    let pages = generate::man_pages().map_err(failed)?;
    for (name, page) in &pages {
        write(&folder.join(name), page)?;
    }
    session.out.note(&format!("wrote {} pages to {}", pages.len(), folder.display()));
    Ok(0)
}

/// Replaces a file outside of the store as a whole.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    disk::write_outside(path, bytes).map_err(|error| Failure::file("write", path, &error))
}
