//! The commands to be attacked: what the store is like before, the command, and what its success claims.

use std::{collections::BTreeMap, fs, path::Path, process::Child};

use chrono::{TimeDelta, Utc};

use super::{
    Done, Site,
    check::{Allow, Snapshot},
    signal_parent, step,
};

/// One command in one situation.
pub struct Scenario {
    pub name: &'static str,
    /// Makes the store before, and gives the command.
    pub setup: fn(&Site) -> Vec<String>,
    /// The exit codes that an undisturbed command may have.
    pub codes: &'static [i32],
    /// What the success of the command claims: checked wherever it ended with success.
    pub acked: fn(&Site, &Done),
    /// Something that goes on beside the command.
    pub beside: Option<fn(&Site) -> Child>,
    /// What an operator does first.
    pub heal: &'static [&'static [&'static str]],
    pub allow: Allow,
}

const NO_ALLOWANCE: Allow = Allow { prune: false, rewind: false };

const PLAIN: Scenario = Scenario {
    name: "",
    setup: |_| Vec::new(),
    codes: &[0],
    acked: |_, _| {},
    beside: None,
    heal: &[],
    allow: NO_ALLOWANCE,
};

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}

fn init(site: &Site, capacity: u32) {
    site.ok(&["init", "--capacity", &capacity.to_string()]);
}

