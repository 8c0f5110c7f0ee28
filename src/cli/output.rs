//! What is written to stdout and stderr; the only place that does.
//!
//! Results go to stdout, buffered, everything else to stderr. Invariant: nothing here panics or ends the
//! program. A reader that went away is no error of the command, and a full device is reported once and
//! changes the exit status of a command that only reads, never of one that changed something.
//! Deliberately not here: what a command has to say.

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal, Write},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::{
    args::{ColorWord, GlobalArgs},
    error::Failure,
    table::{Table, Tone},
    text::{self, LogFilter},
};

/// Results are written once so many bytes have come together.
const BUFFER: usize = 64 * 1024;
/// The width of the names of fields.
const NAMES: usize = 12;
/// As wide, and empty.
const HANGING: &str = "            ";
/// Of a terminal that does not tell.
const DEFAULT_WIDTH: u16 = 80;
/// A narrower terminal than this is not fitted to.
const MIN_WIDTH: u16 = 20;
/// The exit status of a reading command whose result could not be written.
const IO_ERROR: u8 = 74;

/// What the global options say about output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// One JSON document instead of text.
    pub json: bool,
    /// Results and errors only.
    pub quiet: bool,
    /// How much more to say.
    pub verbose: u8,
    /// When to use colours.
    pub color: ColorWord,
}

/// Reports a bug of the program, from wherever it came to light.
pub fn report_bug(what: &str) {
    let _ = writeln!(
        io::stderr(),
        "wfctl: internal error: {}\nhint: this is a bug; what was durable before stays so. Please report it",
        text::one_line(what)
    );
}

impl From<&GlobalArgs> for Look {
    fn from(args: &GlobalArgs) -> Self {
        Self { json: args.json, quiet: args.quiet, verbose: args.verbose, color: args.color }
    }
}

impl Look {
    /// What can be told of a command line that clap refused, so that the refusal looks as was asked for.
    pub fn of_refused(args: &[OsString]) -> Self {
        let mut look = Self { json: false, quiet: false, verbose: 0, color: ColorWord::Auto };
        let words = args.iter().skip(1).map(|arg| arg.to_str().unwrap_or_default());
        let mut before = "";
        for word in words.take_while(|word| *word != "--") {
            let color = if before == "--color" { Some(word) } else { word.strip_prefix("--color=") };
            match (word, color) {
                ("--json", _) => look.json = true,
                (_, Some("always")) => look.color = ColorWord::Always,
                (_, Some("never")) => look.color = ColorWord::Never,
                _ => {}
            }
            before = word;
        }
        look
    }
}

/// Whether a command changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It only reads: a result that cannot be written is a failure.
    Reads,
    /// It changes the store or executes steps: its exit status tells of that.
    Changes,
}

/// The two streams of the program.
pub struct Output {
    look: Look,
    stdout: Channel,
    stderr: Channel,
    width: Option<u16>,
}

struct Channel {
    stream: Mutex<Stream>,
    is_terminal: bool,
    colors: bool,
}

struct Stream {
    sink: Box<dyn Write + Send>,
    buffer: Vec<u8>,
    state: State,
}

enum State {
    Open,
    /// The reader went away.
    Gone,
    Failed(io::Error),
}

impl Output {
    /// The streams of this process.
    pub fn new(look: Look) -> Self {
        let stdout = Channel::of_terminal(io::stdout(), look.color);
        let stderr = Channel::of_terminal(io::stderr(), look.color);
        Self { look, width: width(stdout.is_terminal), stdout, stderr }
    }

    /// Streams to anywhere, without a terminal, `width` wide.
    pub fn to(
        look: Look,
        stdout: Box<dyn Write + Send>,
        stderr: Box<dyn Write + Send>,
        width: Option<u16>,
    ) -> Self {
        let channel = |sink| Channel {
            stream: Mutex::new(Stream::new(sink)),
            is_terminal: false,
            colors: look.color == ColorWord::Always,
        };
        Self { look, stdout: channel(stdout), stderr: channel(stderr), width }
    }

    /// What was asked for.
    pub fn look(&self) -> Look {
        self.look
    }

    /// Whether results are JSON.
    pub fn is_json(&self) -> bool {
        self.look.json
    }

    /// Whether progress can be shown: stderr is a terminal that can move its cursor, and nobody wants quiet.
    pub fn shows_progress(&self) -> bool {
        self.stderr.is_terminal && !self.look.quiet && !self.look.json && !is_dumb()
    }

    /// The width to fit results to; none where nothing limits it.
    pub fn width(&self) -> Option<u16> {
        self.width
    }

