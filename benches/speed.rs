//! How fast the whole program is, as ratios to what else the same machine does in the same minutes.
//!
//! `cargo bench` prints a table. Each row measures two commands in turn, round after round, and gives the median
//! of the ratios of neighbours, because machines drift. What a row is compared with: the same work in an empty
//! store, another program where it is installed (`nq`, `xargs`), or the floor, a small C program that does
//! nothing but append, sync, spawn and wait. Its path comes from `WFCTL_FLOOR`; without it those rows are
//! skipped. `WFCTL_BENCH_HISTORY` is the number of finished runs of the big store, `WFCTL_BENCH_ROUNDS` that of the
//! rounds. An argument picks the rows that contain it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    missing_docs
)]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use wfctl::{
    domain::{
        event::{Admitted, AttemptKind, AttemptStarted, Event, StepEnding, StepFinished},
        ids::{Digest, RunId, ScheduleId, SlotIndex},
        workflow::Outcome,
    },
    store::{
        disk::{Disk as _, RealDisk},
        journal::Journal,
        layout,
    },
};

const WFCTL: &str = env!("CARGO_BIN_EXE_wfctl");
const TRUE: &str = "name = \"w\"\n[[step]]\nid = \"one\"\nrun = [\"/bin/true\"]\n";

fn main() {
    let bench = Bench::new();
    println!("| what | measured | compared with | ratio | bounded by |\n|---|---|---|---|---|");
    bench.dispatch();
    bench.enqueue();
    bench.batch();
    bench.foreground();
    bench.idle();
    bench.history();
}

struct Bench {
    base: tempfile::TempDir,
    rounds: usize,
    history: usize,
    only: Option<String>,
}

/// Over how many days the finished runs of the big store are spread.
const DAYS: usize = 400;

/// Two figures of one round; their ratio is what counts.
type Pair = (f64, f64);

impl Bench {
    fn new() -> Self {
        let number =
            |name: &str, default| env::var(name).ok().map_or(default, |text| text.parse().expect("a number"));
        let base = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(base.path().join("w.toml"), TRUE).unwrap();
        Self {
            base,
            rounds: number("WFCTL_BENCH_ROUNDS", 7),
            history: number("WFCTL_BENCH_HISTORY", 100_000),
            only: env::args().skip(1).find(|arg| !arg.starts_with('-')),
        }
    }

