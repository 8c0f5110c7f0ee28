//! What is seen on a terminal while something is at work: a line for each executing run, a bar over the queue,
//! a count of something long.
//!
//! Only where stderr is a terminal and nobody wants quiet or JSON. The callers only say what happens; one
//! thread draws a few times a second, so nothing here delays an execution. Invariants: nothing is drawn in the
//! first moment, so short commands do not flicker; the cursor is never hidden and the terminal's mode never
//! changed, so there is nothing to restore however the program ends; everything is cleared before results
//! are printed. Deliberately not here: results.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{self, Write as _},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use super::{output::Output, text};
use crate::{
    domain::ids::{RunId, StepId},
    engine::attempt::Observer,
};

/// How long something must last before it is shown.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often it is drawn.
const REDRAW: Duration = Duration::from_millis(250);
/// Room at the end of each line, for what the terminal shows of two Ctrl-C.
const MARGIN: usize = 5;
/// How many cells the bar has.
const BAR: usize = 16;

/// Progress on stderr.
pub struct Progress<'o> {
    out: &'o Output,
    painter: Mutex<Option<Painter>>,
    shared: Arc<Shared>,
}

struct Painter {
    bar: ProgressBar,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    model: Mutex<Model>,
    /// Tells the drawing thread that it is over.
    over: Condvar,
}

/// What there is to see.
#[derive(Default)]
struct Model {
    over: bool,
    runs: BTreeMap<RunId, Line>,
    ended: usize,
    waiting: usize,
    counted: Option<(&'static str, u64)>,
}

/// What is known of one executing run.
#[derive(Debug, Clone)]
struct Line {
    since: Instant,
    doing: String,
}

impl<'o> Progress<'o> {
    /// Progress on the terminal of `out`, if it has one.
    pub fn new(out: &'o Output) -> Self {
        let shared = Arc::new(Shared::default());
        let painter = if out.shows_progress() { Painter::start(&shared) } else { None };
        Self { out, painter: Mutex::new(painter), shared }
    }

    /// Counts something long.
    pub fn counted(&self, what: &'static str, done: u64) {
        self.model().counted = Some((what, done));
    }

    /// Shows what a run does that somebody else executes; `since` is how long it has been doing it.
    pub fn watched(&self, run: &RunId, doing: &str, since: Duration) {
        let since = Instant::now().checked_sub(since).unwrap_or_else(Instant::now);
        self.model().runs.insert(run.clone(), Line { since, doing: doing.to_owned() });
    }

    /// Shows a run no more.
    pub fn rested(&self, run: &RunId) {
        let mut model = self.model();
        model.runs.remove(run);
        model.ended += 1;
    }

    /// Takes all lines away, for good.
    pub fn clear(&self) {
        let painter = self.painter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Painter { bar, thread }) = painter {
            self.model().over = true;
            self.shared.over.notify_all();
            let _ = thread.join();
            bar.finish_and_clear();
        }
    }

    /// Prints something while no line of progress is in the way.
    pub fn suspend(&self, print: impl FnOnce()) {
        let painter = self.painter.lock().unwrap_or_else(PoisonError::into_inner);
        match &*painter {
            Some(painter) => painter.bar.suspend(print),
            None => print(),
        }
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.shared.model()
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

impl std::fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

impl Observer for Progress<'_> {
    fn queued(&self, waiting: usize) {
        self.model().waiting = waiting;
    }

    fn attempt_started(&self, run: &RunId) {
        self.model().runs.insert(run.clone(), Line::now("starting".to_owned()));
    }

    fn step_started(&self, run: &RunId, step: &StepId, try_no: u32) {
        let doing = if try_no > 1 { format!("{step} (try {try_no})") } else { step.to_string() };
        self.model().runs.insert(run.clone(), Line::now(doing));
    }

    fn waiting(&self, run: &RunId, step: &StepId, delay: Duration) {
        let doing = format!("{step}: trying again in {}", text::elapsed(delay));
        self.model().runs.insert(run.clone(), Line::now(doing));
    }

    fn ended(&self, run: &RunId) {
        self.rested(run);
    }

    fn notifying(&self, run: &RunId) {
        self.model().runs.insert(run.clone(), Line::now("notification".to_owned()));
    }

    fn notified(&self, run: &RunId) {
        self.model().runs.remove(run);
    }

    fn notification_failed(&self, run: &RunId, why: &str) {
        self.suspend(|| self.out.warn(&format!("run {run}: a notification failed: {why}; what it wrote is in its folder, see `wfctl show {run}`")));
    }
}

impl Shared {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Painter {
    fn start(shared: &Arc<Shared>) -> Option<Self> {
        let style = ProgressStyle::with_template("{msg}").ok()?;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(style);
        let (shared, drawn) = (Arc::clone(shared), bar.clone());
        let thread = thread::Builder::new().name("progress".into()).spawn(move || draw(&shared, &drawn));
        Some(Self { bar, thread: thread.ok()? })
    }
}

/// Draws until it is over.
fn draw(shared: &Shared, bar: &ProgressBar) {
    let mut pause = PATIENCE;
    let mut model = shared.model();
    while !model.over {
        (model, _) = shared.over.wait_timeout(model, pause).unwrap_or_else(PoisonError::into_inner);
        if model.over {
            return;
        }
        if pause == PATIENCE {
            bar.set_draw_target(ProgressDrawTarget::term_like(Box::new(Frame::default())));
        }
        pause = REDRAW;
        let (rows, columns) = console_size();
        let lines = model.lines(Instant::now(), rows, columns);
        // Drawn without the model's lock, so that a slow terminal holds nobody up.
        drop(model);
        bar.set_message(lines.join("\n"));
        bar.tick();
        model = shared.model();
    }
}

/// Draws on stderr, a frame at a time.
///
/// The cursor stays behind the text of the last line and not at the edge of the terminal, where the `^C` that
/// the terminal itself shows would push it into the next line, and a line of progress would be left behind.
#[derive(Debug, Default)]
struct Frame(Mutex<String>);

impl Frame {
    fn add(&self, piece: std::fmt::Arguments<'_>) -> io::Result<()> {
        let mut frame = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frame.write_fmt(piece).map_err(io::Error::other)
    }

