//! What each command does, one short function each: arguments to the engine, its answer to words.
//!
//! Deliberately not here: any decision about a run or a store, and how values look.

mod define;
mod execute;
mod look;
mod settle;
mod tick;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::{
    World,
    args::{ByArgs, Cli, Command, GlobalArgs},
    error::Failure,
    output::{Effect, Output},
    text::shell_word,
};
use crate::{
    domain::{
        ids::RunId,
        trigger::{Zone, parse_time},
    },
    engine::{
        Clock, Engine, ProcessName,
        query::{LoadedRun, Names, find_run, load_run, view::RunShow},
    },
    process::{Signals, check_open_files, process_start},
    store::{Store, StoreError},
};

/// A payload or input file that is larger is refused.
const LARGEST_INPUT: u64 = 16 << 20;

/// What a command ends with.
type Done = Result<u8, Failure>;

/// What every command has at hand.
struct Session<'w> {
    global: &'w GlobalArgs,
    out: &'w Output,
    env: &'w BTreeMap<OsString, OsString>,
    clock: &'w Clock,
    signals: Signals,
    name: &'static str,
}

/// Carries out a command and gives its exit status.
pub(super) fn dispatch(world: &World<'_>, cli: &Cli, out: &Output) -> u8 {
    let (name, effect, waits) = nature(&cli.command);
    let signals = match if waits { Signals::install() } else { Signals::detached() } {
        Ok(signals) => signals,
        Err(error) => {
            let failure = Failure::new(74, "io", format!("cannot watch for signals: {error}"));
            out.failure(&failure);
            return out.finish(failure.code, effect);
        }
    };
    if executes(&cli.command)
        && let Err(error) = check_open_files()
    {
        let failure = Failure::new(74, "system", error.to_string()).with_hint("ulimit -n 1024 raises it");
        out.failure(&failure);
        return out.finish(failure.code, effect);
    }
    let session = Session { global: &cli.global, out, env: &world.env, clock: world.clock, signals, name };
    let code = match carry_out(&session, &cli.command) {
        Ok(code) => code,
        Err(failure) => {
            out.failure(&failure);
            failure.code
        }
    };
    out.finish(code, effect)
}

/// Whether a command may start steps.
fn executes(command: &Command) -> bool {
    matches!(command, Command::Run(_) | Command::Tick(_) | Command::Resume(_))
}

/// The command's name, whether it only reads, and whether it may wait or execute.
fn nature(command: &Command) -> (&'static str, Effect, bool) {
    use Effect::{Changes, Reads};
    match command {
        Command::Init(_) => ("init", Changes, false),
        Command::Check(_) => ("check", Reads, false),
        Command::Schedule(_) => ("schedule", Changes, false),
        Command::Run(_) => ("run", Changes, true),
        Command::Trigger(_) => ("trigger", Changes, false),
        Command::Tick(_) => ("tick", Changes, true),
        Command::Resume(_) => ("resume", Changes, true),
        Command::Recover(_) => ("recover", Changes, false),
        Command::Cancel(_) => ("cancel", Changes, true),
        Command::Resolve(_) => ("resolve", Changes, false),
        Command::Retry(_) => ("retry", Changes, false),
        Command::Wait(_) => ("wait", Reads, true),
        Command::Drain(_) => ("drain", Changes, true),
        Command::Undrain => ("undrain", Changes, false),
        Command::Pause(_) => ("pause", Changes, false),
        Command::Unpause(_) => ("unpause", Changes, false),
        Command::Remove(_) => ("remove", Changes, false),
        Command::Rewind(_) => ("rewind", Changes, false),
        Command::Status => ("status", Reads, false),
        Command::Schedules(_) => ("schedules", Reads, false),
        Command::List(_) => ("list", Reads, false),
        Command::History(_) => ("history", Reads, false),
        Command::Show(_) => ("show", Reads, false),
        Command::Logs(_) => ("logs", Reads, true),
        Command::Next(_) => ("next", Reads, false),
        Command::Config(_) => ("config", Changes, false),
        Command::Prune(_) => ("prune", Changes, false),
        Command::Fsck => ("fsck", Reads, false),
        Command::Metrics(_) => ("metrics", Changes, false),
        Command::Completions(_) => ("completions", Reads, false),
        Command::Man(_) => ("man", Changes, false),
        Command::Complete(_) => ("complete", Reads, false),
    }
}

