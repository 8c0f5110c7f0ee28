use std::sync::{Arc, Mutex as StdMutex};

use clap::Parser as _;

use super::*;
use crate::cli::args::Cli;

/// A stream that can be read afterwards, or fails.
#[derive(Clone, Default)]
struct Sink {
    text: Arc<StdMutex<Vec<u8>>>,
    error: Option<io::ErrorKind>,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.error {
            Some(kind) => Err(kind.into()),
            None => self.text.lock().unwrap().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn failing(kind: io::ErrorKind) -> Self {
        Self { error: Some(kind), ..Self::default() }
    }

    fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }
}

const PLAIN: Look = Look { json: false, quiet: false, verbose: 0, color: ColorWord::Never };

fn output(look: Look, stdout: &Sink, stderr: &Sink) -> Output {
    Output::to(look, Box::new(stdout.clone()), Box::new(stderr.clone()), Some(80))
}

#[test]
fn a_reader_that_went_away_changes_nothing() {
    let (stdout, stderr) = (Sink::failing(io::ErrorKind::BrokenPipe), Sink::default());
    let out = output(PLAIN, &stdout, &stderr);
    out.line("result");
    assert_eq!(out.finish(0, Effect::Reads), 0);
    assert!(!out.is_open());
    assert_eq!(stderr.text(), "");
}

#[test]
fn a_full_device_is_said_once_and_fails_only_what_reads() {
    for (code, effect, want) in
        [(0, Effect::Reads, 74), (66, Effect::Reads, 66), (0, Effect::Changes, 0), (1, Effect::Changes, 1)]
    {
        let (stdout, stderr) = (Sink::failing(io::ErrorKind::StorageFull), Sink::default());
        let out = output(PLAIN, &stdout, &stderr);
        out.bytes(&vec![b'x'; 3 * BUFFER]);
        out.line("more");
        assert_eq!(out.finish(code, effect), want);
        assert_eq!(stderr.text().lines().count(), 1, "{}", stderr.text());
    }
}

#[test]
fn a_stderr_that_fails_is_passed_over() {
    let (stdout, stderr) = (Sink::default(), Sink::failing(io::ErrorKind::StorageFull));
    let out = output(PLAIN, &stdout, &stderr);
    out.warn("lost");
    out.line("result");
    assert_eq!(out.finish(0, Effect::Reads), 0);
    assert_eq!(stdout.text(), "result\n");
}

#[test]
fn quiet_leaves_results_warnings_and_errors() {
    let (stdout, stderr) = (Sink::default(), Sink::default());
    let out = output(Look { quiet: true, ..PLAIN }, &stdout, &stderr);
    out.note("a note");
    out.detail(1, "a detail");
    out.warn("a warning");
    out.line("a result");
    out.finish(0, Effect::Reads);
    assert_eq!(stderr.text(), "wfctl: warning: a warning\n");
    assert_eq!(stdout.text(), "a result\n");
}

#[test]
fn nothing_from_a_file_reaches_the_terminal_raw() {
    let (stdout, stderr) = (Sink::default(), Sink::default());
    let out = output(Look { json: true, ..PLAIN }, &stdout, &stderr);
    let evil = "\u{1b}[2Jquestion\nwfctl: forged";
    out.line(evil);
    out.field("question", evil, Tone::Bad);
    out.note(evil);
    out.failure(&Failure::new(65, "corrupt", evil).with_hint(evil));
    out.finish(0, Effect::Reads);
    assert!(!(stdout.text() + &stderr.text()).contains('\u{1b}'));
    assert!(stderr.text().lines().all(|line| line.starts_with("wfctl: ") || line.starts_with("hint: ")));
    assert!(!stderr.text().lines().any(|line| line.starts_with("wfctl: forged")));
}

#[test]
fn colours_are_on_when_asked_for() {
    let (stdout, stderr) = (Sink::default(), Sink::default());
    let out = output(Look { color: ColorWord::Always, ..PLAIN }, &stdout, &stderr);
    out.field("status", "failed", Tone::of_status("failed"));
    out.finish(0, Effect::Reads);
    assert_eq!(stdout.text(), "status:     \u{1b}[31mfailed\u{1b}[0m\n");
}

#[test]
fn refused_command_lines_begin_with_the_name_of_the_program() {
    let args: Vec<OsString> = ["wfctl", "tick", "--json", "--dry", "--color=never"].map(Into::into).into();
    let (stdout, stderr) = (Sink::default(), Sink::default());
    let out = output(Look::of_refused(&args), &stdout, &stderr);
    let code = out.usage(&Cli::try_parse_from(&args).unwrap_err());
    assert_eq!(out.finish(code, Effect::Reads), 2);
    assert!(stderr.text().starts_with("wfctl: unexpected argument '--dry' found\n"), "{}", stderr.text());
    let document: serde_json::Value = serde_json::from_str(&stdout.text()).unwrap();
    assert_eq!(document["error"]["code"], 2);
    assert_eq!(document["error"]["kind"], "usage");
    assert_eq!(document["error"]["message"], "unexpected argument '--dry' found");
    assert_eq!(document["error"]["hint"], "a similar argument exists: '--dry-run'");
}

#[test]
fn help_and_version_go_to_stdout() {
    for (arg, want) in
        [("--version", "wfctl "), ("--help", "Run multi-step jobs"), ("-h", "Run multi-step jobs")]
    {
        let (stdout, stderr) = (Sink::default(), Sink::default());
        let out = output(PLAIN, &stdout, &stderr);
        assert_eq!(out.usage(&Cli::try_parse_from(["wfctl", arg]).unwrap_err()), 0);
        out.flush();
        assert!(stdout.text().starts_with(want), "{}", stdout.text());
        assert!(!stdout.text().contains('\u{1b}'));
        assert_eq!(stderr.text(), "");
    }
}