    /// Whether results are read by a person.
    pub fn stdout_is_terminal(&self) -> bool {
        self.stdout.is_terminal
    }

    /// Whether anybody can still read results.
    pub fn is_open(&self) -> bool {
        matches!(self.stdout.lock().state, State::Open)
    }

    /// The same, and a pipe whose reader went away since the last write counts as well.
    pub fn has_reader(&self) -> bool {
        let mut stdout = [PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::empty())];
        let is_gone = poll(&mut stdout, Some(&Timespec::default())).is_ok()
            && stdout[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL);
        self.is_open() && !is_gone
    }

    /// A line of the result. Whatever comes from a file is escaped.
    pub fn line(&self, line: &str) {
        let mut stdout = self.stdout.lock();
        stdout.put(text::escape(line).as_bytes());
        stdout.put(b"\n");
    }

    /// A line `name: value` of the result, the value in a tone; it goes on below where the terminal is narrow.
    pub fn field(&self, name: &str, value: &str, tone: Tone) {
        let label = format!("{:<NAMES$}", format!("{name}:"));
        let mut lead = label.as_str();
        for line in self.fit(value, NAMES) {
            let line = self.paint(&line, tone);
            self.stdout.lock().put(format!("{}\n", format!("{lead}{line}").trim_end()).as_bytes());
            lead = HANGING;
        }
    }

    /// The heading of a part of the result, after an empty line.
    pub fn heading(&self, text: &str) {
        let text = text::escape(text);
        let text = if self.stdout.colors { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.into_owned() };
        self.stdout.lock().put(format!("\n{text}\n").as_bytes());
    }

    /// A text of the result in a tone, indented, broken between words where the terminal is narrow.
    pub fn paragraph(&self, indent: usize, text: &str, tone: Tone) {
        for line in self.fit(text, indent) {
            let line = self.paint(&line, tone);
            self.stdout.lock().put(format!("{:indent$}{line}\n", "").as_bytes());
        }
    }

    /// A command for the shell, indented and never broken, so that it can be copied.
    pub fn command(&self, indent: usize, command: &str) {
        let command = self.paint(&text::escape(command), Tone::Busy);
        self.stdout.lock().put(format!("{:indent$}{command}\n", "").as_bytes());
    }

    /// The lines of a text that is indented; one where it fits, or where nothing limits the width.
    fn fit(&self, text: &str, indent: usize) -> Vec<String> {
        let text = text::escape(text);
        match self.width {
            Some(width) if indent + text.width() > usize::from(width) => {
                text::wrap(&text, usize::from(width).saturating_sub(indent))
            }
            _ => vec![text.into_owned()],
        }
    }

    /// Bytes of the result, as they are: logs, generated files.
    pub fn bytes(&self, bytes: &[u8]) {
        self.stdout.lock().put(bytes);
    }

    /// A piece of the output of a step: filtered where a terminal shows it, as it is elsewhere. What the filter
    /// still holds at the end goes to [`Output::bytes`], where a terminal shows it.
    pub fn log(&self, filter: &mut LogFilter, piece: &[u8]) {
        if self.stdout.is_terminal {
            self.bytes(&filter.push(piece));
        } else {
            self.bytes(piece);
        }
    }

    /// A table of the result.
    pub fn table(&self, table: &Table) {
        self.stdout.lock().put(table.render(self.width, self.stdout.colors).as_bytes());
    }

    /// The result as one JSON document.
    pub fn json(&self, document: &impl Serialize) {
        match serde_json::to_vec_pretty(document) {
            Ok(mut bytes) => {
                bytes.push(b'\n');
                self.stdout.lock().put(&bytes);
            }
            Err(error) => self.warn(&format!("the result has no JSON form: {error}")),
        }
    }

    /// `text` in a tone, for [`Output::bytes`]; as it is where colours are off. Not escaped.
    pub fn paint(&self, text: &str, tone: Tone) -> String {
        if self.stdout.colors && tone != Tone::Plain {
            format!("{}{text}\u{1b}[0m", tone.start())
        } else {
            text.to_owned()
        }
    }

    /// Something that is good to know, on stderr; not when quiet.
    pub fn note(&self, message: &str) {
        if !self.look.quiet {
            self.complain("wfctl", "\u{1b}[1m", message);
        }
    }

    /// Something that only a verbose program tells; 1 for `-v`, 2 for `-vv`.
    pub fn detail(&self, level: u8, message: &str) {
        if self.look.verbose >= level {
            self.complain("wfctl", "\u{1b}[2m", message);
        }
    }

    /// Something that is not right, though the command goes on; on stderr, even when quiet.
    pub fn warn(&self, message: &str) {
        self.complain("wfctl: warning", "\u{1b}[1;33m", message);
    }

    /// A failure on stderr, and on stdout too where JSON is wanted.
    pub fn failure(&self, failure: &Failure) {
        for line in &failure.details {
            self.print_stderr(&format!("{}\n", text::one_line(line)));
        }
        self.complain("wfctl", "\u{1b}[1;31m", &failure.message);
        if let Some(hint) = &failure.hint {
            self.complain("hint", "\u{1b}[1;36m", hint);
        }
        if self.look.json {
            self.json(&failure.document());
        }
    }

    /// clap's answer to a command line: help and versions on stdout, refusals on stderr, with `wfctl:` for its
    /// `error:`. Returns the exit status.
    pub fn usage(&self, error: &clap::Error) -> u8 {
        let code = u8::try_from(error.exit_code()).unwrap_or(2);
        let colors = if error.use_stderr() { self.stderr.colors } else { self.stdout.colors };
        let rendered = error.render();
        let shown = if colors { rendered.ansi().to_string() } else { rendered.to_string() };
        if !error.use_stderr() {
            self.bytes(shown.as_bytes());
            return code;
        }
        self.print_stderr(&shown.replacen("error:", "wfctl:", 1));
        if self.look.json {
            self.json(&Failure::of_usage(error).document());
        }
        code
    }

    /// Writes what is buffered.
    pub fn flush(&self) {
        self.stdout.lock().flush();
    }

    /// Writes what is buffered and says how the program ends, where the command ended with `code`.
    pub fn finish(&self, code: u8, effect: Effect) -> u8 {
        let mut stdout = self.stdout.lock();
        stdout.flush();
        let State::Failed(error) = &stdout.state else { return code };
        let message = format!("cannot write to stdout: {error}");
        drop(stdout);
        self.complain("wfctl", "\u{1b}[1;31m", &message);
        match effect {
            Effect::Reads if code == 0 => IO_ERROR,
            Effect::Reads | Effect::Changes => code,
        }
    }

    fn complain(&self, who: &str, color: &str, message: &str) {
        let message = text::one_line(message);
        if self.stderr.colors {
            self.print_stderr(&format!("{color}{who}:\u{1b}[0m {message}\n"));
        } else {
            self.print_stderr(&format!("{who}: {message}\n"));
        }
    }

    fn print_stderr(&self, text: &str) {
        if self.stdout.is_terminal {
            self.flush(); // so that a person reads both in the order in which they were said
        }
        let mut stderr = self.stderr.lock();
        stderr.put(text.as_bytes());
        stderr.flush();
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("look", &self.look).field("width", &self.width).finish_non_exhaustive()
    }
}