    fn wants(&self, what: &str) -> bool {
        self.only.as_ref().is_none_or(|only| what.contains(only.as_str()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    /// A fresh store with one schedule that is due once a year.
    fn store(&self, name: &str, capacity: usize) -> PathBuf {
        let store = self.path(name);
        let _ = fs::remove_dir_all(&store);
        run(self.wfctl(&store, &["init", "--capacity", &capacity.to_string()]));
        let file = self.path("w.toml");
        run(self.wfctl(&store, &["schedule", file.to_str().unwrap(), "--cron", "0 0 1 1 *"]));
        store
    }

    fn wfctl(&self, store: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(WFCTL);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.base.path());
        command.arg("--store").arg(store).args(args);
        command
    }

    /// Prints a row: the medians of both figures and of their ratios.
    fn row(&self, what: &str, unit: &str, other: &str, bound: &str, mut round: impl FnMut() -> Pair) {
        // What was made for the row must not be written back while it is measured.
        run(Command::new("sync"));
        let pairs: Vec<Pair> = (0..self.rounds.max(5)).map(|_| round()).collect();
        let of = |pick: &dyn Fn(&Pair) -> f64| median(pairs.iter().map(pick).collect());
        let (ours, theirs, ratio) = (of(&|p| p.0), of(&|p| p.1), of(&|p| p.0 / p.1));
        println!("| {what} | {ours:.1} {unit} | {other}: {theirs:.1} {unit} | {ratio:.2} | {bound} |");
    }

    fn dispatch(&self) {
        const RUNS: usize = 1000;
        let inputs = self.path("inputs");
        fs::write(&inputs, "{}\n".repeat(RUNS)).unwrap();
        let inputs = format!("@{}", inputs.display());
        for workers in [2, 4] {
            let what = format!("dispatch of {RUNS} runs of `/bin/true`, capacity {workers}");
            if !self.wants(&what) {
                continue;
            }
            let rate = || {
                let store = self.store("dispatch", workers);
                run(self.wfctl(&store, &["trigger", "w", "--inputs", &inputs]));
                RUNS as f64 / seconds(self.wfctl(&store, &["tick"]))
            };
            match env::var_os("WFCTL_FLOOR") {
                Some(floor) => {
                    let bound = "two synced appends and one exec a run";
                    self.row(&what, "runs/s", "the floor", bound, || {
                        (rate(), floor_rate(Path::new(&floor), self.base.path(), workers))
                    });
                }
                None => eprintln!("skipped, for WFCTL_FLOOR is not set: {what}, against the floor"),
            }
            if is_installed("xargs") {
                self.row(
                    &what,
                    "runs/s",
                    "`xargs -P`, which remembers nothing",
                    "two synced appends more than it",
                    || {
                        let mut command = Command::new("sh");
                        command.arg("-c").arg(format!("seq {RUNS} | xargs -n 1 -P {workers} /bin/true"));
                        (rate(), RUNS as f64 / seconds(command))
                    },
                );
            }
        }
    }

    fn enqueue(&self) {
        let what = "`trigger ID`, the whole process";
        if !self.wants(what) {
            return;
        }
        if !is_installed("nq") {
            eprintln!("skipped, for nq is not installed: {what}");
            return;
        }
        let (store, queue) = (self.store("enqueue", 2), self.path("nq"));
        fs::create_dir_all(&queue).unwrap();
        let bound = "three syncs: record, folder, runs/active";
        self.row(what, "ms", "`nq true`, which syncs nothing", bound, || {
            let ours = millis(self.wfctl(&store, &["trigger", "w"]));
            let mut nq = Command::new("nq");
            nq.env("NQDIR", &queue).args(["-q", "true"]);
            (ours, millis(nq))
        });
    }

    fn batch(&self) {
        let what = "`trigger ID --inputs FILE` of 3,000 lines";
        if !self.wants(what) {
            return;
        }
        let inputs = self.path("many-inputs");
        fs::write(&inputs, "{}\n".repeat(3000)).unwrap();
        let inputs = format!("@{}", inputs.display());
        let bound = "a folder and a file a run, one sync for all";
        self.row(what, "runs/s", "one `trigger` each", bound, || {
            let store = self.store("batch", 2);
            let many = 3000.0 / seconds(self.wfctl(&store, &["trigger", "w", "--inputs", &inputs]));
            (many, 1.0 / seconds(self.wfctl(&store, &["trigger", "w"])))
        });
    }

    fn idle(&self) {
        let what = "idle `tick`, 10,000 schedules";
        if !self.wants(what) {
            return;
        }
        let (few, many) = (self.store("few", 2), self.store("many", 2));
        let text = fs::read_to_string(many.join("schedules/w/schedule.json")).unwrap();
        for k in 1..10_000 {
            let folder = many.join(format!("schedules/w{k}"));
            fs::create_dir(&folder).unwrap();
            let text = text.replacen("\"id\": \"w\"", &format!("\"id\": \"w{k}\""), 1);
            fs::write(folder.join("schedule.json"), text).unwrap();
        }
        run(self.wfctl(&many, &["tick"]));
        let bound = "the start of a process, and reading one file";
        self.row(what, "ms", "with one schedule", bound, || {
            (millis(self.wfctl(&many, &["tick"])), millis(self.wfctl(&few, &["tick"])))
        });
    }

    fn foreground(&self) {
        let what = "`run` of one step";
        if !self.wants(what) {
            return;
        }
        let store = self.store("foreground", 2);
        let file = self.path("w.toml");
        let bound = "the start of a process, and five syncs: two records, three folders";
        self.row(what, "ms", "the step alone", bound, || {
            let ours = millis(self.wfctl(&store, &["run", file.to_str().unwrap()]));
            (ours, millis(Command::new("/bin/true")))
        });
    }

    fn history(&self) {
        let what = |command: &str| format!("`{command}`, {} finished runs", self.history);
        let commands: [&[&str]; 5] =
            [&["tick"], &["status"], &["list"], &["history"], &["show", "w@20260101T000000Z-m1"]];
        if !commands.iter().any(|command| self.wants(&what(command[0]))) {
            return;
        }
        let (small, big) = (self.store("small", 2), self.store("big", 2));
        // Otherwise a tick of the big one would delete what has become old.
        for store in [&small, &big] {
            run(self.wfctl(store, &["config", "keep", "forever"]));
        }
        // As many as on a day of the big one, so that both show a full page.
        let a_day = self.history.div_ceil(DAYS);
        fill(&small, a_day, a_day);
        let began = Instant::now();
        fill(&big, self.history, a_day);
        eprintln!("made {} finished runs in {:.0} s", self.history, began.elapsed().as_secs_f64());
        for command in commands.iter().filter(|command| self.wants(&what(command[0]))) {
            self.row(&what(command[0]), "ms", "those of one day", "the start of a process", || {
                (millis(self.wfctl(&big, command)), millis(self.wfctl(&small, command)))
            });
        }
    }
}

/// Writes finished runs of the schedule `w`, so many a day, as if they had been executed. Nothing is synced.
fn fill(store: &Path, count: usize, a_day: usize) {
    let disk = RealDisk::open(store).unwrap();
    let schedule: ScheduleId = "w".parse().unwrap();
    let digest = Digest::of(TRUE.as_bytes());
    let begin: DateTime<Utc> = "2026-01-01T00:00:00Z".parse().unwrap();
    for number in 0..count {
        let (day, of_day) = (number / a_day, number % a_day);
        let at = begin - TimeDelta::days(i64::try_from(day).unwrap());
        let run = RunId::for_manual(&schedule, at, u32::try_from(of_day).unwrap() + 1);
        let folder = layout::done_day(at.date_naive());
        if of_day == 0 {
            disk.create_dir(&folder).unwrap();
        }
        let folder = folder.join(run.as_str());
        disk.create_dir(&folder).unwrap();
        let admitted = Event::Admitted(Box::new(Admitted {
            run: run.clone(),
            schedule: Some(schedule.clone()),
            occurrence: at,
            manual: true,
            name: "w".to_owned(),
            workflow: digest.clone(),
            input: Value::Null,
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            cwd: "/".to_owned(),
        }));
        let (mut journal, mut state) =
            Journal::create(&disk, &layout::journal(&folder), &admitted, at).unwrap();
        for event in finished(&run) {
            journal.stage(&mut state, &event, at).unwrap();
        }
        journal.write_unsynced().unwrap();
    }
}

fn finished(run: &RunId) -> [Event; 4] {
    [
        Event::AttemptStarted(Box::new(AttemptStarted {
            attempt: 1,
            kind: AttemptKind::Dispatch,
            slot: Some(SlotIndex(0)),
            pid: 1,
            host: "host".to_owned(),
            by: None,
            outcome: None,
            payload: None,
            note: None,
        })),
        Event::StepStarted {
            attempt: 1,
            seq: 1,
            step: "one".parse().unwrap(),
            try_no: 1,
            key: format!("{run}/1"),
        },
        Event::StepFinished(Box::new(StepFinished {
            attempt: 1,
            seq: 1,
            step: "one".parse().unwrap(),
            outcome: Outcome::OK,
            ending: StepEnding { exit: Some(0), ..StepEnding::default() },
            output: Some(json!({ "rows": 7 })),
            ms: 1,
        })),
        Event::Completed { attempt: 1, outcome: Outcome::OK },
    ]
}

fn floor_rate(floor: &Path, base: &Path, workers: usize) -> f64 {
    let folder = base.join("floor");
    fs::create_dir_all(&folder).unwrap();
    let out = Command::new(floor).arg(&folder).args(["0.7", "1", "JOB own logs growing"]).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let rows = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let mut rates = rows.filter(|row| row.get(1) == Some(&workers.to_string().as_str()));
    rates.next().expect("a row of the floor")[2].parse().unwrap()
}

fn is_installed(program: &str) -> bool {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(program).is_file())
}

fn run(mut command: Command) {
    let out = command.stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn seconds(command: Command) -> f64 {
    let began = Instant::now();
    run(command);
    began.elapsed().as_secs_f64()
}

fn millis(command: Command) -> f64 {
    seconds(command) * 1e3
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