fn carry_out(session: &Session<'_>, command: &Command) -> Done {
    match command {
        Command::Init(args) => define::init(session, args),
        Command::Check(args) => define::check(session, args),
        Command::Schedule(args) => define::schedule(session, args),
        Command::Run(args) => execute::run(session, args),
        Command::Trigger(args) => define::trigger(session, args),
        Command::Tick(args) => tick::tick(session, args),
        Command::Resume(args) => execute::resume(session, args),
        Command::Recover(args) => settle::recover(session, args),
        Command::Cancel(args) => settle::cancel(session, args),
        Command::Resolve(args) => settle::resolve(session, args),
        Command::Retry(args) => settle::retry(session, args),
        Command::Wait(args) => look::wait(session, args),
        Command::Drain(args) => settle::drain(session, args),
        Command::Undrain => settle::undrain(session),
        Command::Pause(args) => define::pause(session, args),
        Command::Unpause(args) => define::unpause(session, args),
        Command::Remove(args) => define::remove(session, args),
        Command::Rewind(args) => define::rewind(session, args),
        Command::Status => look::status(session),
        Command::Schedules(args) => look::schedules(session, args),
        Command::List(args) => look::list(session, args),
        Command::History(args) => look::history(session, args),
        Command::Show(args) => look::show(session, args),
        Command::Logs(args) => look::logs(session, args),
        Command::Next(args) => look::next(session, args),
        Command::Config(args) => settle::config(session, args),
        Command::Prune(args) => settle::prune(session, args),
        Command::Fsck => look::fsck(session),
        Command::Metrics(args) => look::metrics(session, args),
        Command::Completions(args) => Ok(look::completions(session, args)),
        Command::Man(args) => look::man(session, args),
        Command::Complete(args) => Ok(look::complete(session, args)),
    }
}

impl Session<'_> {
    fn now(&self) -> DateTime<Utc> {
        (self.clock)()
    }

    /// The folder that the store is in, by option, environment or custom.
    fn store_path(&self) -> Result<PathBuf, Failure> {
        let var = |name: &str| self.env.get(OsStr::new(name)).filter(|value| !value.is_empty());
        let state_home = || {
            var("XDG_STATE_HOME")
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
                .map(|p| p.join("wfctl"))
        };
        let home = || var("HOME").map(|home| Path::new(home).join(".local/state/wfctl"));
        let path = self
            .global
            .store
            .clone()
            .or_else(|| var("WFCTL_STORE").map(PathBuf::from))
            .or_else(state_home)
            .or_else(home)
            .ok_or_else(|| {
                Failure::new(78, "config", "there is no telling where the store is: HOME is not set")
                    .with_hint("name it with --store DIR or WFCTL_STORE")
            })?;
        std::path::absolute(&path).map_err(|error| Failure::file("resolve", &path, &error))
    }

    fn open_store(&self) -> Result<Store, Failure> {
        Store::open(&self.store_path()?, self.name).map_err(|error| Failure::of_store(&error))
    }

    /// Opens the store and creates it where it is missing, which is said.
    fn open_or_create_store(&self) -> Result<Store, Failure> {
        let path = self.store_path()?;
        match Store::open(&path, self.name) {
            Err(StoreError::NoStore { .. }) => {
                if Store::create(&path, None).map_err(|error| Failure::of_store(&error))? {
                    self.out.note(&format!("created the store {}", path.display()));
                }
                Store::open(&path, self.name)
            }
            opened => opened,
        }
        .map_err(|error| Failure::of_store(&error))
    }

    fn engine<'s>(&'s self, store: &'s Store) -> Engine<'s> {
        let pid = std::process::id();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Engine {
            store,
            clock: self.clock,
            signals: &self.signals,
            process: ProcessName { pid, start: process_start(pid), host },
            env: self.env.clone(),
            lock_timeout: self.global.lock_timeout.unwrap_or(store.settings().lock_timeout),
        }
    }

    /// A command of this program for the same store, as a shell takes it.
    fn command(&self, rest: &str) -> String {
        match &self.global.store {
            Some(store) => format!("wfctl --store {} {rest}", shell_word(&store.to_string_lossy())),
            None => format!("wfctl {rest}"),
        }
    }

    /// The two ways to settle an ambiguous run. Apart, because a `|` between the words would be a pipe.
    fn resolve_commands(&self, run: &str) -> [String; 2] {
        ["completed", "failed"].map(|word| self.command(&format!("resolve {run} --as {word} --note TEXT")))
    }

    /// Who does this, for the record.
    fn by(&self, args: &ByArgs) -> String {
        let var = |name: &str| {
            self.env.get(OsStr::new(name)).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
        };
        args.by
            .clone()
            .or_else(|| var("SUDO_USER").map(str::to_owned))
            .or_else(login_name)
            .or_else(|| var("LOGNAME").or_else(|| var("USER")).map(str::to_owned))
            .unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
    }

    #[expect(clippy::unused_self, reason = "reads like its neighbours")]
    fn find(&self, store: &Store, text: &str, names: Names) -> Result<RunId, Failure> {
        find_run(store, text, names).map_err(|error| Failure::of(&error))
    }

    fn load(&self, store: &Store, run: &RunId) -> Result<LoadedRun, Failure> {
        load_run(store, run, self.now()).map_err(|error| Failure::of(&error))
    }

    /// A point in time as a person wrote it.
    fn time(&self, option: &str, text: &str, zone: &Zone) -> Result<DateTime<Utc>, Failure> {
        parse_time(text, zone, self.now()).map_err(|error| {
            let failure = Failure::of_trigger(&error);
            let message = format!("{option}: {}", failure.message);
            let usage = Failure::usage(message);
            match failure.hint {
                Some(hint) => usage.with_hint(hint),
                None => usage,
            }
        })
    }

    /// Prints a run as `show` does: JSON, or one line of text.
    fn print_run(&self, store: &Store, run: &RunId) -> Result<(), Failure> {
        let loaded = self.load(store, run)?;
        let shown = RunShow::of(store, &loaded);
        if self.out.is_json() {
            self.out.json(&shown);
        } else {
            look::print_outcome(self, &shown, self.now());
        }
        Ok(())
    }
}