impl Channel {
    fn of_terminal(stream: impl Write + IsTerminal + Send + 'static, color: ColorWord) -> Self {
        let is_terminal = stream.is_terminal();
        let colors = colors(color, is_terminal);
        Self { stream: Mutex::new(Stream::new(Box::new(stream))), is_terminal, colors }
    }

    /// A panic of one thread must not silence the others.
    fn lock(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stream {
    fn new(sink: Box<dyn Write + Send>) -> Self {
        Self { sink, buffer: Vec::new(), state: State::Open }
    }

    fn put(&mut self, bytes: &[u8]) {
        if matches!(self.state, State::Open) {
            self.buffer.extend_from_slice(bytes);
            if self.buffer.len() >= BUFFER {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        if matches!(self.state, State::Open) && !self.buffer.is_empty() {
            let written = self.sink.write_all(&self.buffer).and_then(|()| self.sink.flush());
            self.state = match written {
                Ok(()) => State::Open,
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => State::Gone,
                Err(error) => State::Failed(error),
            };
        }
        self.buffer.clear();
    }
}

fn colors(choice: ColorWord, is_terminal: bool) -> bool {
    match choice {
        ColorWord::Always => true,
        ColorWord::Never => false,
        ColorWord::Auto => {
            is_terminal && !is_dumb() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    }
}

fn is_dumb() -> bool {
    env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// `COLUMNS`, else the terminal's own width. What is piped is not cut, so that `grep` finds it.
fn width(is_terminal: bool) -> Option<u16> {
    let wanted = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let actual = || match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => size.ws_col,
        _ => DEFAULT_WIDTH,
    };
    wanted.or_else(|| is_terminal.then(actual)).map(|width: u16| width.max(MIN_WIDTH))
}

#[cfg(test)]
mod tests;