    fn step(&self, count: usize, direction: char) -> io::Result<()> {
        if count == 0 { Ok(()) } else { self.add(format_args!("\u{1b}[{count}{direction}")) }
    }
}

impl TermLike for Frame {
    fn width(&self) -> u16 {
        console_size().1.try_into().unwrap_or(u16::MAX)
    }

    fn height(&self) -> u16 {
        console_size().0.try_into().unwrap_or(u16::MAX)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.step(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.step(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.step(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.step(n, 'D')
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        self.add(format_args!("{s}\n"))
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        self.add(format_args!("{s}"))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.add(format_args!("\r\u{1b}[2K"))
    }

    fn flush(&self) -> io::Result<()> {
        let frame = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut stderr = io::stderr().lock();
        stderr.write_all(frame.trim_end_matches(' ').as_bytes())?;
        stderr.flush()
    }
}

fn console_size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => (24, 80),
    }
}

impl Line {
    fn now(doing: String) -> Self {
        Self { since: Instant::now(), doing }
    }

    /// One line where it fits, else two.
    fn render(&self, run: &RunId, now: Instant, id_width: usize, columns: usize) -> Vec<String> {
        let elapsed = elapsed(now.saturating_duration_since(self.since));
        let one = format!("{:<id_width$}  {}  {elapsed}", run.as_str(), self.doing);
        if one.len() + MARGIN <= columns {
            vec![one]
        } else {
            vec![run.to_string(), format!("  {}  {elapsed}", self.doing)]
        }
    }
}

/// Fractions of a second would only flicker.
fn elapsed(span: Duration) -> String {
    if span < Duration::from_secs(60) { format!("{}s", span.as_secs()) } else { text::elapsed(span) }
}

impl Model {
    /// The lines for a terminal of this size; what there is no room for is counted.
    fn lines(&self, now: Instant, rows: usize, columns: usize) -> Vec<String> {
        let room = rows.saturating_sub(3).max(1);
        let id_width = self.runs.keys().map(|run| run.as_str().len()).max().unwrap_or(0);
        let mut lines = Vec::new();
        let mut shown = 0;
        for (run, line) in &self.runs {
            let rendered = line.render(run, now, id_width, columns);
            if lines.len() + rendered.len() > room && shown > 0 {
                break;
            }
            lines.extend(rendered);
            shown += 1;
        }
        if let Some((what, done)) = self.counted {
            lines.push(format!("{what} {done}"));
        }
        lines.extend(self.overall(self.runs.len() - shown));
        for line in &mut lines {
            cut(line, columns.saturating_sub(MARGIN).max(1));
        }
        lines
    }

    /// The bar over all runs of a tick; none where there is only one.
    fn overall(&self, not_shown: usize) -> Option<String> {
        let total = self.ended + self.runs.len() + self.waiting;
        if total < 2 || (self.ended == 0 && self.waiting == 0 && not_shown == 0) {
            return None;
        }
        let filled = self.ended * BAR / total;
        let bar = format!("[{}{}]", "=".repeat(filled), " ".repeat(BAR - filled));
        let more = if not_shown > 0 { format!(", {not_shown} more at work") } else { String::new() };
        Some(format!("{bar} {}/{total}{more}, {} queued", self.ended, self.waiting))
    }
}

/// A line that wraps would be drawn over its neighbour on some terminals.
fn cut(line: &mut String, columns: usize) {
    if let Some((at, _)) = line.char_indices().nth(columns) {
        line.truncate(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let now = Instant::now();
        let mut model = Model { ended: 1, waiting: 2, ..Model::default() };
        for (run, doing) in
            [("nightly@20261201T040000Z", "extract"), ("sync@20261201T040000Z", "copy (try 2)")]
        {
            model.runs.insert(run.parse().unwrap(), Line { since: now, doing: doing.to_owned() });
        }
        model
    }

    #[test]
    fn each_run_has_a_line_and_all_have_a_bar() {
        let lines = model().lines(Instant::now() + Duration::from_secs(5), 24, 80);
        assert!(lines[0].starts_with("nightly@20261201T040000Z  extract  5s"), "{lines:?}");
        assert!(lines[1].starts_with("sync@20261201T040000Z     copy (try 2)  5s"), "{lines:?}");
        assert_eq!(lines[2], "[===             ] 1/5, 2 queued");
    }

    #[test]
    fn a_small_terminal_shows_what_it_has_room_for() {
        let lines = model().lines(Instant::now(), 5, 34);
        assert_eq!(lines[..2], ["nightly@20261201T040000Z", "  extract  0s"]);
        assert!(lines.iter().all(|line| line.len() < 30), "{lines:?}");
        let lines = model().lines(Instant::now(), 1, 1);
        assert!(lines.iter().all(|line| line.len() <= 1), "{lines:?}");
    }
}