fn days_ago(days: i64) -> String {
    (Utc::now() - TimeDelta::days(days)).format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A schedule that was due so many times. `policy` is for overlap and catch-up.
fn due(site: &Site, file: &str, times: i64, policy: &[&str]) {
    let start = days_ago(times);
    let mut args = vec!["schedule", file, "--every", "1d", "--start", &start];
    args.extend(policy);
    site.ok(&args);
}

fn two_steps(site: &Site, name: &str) -> String {
    site.workflow(name, &format!("{}{}", step("one", "true", ""), step("two", "true", "")))
}

fn quick(site: &Site, name: &str) -> String {
    site.workflow(name, &step("one", "true", ""))
}

fn gate(expires: &str) -> String {
    let expires = if expires.is_empty() { String::new() } else { format!("expires = \"{expires}\"\n") };
    let next = if expires.is_empty() { "" } else { "next = { expired = \"two\" }\n" };
    format!("[[step]]\nid = \"ask\"\ninterrupt = \"go on?\"\n{expires}{next}")
}

fn gated(site: &Site, name: &str, then: &str) -> String {
    site.workflow(name, &format!("{}{}{}", step("one", "true", ""), gate(""), step("two", then, "")))
}

/// The newest run of a schedule.
pub fn run_of(site: &Site, schedule: &str) -> String {
    let snapshot = Snapshot::of(&site.store);
    let mut runs = snapshot.runs.keys().filter(|run| run.split('@').next() == Some(schedule));
    runs.next_back().unwrap_or_else(|| panic!("no run of {schedule}")).clone()
}

fn last_word(site: &Site, run: &str) -> String {
    let snapshot = Snapshot::of(&site.store);
    let found = snapshot.runs.get(run).unwrap_or_else(|| panic!("no run {run}"));
    found.events.last().unwrap()["event"].as_str().unwrap().to_owned()
}

fn events(site: &Site, word: &str) -> usize {
    let snapshot = Snapshot::of(&site.store);
    let events = snapshot.runs.values().flat_map(|run| &run.events);
    events.filter(|event| event["event"] == word).count()
}

fn schedule_text(site: &Site, id: &str) -> serde_json::Value {
    let path = site.store.join("schedules").join(id).join("schedule.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// One run of `file`, interrupted at its gate.
fn interrupted(site: &Site, file: &str) -> String {
    let name = Path::new(file).file_stem().unwrap().to_str().unwrap().to_owned();
    due(site, file, 1, &[]);
    site.ok(&["tick"]);
    let run = run_of(site, &name);
    assert_eq!(last_word(site, &run), "interrupted");
    run
}

/// A run that a killed program has left in the middle of a step.
fn abandoned(site: &Site, name: &str, more: &str) -> String {
    let then = signal_parent("KILL", "true");
    let file = site.workflow(name, &format!("{}{}", step("one", &then, more), step("two", "true", "")));
    due(site, &file, 1, &[]);
    site.misbehave(true);
    let killed = site.run(&["tick", "--no-recover"]);
    assert_eq!(killed.code, -9, "{killed:?}");
    site.misbehave(false);
    site.end_orphans();
    run_of(site, name)
}

/// A run whose step failed.
fn failed(site: &Site, name: &str) -> String {
    let then = "[ ! -e \\\"$WFCTL_STORE/../misbehave\\\" ]";
    let file = site.workflow(name, &format!("{}{}", step("one", then, ""), step("two", "true", "")));
    due(site, &file, 1, &[]);
    site.misbehave(true);
    assert_eq!(site.run(&["tick"]).code, 1);
    site.misbehave(false);
    run_of(site, name)
}

/// A run whose step is unknown, as recovery has told.
fn ambiguous(site: &Site, name: &str) -> String {
    let run = abandoned(site, name, "");
    site.ok(&["recover"]);
    assert_eq!(last_word(site, &run), "failed");
    run
}

/// All commands.
#[allow(clippy::too_many_lines)]
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "init",
            setup: |_| words(&["init", "--capacity", "2"]),
            acked: |site, _| assert!(site.store.join("wfctl.toml").exists()),
            heal: &[&["init", "--capacity", "2"]],
            ..PLAIN
        },
        Scenario {
            name: "schedule",
            setup: |site| {
                init(site, 2);
                let file = two_steps(site, "a");
                words(&["schedule", &file, "--every", "1d", "--start", &days_ago(2), "--catchup", "all"])
            },
            acked: |site, _| assert_eq!(schedule_text(site, "a")["removed"], serde_json::Value::Null),
            ..PLAIN
        },
        Scenario {
            name: "replace",
            setup: |site| {
                init(site, 2);
                let file = two_steps(site, "a");
                due(site, &file, 3, &["--overlap", "allow"]);
                let file = quick(site, "a");
                words(&["schedule", &file, "--every", "1d", "--replace"])
            },
            acked: |site, done| {
                if done.code == 0 {
                    assert_eq!(schedule_text(site, "a")["overlap"], "skip");
                }
            },
            ..PLAIN
        },
        Scenario {
            name: "tick with a free slot",
            setup: |site| {
                init(site, 2);
                due(site, &two_steps(site, "a"), 1, &[]);
                words(&["tick"])
            },
            acked: |site, _| assert_eq!(last_word(site, &run_of(site, "a")), "completed"),
            ..PLAIN
        },
        Scenario {
            name: "tick with refill, skips and misses",
            setup: |site| {
                init(site, 1);
                due(site, &two_steps(site, "a"), 2, &["--overlap", "queue", "--catchup", "all"]);
                due(site, &quick(site, "b"), 3, &["--catchup", "all"]);
                due(site, &quick(site, "c"), 3, &[]);
                words(&["tick"])
            },
            acked: |site, _| assert_eq!(events(site, "completed"), 4),
            ..PLAIN
        },
        Scenario {
            name: "tick side by side",
            setup: |site| {
                init(site, 3);
                due(site, &quick(site, "a"), 4, &["--overlap", "allow", "--catchup", "all"]);
                due(site, &gated(site, "b", "true"), 1, &[]);
                words(&["tick"])
            },
            acked: |site, _| assert_eq!(events(site, "completed"), 4),
            ..PLAIN
        },
        Scenario {
            name: "tick that recovers",
            setup: |site| {
                init(site, 3);
                abandoned(site, "a", "");
                abandoned(site, "b", "idempotent = true");
                words(&["tick"])
            },
            acked: |site, _| assert_eq!(last_word(site, &run_of(site, "b")), "completed"),
            ..PLAIN
        },
        Scenario {
            name: "tick that expires gates",
            setup: |site| {
                init(site, 2);
                let on = site.workflow("a", &format!("{}{}", gate("10ms"), step("two", "true", "")));
                let end = site.workflow(
                    "b",
                    "[[step]]\nid = \"ask\"\ninterrupt = \"?\"\nexpires = \"10ms\"\nnext = { expired = \"end\" }\n",
                );
                due(site, &on, 1, &[]);
                due(site, &end, 1, &[]);
                site.ok(&["tick"]);
                std::thread::sleep(std::time::Duration::from_millis(20));
                words(&["tick"])
            },
            acked: |site, _| assert_eq!(events(site, "completed"), 2),
            ..PLAIN
        },
        Scenario {
            name: "tick that is fenced",
            setup: |site| {
                init(site, 2);
                let then = signal_parent("TERM", "exec sleep 60");
                due(site, &site.workflow("a", &step("one", &then, "")), 1, &[]);
                due(site, &quick(site, "b"), 1, &[]);
                site.misbehave(true);
                words(&["tick"])
            },
            codes: &[143],
            ..PLAIN
        },
        Scenario {
            name: "run",
            setup: |site| {
                init(site, 1);
                let file = two_steps(site, "a");
                words(&["run", &file, "--id", "mine"])
            },
            acked: |site, _| assert_eq!(last_word(site, "mine"), "completed"),
            ..PLAIN
        },
        Scenario {
            name: "run that its caller cancels",
            setup: |site| {
                init(site, 1);
                let then = signal_parent("INT", "exec sleep 60");
                let file = site.workflow("a", &step("one", &then, ""));
                site.misbehave(true);
                words(&["run", &file, "--id", "mine"])
            },
            codes: &[130],
            ..PLAIN
        },
        Scenario {
            name: "resume",
            setup: |site| {
                init(site, 1);
                let run = interrupted(site, &gated(site, "a", "true"));
                words(&["resume", &run])
            },
            acked: |site, _| assert_eq!(last_word(site, &run_of(site, "a")), "completed"),
            ..PLAIN
        },
        Scenario {
            name: "resume that its caller cancels",
            setup: |site| {
                init(site, 1);
                let run = interrupted(site, &gated(site, "a", &signal_parent("INT", "exec sleep 60")));
                site.misbehave(true);
                words(&["resume", &run])
            },
            codes: &[130],
            ..PLAIN
        },
        Scenario {
            name: "recover",
            setup: |site| {
                init(site, 3);
                abandoned(site, "a", "");
                abandoned(site, "b", "idempotent = true");
                let run = interrupted(site, &gated(site, "c", &signal_parent("KILL", "true")));
                site.misbehave(true);
                assert_eq!(site.run(&["resume", &run]).code, -9);
                site.misbehave(false);
                site.end_orphans();
                words(&["recover"])
            },
            acked: |site, _| assert_eq!(last_word(site, &run_of(site, "a")), "failed"),
            ..PLAIN
        },
        Scenario {
            name: "cancel a queued run",
            setup: |site| {
                init(site, 1);
                due(site, &quick(site, "a"), 1, &[]);
                site.ok(&["tick", "--no-dispatch"]);
                words(&["cancel", &run_of(site, "a")])
            },
            acked: |site, _| assert_eq!(last_word(site, &run_of(site, "a")), "cancelled"),
            ..PLAIN
        },
        Scenario {
            name: "cancel an interrupted run",
            setup: |site| {
                init(site, 1);
                let run = interrupted(site, &gated(site, "a", "true"));
                words(&["cancel", &run])
            },
            acked: |site, _| assert_eq!(last_word(site, &run_of(site, "a")), "cancelled"),
            ..PLAIN
        },
        Scenario {
            name: "cancel a live run",
            setup: |site| {
                init(site, 1);
                let then = "if [ -e \\\"$WFCTL_STORE/../misbehave\\\" ]; then echo $$ >> \\\"$WFCTL_STORE/../pids\\\"; exec sleep 60; fi";
                due(site, &site.workflow("a", &step("one", then, "")), 1, &[]);
                site.ok(&["tick", "--no-dispatch"]);
                site.misbehave(true);
                words(&["cancel", &run_of(site, "a")])
            },
            acked: |site, _| assert_eq!(last_word(site, &run_of(site, "a")), "failed"),
            beside: Some(|site| {
                let mut command = site.command(&["tick", "--no-recover"]);
                command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
                let child = command.spawn().unwrap();
                let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
                while !site.dir.join("pids").exists() {
                    assert!(std::time::Instant::now() < limit, "the live run never began");
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                child
            }),
            ..PLAIN
        },
        Scenario {
            name: "retry",
            setup: |site| {
                init(site, 1);
                let run = failed(site, "a");
                words(&["retry", &run])
            },
            acked: |site, _| assert_eq!(events(site, "retried"), 1),
            ..PLAIN
        },
        Scenario {
            name: "resolve",
            setup: |site| {
                init(site, 1);
                let run = ambiguous(site, "a");
                words(&["resolve", &run, "--as", "completed", "--note", "found out"])
            },
            acked: |site, _| assert_eq!(last_word(site, &run_of(site, "a")), "resolved"),
            ..PLAIN
        },
        Scenario {
            name: "prune",
            setup: |site| {
                init(site, 2);
                due(site, &two_steps(site, "a"), 3, &["--overlap", "queue", "--catchup", "all"]);
                site.ok(&["tick"]);
                words(&["prune", "--older-than", "0s"])
            },
            acked: |site, _| assert!(Snapshot::of(&site.store).runs.is_empty()),
            heal: &[&["prune", "--older-than", "0s"]],
            allow: Allow { prune: true, rewind: false },
            ..PLAIN
        },
        Scenario {
            name: "remove",
            setup: |site| {
                init(site, 1);
                due(site, &quick(site, "a"), 2, &["--catchup", "all"]);
                words(&["remove", "a"])
            },
            acked: |site, _| assert!(schedule_text(site, "a")["removed"].is_object()),
            ..PLAIN
        },
        Scenario {
            name: "pause",
            setup: |site| {
                init(site, 1);
                due(site, &quick(site, "a"), 2, &[]);
                words(&["pause", "a"])
            },
            acked: |site, _| assert!(schedule_text(site, "a")["paused"].is_object()),
            ..PLAIN
        },
        Scenario {
            name: "unpause",
            setup: |site| {
                init(site, 1);
                due(site, &quick(site, "a"), 3, &["--paused"]);
                words(&["unpause", "a"])
            },
            acked: |site, _| assert!(schedule_text(site, "a")["paused"].is_null()),
            // Its receipts may be there already while the schedule is still paused.
            heal: &[&["unpause", "a"]],
            ..PLAIN
        },
        Scenario {
            name: "rewind",
            setup: |site| {
                init(site, 1);
                due(site, &quick(site, "a"), 3, &[]);
                site.ok(&["tick"]);
                let future = (Utc::now() + TimeDelta::days(10)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
                site.ok(&["tick", "--now", &future]);
                words(&["rewind", "a"])
            },
            acked: |site, _| {
                let cursor = schedule_text(site, "a")["cursor"].as_str().unwrap().to_owned();
                assert!(cursor.parse::<chrono::DateTime<Utc>>().unwrap() <= Utc::now(), "{cursor}");
            },
            heal: &[&["rewind", "a"]],
            allow: Allow { prune: false, rewind: true },
            ..PLAIN
        },
        Scenario {
            name: "config",
            setup: |site| {
                init(site, 1);
                words(&["config", "capacity", "3"])
            },
            acked: |site, _| {
                assert!(fs::read_to_string(site.store.join("wfctl.toml")).unwrap().contains("capacity = 3"));
            },
            ..PLAIN
        },
        Scenario {
            name: "trigger",
            setup: |site| {
                init(site, 1);
                site.ok(&["schedule", &quick(site, "a"), "--every", "1d"]);
                words(&["trigger", "a"])
            },
            acked: |site, _| assert_eq!(Snapshot::of(&site.store).runs.len(), 1),
            ..PLAIN
        },
        Scenario {
            name: "trigger with many inputs",
            setup: |site| {
                init(site, 1);
                site.ok(&["schedule", &quick(site, "a"), "--every", "1d"]);
                fs::write(site.work.join("inputs"), "1\n2\n3\n").unwrap();
                words(&["trigger", "a", "--inputs", "@inputs"])
            },
            // Committed is admitted; whoever next clears up files what could not be filed.
            acked: |site, _| {
                site.ok(&["recover"]);
                assert_eq!(all_runs(site), 3);
            },
            ..PLAIN
        },
        Scenario {
            name: "drain",
            setup: |site| {
                init(site, 1);
                words(&["drain"])
            },
            acked: |site, _| assert!(site.store.join("draining").exists()),
            heal: &[&["undrain"]],
            ..PLAIN
        },
        Scenario {
            name: "undrain",
            setup: |site| {
                init(site, 1);
                site.ok(&["drain"]);
                words(&["undrain"])
            },
            acked: |site, _| assert!(!site.store.join("draining").exists()),
            heal: &[&["undrain"]],
            ..PLAIN
        },
    ]
}

/// The runs of a store, those of a batch that is committed and not filed yet included.
fn all_runs(site: &Site) -> usize {
    let mut runs: BTreeMap<String, ()> = BTreeMap::new();
    runs.extend(Snapshot::of(&site.store).runs.into_keys().map(|run| (run, ())));
    runs.len()
}

/// What must hold after a command with more than one run, whichever way it was ended: all or none.
pub fn check_all_or_none(scenario: &str, site: &Site) -> Result<(), String> {
    let runs = all_runs(site);
    if scenario == "trigger with many inputs" && runs != 0 && runs != 3 {
        return Err(format!("{runs} of 3 runs were admitted"));
    }
    Ok(())
}