/// Prints the commands that answer a gate, one for each outcome.
fn show_gate_commands(
    session: &Session<'_>,
    indent: usize,
    run: &str,
    outcomes: &[String],
    has_schema: bool,
) {
    let payload = if has_schema { " --payload @FILE" } else { "" };
    for outcome in outcomes {
        let command = session.command(&format!("resume {run} --outcome {outcome}{payload}"));
        session.out.command(indent, &command);
    }
}

/// The name of the user that owns this process, from the password file: the only place that a container or
/// a cron job without environment still has.
fn login_name() -> Option<String> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let text = crate::store::disk::read_outside(Path::new("/etc/passwd"), 1 << 20).ok()?;
    String::from_utf8_lossy(&text).lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

/// A JSON value given as text, as `@FILE`, or (where `stdin` allows it) as `-`.
fn json_value(option: &str, text: &str, stdin: Stdin) -> Result<Value, Failure> {
    let (source, bytes) = match (text, stdin) {
        ("-", Stdin::Allowed) => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .lock()
                .take(LARGEST_INPUT + 1)
                .read_to_end(&mut bytes)
                .map_err(|error| Failure::file("read", Path::new("-"), &error))?;
            ("stdin".to_owned(), bytes)
        }
        _ => match text.strip_prefix('@') {
            Some(path) => (path.to_owned(), read_file(Path::new(path))?),
            None => (String::new(), text.as_bytes().to_vec()),
        },
    };
    if bytes.len() as u64 > LARGEST_INPUT {
        return Err(Failure::new(65, "bad_input", format!("{option}: {source} is larger than 16 MiB")));
    }
    parse_json(option, &source, &bytes)
}

fn parse_json(option: &str, source: &str, bytes: &[u8]) -> Result<Value, Failure> {
    crate::domain::json::parse_value(bytes).map_err(|why| {
        let of = if source.is_empty() { String::new() } else { format!(" of {source}") };
        Failure::new(65, "bad_input", format!("{option}: the value{of} {why}"))
            .with_hint("text needs quotes of its own: '\"text\"'; an object: '{\"key\": 1}'")
    })
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    crate::store::disk::read_outside(path, LARGEST_INPUT + 1)
        .map_err(|error| Failure::file("read", path, &error))
}

/// Whether `-` means stdin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stdin {
    Allowed,
    Refused,
}

/// A text form of a duration for `--wait` and `--timeout`: none means for ever.
fn or_forever(wait: Option<Duration>) -> Duration {
    wait.unwrap_or(Duration::MAX)
}

#[allow(clippy::needless_pass_by_value, reason = "they are made for it")]
fn items(values: Vec<Value>) -> Value {
    json!({ "items": values })
}
