//! `wfctl logs`: what the steps of a run wrote.
//!
//! Bytes as they are where nobody looks at a terminal. With `-f` new output, new steps and new attempts are
//! picked up until the run stops, somebody interrupts, or the reader goes away.

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{
    super::{Done, Session},
    wait::{pause, watch_run},
};
use crate::{
    cli::{args::LogsArgs, error::Failure, table::Tone, text::LogFilter},
    domain::ids::RunId,
    engine::query::{Liveness, LoadedRun, Names},
    state::run::Status,
    store::{Store, layout, watch::Watch},
};

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// How often to look where no change is told.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What was printed so far.
struct Printer<'s> {
    session: &'s Session<'s>,
    store: &'s Store,
    wanted: Option<String>,
    /// How much of each step execution was printed.
    offsets: BTreeMap<u32, u64>,
    filter: LogFilter,
    /// The execution whose output was printed last.
    last: Option<u32>,
    ends_line: bool,
}

pub(in crate::cli::commands) fn logs(session: &Session<'_>, args: &LogsArgs) -> Done {
    let store = session.open_store()?;
    let run = session.find(&store, &args.run, Names::RunsAndSchedules)?;
    let mut printer = Printer {
        session,
        store: &store,
        wanted: args.step.as_ref().map(ToString::to_string),
        offsets: BTreeMap::new(),
        filter: LogFilter::default(),
        last: None,
        ends_line: true,
    };
    let first = session.load(&store, &run)?;
    refuse_unknown_step(&printer, &first, args.follow)?;
    let code = follow(&mut printer, &run, args.follow);
    printer.finish_filter();
    code
}

fn refuse_unknown_step(printer: &Printer<'_>, loaded: &LoadedRun, follows: bool) -> Result<(), Failure> {
    let Some(wanted) = printer.wanted.as_deref() else { return Ok(()) };
    let mut names: Vec<&str> = loaded.state.steps.iter().map(|step| step.step.as_str()).collect();
    names.dedup();
    if follows || names.contains(&wanted) {
        return Ok(());
    }
    let run = &loaded.state.admitted.run;
    let failure = Failure::new(66, "no_step", format!("run {run} has not started a step {wanted}"));
    Err(if names.is_empty() {
        failure.with_hint("it has not started any step yet")
    } else {
        failure.with_hint(format!("it has started {}", names.join(", ")))
    })
}

fn follow(printer: &mut Printer<'_>, run: &RunId, follows: bool) -> Done {
    let session = printer.session;
    loop {
        // Watches first, then looks: what is written in between wakes the next wait.
        let mut watch = Watch::new();
        watch_run(&mut watch, printer.store, run);
        let loaded = session.load(printer.store, run)?;
        printer.print(&loaded, &mut watch);
        if !follows || has_stopped(&loaded) || !session.out.is_open() {
            return Ok(0);
        }
        session.out.flush();
        if !session.out.has_reader() {
            return Ok(0);
        }
        pause(&session.signals, &watch, LOOK_EVERY)?;
    }
}

/// Whether nothing more is to be expected. An abandoned run goes on only when somebody recovers it.
fn has_stopped(run: &LoadedRun) -> bool {
    match run.liveness {
        Liveness::Live => false,
        Liveness::Abandoned => true,
        Liveness::Idle => run.state.status() != Status::Queued,
    }
}

impl Printer<'_> {
    fn print(&mut self, run: &LoadedRun, watch: &mut Watch) {
        let steps = (1u32..).zip(&run.state.steps);
        let wanted = self.wanted.clone();
        let steps: Vec<_> = steps
            .filter(|(_, step)| wanted.as_deref().is_none_or(|wanted| wanted == step.step.as_str()))
            .collect();
        let look = self.session.out.look();
        let has_headers = steps.len() > 1 && (self.session.out.stdout_is_terminal() || look.verbose > 0);
        for (seq, step) in steps {
            let path = layout::log(&run.dir, seq, &step.step);
            if step.finished.is_none() {
                watch.add(&self.store.root().join(&path));
            }
            let header =
                has_headers.then(|| format!("==> {} (execution {seq}, try {})", step.step, step.try_no));
            self.copy(seq, &path, header.as_deref());
        }
    }

    fn copy(&mut self, seq: u32, path: &Path, header: Option<&str>) {
        let out = self.session.out;
        while out.is_open() {
            let offset = self.offsets.get(&seq).copied().unwrap_or(0);
            let Ok((bytes, size)) = self.store.disk().read_at(path, offset, PIECE) else { return };
            if size < offset {
                // An attempt was withdrawn and its log replaced.
                self.offsets.insert(seq, 0);
                continue;
            }
            if bytes.is_empty() {
                return;
            }
            if self.last != Some(seq) {
                self.begin(seq, header);
            }
            self.offsets.insert(seq, offset + bytes.len() as u64);
            self.ends_line = bytes.ends_with(b"\n");
            out.log(&mut self.filter, &bytes);
        }
    }

    /// What belongs between the output of two step executions.
    fn begin(&mut self, seq: u32, header: Option<&str>) {
        self.finish_filter();
        self.last = Some(seq);
        let Some(header) = header else { return };
        if !self.ends_line {
            self.session.out.bytes(b"\n");
        }
        let header = self.session.out.paint(header, Tone::Dim);
        self.session.out.bytes(format!("{header}\n").as_bytes());
    }

    fn finish_filter(&mut self) {
        if self.session.out.stdout_is_terminal() {
            let rest = self.filter.finish();
            self.session.out.bytes(&rest);
        }
    }
}
