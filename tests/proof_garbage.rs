//! Damages every kind of file of a store in every way: the damage of one run or schedule stays its own,
//! `fsck` names it, nothing that is damaged is rewritten, and nothing panics or hangs.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod proof;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use proof::{Site, check::Snapshot, scenarios::run_of, signal_parent, step};
use serde_json::Value;

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Empty,
    Half,
    BitFlip,
    NulPadded,
    Folder,
    Fifo,
    DanglingLink,
    LinkOut,
    Unreadable,
}

const DAMAGES: [Damage; 9] = [
    Damage::Empty,
    Damage::Half,
    Damage::BitFlip,
    Damage::NulPadded,
    Damage::Folder,
    Damage::Fifo,
    Damage::DanglingLink,
    Damage::LinkOut,
    Damage::Unreadable,
];

impl Damage {
    fn inflict(self, path: &Path) {
        let bytes = fs::read(path).unwrap();
        let replaced = |bytes: &[u8]| fs::write(path, bytes).unwrap();
        match self {
            Self::Empty => replaced(b""),
            Self::Half => replaced(&bytes[..bytes.len() / 2]),
            Self::BitFlip => {
                let mut bytes = bytes;
                let middle = bytes.len() / 3;
                if let Some(byte) = bytes.get_mut(middle) {
                    *byte ^= 0x04;
                }
                replaced(&bytes);
            }
            Self::NulPadded => replaced(&[bytes, vec![0; 300]].concat()),
            Self::Folder => {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            }
            Self::Fifo => {
                fs::remove_file(path).unwrap();
                rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
                    .unwrap();
            }
            Self::DanglingLink => {
                fs::remove_file(path).unwrap();
                symlink("/nowhere/at/all", path).unwrap();
            }
            Self::LinkOut => {
                fs::remove_file(path).unwrap();
                symlink("/etc/hostname", path).unwrap();
            }
            // Bytes that are no text at all.
            Self::Unreadable => replaced(&[0xff, 0xfe, b'\n', 0x80, b'\n']),
        }
    }
}

/// A store with a run in each state, one of which (`other`) waits to be executed.
fn template(dir: PathBuf, work: PathBuf) -> Site {
    let site = Site::new(dir, work);
    site.ok(&["init", "--capacity", "2"]);
    let days = |n| (chrono::Utc::now() - chrono::TimeDelta::days(n)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let due = |file: &str, n| {
        site.ok(&["schedule", file, "--every", "1d", "--start", &days(n)]);
    };
    due(&site.workflow("done", &step("one", "echo said", "")), 3);
    due(&site.workflow("asks", "[[step]]\nid = \"ask\"\ninterrupt = \"go on?\"\n"), 1);
    site.ok(&["tick"]);
    let crash = site.workflow("crash", &step("one", &signal_parent("KILL", "true"), ""));
    due(&crash, 1);
    site.misbehave(true);
    assert_eq!(site.run(&["tick", "--no-recover"]).code, -9);
    site.misbehave(false);
    site.end_orphans();
    due(&site.workflow("other", &step("one", "true", "")), 1);
    site.ok(&["tick", "--no-dispatch", "--no-recover"]);
    let files = Snapshot::of(&site.store);
    assert_eq!(files.runs.len(), 4);
    site
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            files_below(&entry.path(), found);
        } else {
            found.push(entry.path());
        }
    }
}

/// Runs everything that reads or writes; the store is whatever it is.
fn exercise(site: &Site, broken: &mut Vec<String>) -> Option<Value> {
    let asks = run_of(site, "asks");
    let mut findings = None;
    let calls: Vec<Vec<&str>> = vec![
        vec!["--json", "fsck"],
        vec!["list"],
        vec!["status"],
        vec!["history"],
        vec!["schedules"],
        vec!["show", &asks],
        vec!["logs", &asks],
        vec!["next", "other"],
        vec!["recover", "--dry-run"],
        vec!["tick", "--dry-run"],
        vec!["recover"],
        vec!["tick"],
        vec!["prune", "--older-than", "400d"],
        vec!["tick"],
        vec!["fsck"],
    ];
    for args in calls {
        let called = catch_unwind(AssertUnwindSafe(|| site.run(&args)));
        match called {
            Ok(done) if done.code < 0 || matches!(done.code, 70 | 101 | 134) => {
                broken.push(format!("{args:?} ends with {done:?}"));
            }
            Ok(done) => {
                if args == ["--json", "fsck"] {
                    findings = serde_json::from_str(&done.stdout).ok();
                }
            }
            Err(panic) => broken.push(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
        }
    }
    findings
}

fn names(findings: Option<&Value>, path: &str) -> bool {
    findings.is_some_and(|findings| findings.to_string().contains(path))
}

/// The bytes of a file, or what it is instead.
fn look(path: &Path) -> String {
    match fs::symlink_metadata(path) {
        Err(error) => error.kind().to_string(),
        Ok(metadata) if metadata.is_file() => format!("{:?}", fs::read(path).unwrap()),
        Ok(metadata) => format!("{:?}", metadata.file_type()),
    }
}

fn damage_one(template: &Site, below: &Path, damage: Damage, name: &str) -> Vec<String> {
    let site = template.copy_to(template.dir.with_file_name(name));
    let path = site.store.join(below);
    let before = look(&path);
    damage.inflict(&path);
    let after = look(&path);
    let mut broken = Vec::new();
    let shown = below.to_str().unwrap();
    let findings = exercise(&site, &mut broken);
    let is_untouched = after == before;
    let is_plain_damage = matches!(
        damage,
        Damage::Empty | Damage::Half | Damage::NulPadded | Damage::BitFlip | Damage::Unreadable
    );
    // Notes about commands, on which nothing relies.
    let is_note = ["lock", "last_tick.json"].contains(&shown);
    let content_is_free = is_note || shown.ends_with(".log") || shown.ends_with(".context.json");
    // A journal whose one record is torn counts as an admission that never was.
    if !(is_untouched || content_is_free && is_plain_damage) && !names(findings.as_ref(), shown) {
        let of_folder = below.parent().unwrap().to_str().unwrap();
        let is_slot = shown.starts_with("slots/") && damage == Damage::Empty;
        // A setting that has the shape of one is one.
        let is_setting = shown == "wfctl.toml" && is_plain_damage;
        if !(is_slot || is_setting || shown.ends_with(".jsonl") && names(findings.as_ref(), of_folder)) {
            broken.push(format!("fsck does not name it: {findings:?}"));
        }
    }
    let is_evidence = shown.ends_with("schedule.json")
        || shown.ends_with("history.jsonl")
        || shown.ends_with("journal.jsonl")
        || shown.starts_with("workflows/")
        || shown == "wfctl.toml";
    if is_evidence && look(&path) != after && !is_expected_change(shown, damage) {
        broken.push(format!("it was rewritten: {after} became {}", look(&path)));
    }
    let is_shared = shown == "wfctl.toml" || shown == "lock" || shown.contains("other");
    let is_its_workflow = shown.starts_with("workflows/");
    if !is_shared && !is_its_workflow {
        let id = run_of(&site, "other");
        let run = Snapshot::of(&site.store).runs[&id].clone();
        if run.events.last().unwrap()["event"] != "completed" {
            broken.push(format!("another run does not go on: {}", run.events.last().unwrap()));
        }
    }
    fs::remove_dir_all(&site.dir).unwrap();
    broken.into_iter().map(|what| format!("{shown} {damage:?}: {what}")).collect()
}

/// A torn end is cut off by the next writer; a run whose only record is torn was never admitted.
fn is_expected_change(shown: &str, damage: Damage) -> bool {
    (shown.ends_with(".jsonl"))
        && matches!(damage, Damage::Half | Damage::NulPadded | Damage::Empty | Damage::BitFlip)
}

#[test]
fn damage_to_any_file_stays_where_it_is() {
    let base = proof::base();
    let template = template(base.path().join("template"), base.path().join("work"));
    let mut files = Vec::new();
    files_below(&template.store, &mut files);
    files.sort();
    let mut work: Vec<(PathBuf, Damage)> = Vec::new();
    for file in &files {
        let below = file.strip_prefix(&template.store).unwrap();
        work.extend(DAMAGES.iter().map(|damage| (below.to_owned(), *damage)));
    }
    let (next, broken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((below, damage)) = work.get(number) else { return };
                    let name = format!("d{number}");
                    let found =
                        catch_unwind(AssertUnwindSafe(|| damage_one(&template, below, *damage, &name)));
                    broken.lock().unwrap().extend(found.unwrap_or_else(|panic| {
                        let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        vec![format!("{} {damage:?}: {why}", below.display())]
                    }));
                }
            });
        }
    });
    let mut broken = broken.into_inner().unwrap();
    broken.sort();
    eprintln!("{} files, {} damages, {} broken", files.len(), work.len(), broken.len());
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// Makes a strange entry in the folder that is given.
type Strange = (&'static str, fn(&Path));

const STRANGE: [Strange; 10] = [
    ("a file", |dir| fs::write(dir.join("junk"), "x").unwrap()),
    ("a folder that is no run", |dir| fs::create_dir(dir.join("no run")).unwrap()),
    ("a run without a journal", |dir| fs::create_dir(dir.join("x@20261201T000000Z")).unwrap()),
    ("a run with a folder inside", |dir| fs::create_dir_all(dir.join("x@20261201T000000Z/deep")).unwrap()),
    ("a journal that is a folder", |dir| {
        fs::create_dir_all(dir.join("x@20261201T000000Z/journal.jsonl/deep")).unwrap();
    }),
    ("a link to a folder", |dir| symlink("/etc", dir.join("x@20261201T000000Z")).unwrap()),
    ("a link to itself", |dir| symlink("x@20261201T000000Z", dir.join("x@20261201T000000Z")).unwrap()),
    ("a FIFO", |dir| {
        let path = dir.join("x@20261201T000000Z");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    }),
    ("a name that is no text", |dir| {
        fs::create_dir(dir.join(OsStr::from_bytes(b"x\xff@20261201T000000Z"))).unwrap()
    }),
    ("a run under another name", |dir| {
        fs::create_dir(dir.join("x@20261201T000000Z")).unwrap();
        let journal = fs::read_dir(dir.parent().unwrap().join("active"))
            .unwrap()
            .map(|entry| entry.unwrap().path().join("journal.jsonl"))
            .find(|path| path.is_file())
            .unwrap();
        fs::copy(journal, dir.join("x@20261201T000000Z/journal.jsonl")).unwrap();
    }),
];

#[test]
fn strange_entries_disturb_nobody() {
    let base = proof::base();
    let template = template(base.path().join("template"), base.path().join("work"));
    let mut all = Vec::new();
    for folder in ["runs/active", "runs/done", "schedules", "slots", "workflows", "runs", ""] {
        for (number, (what, make)) in STRANGE.iter().enumerate() {
            let name = format!("s{number}-{}", folder.replace('/', "-"));
            let site = template.copy_to(template.dir.with_file_name(name));
            let is_possible = catch_unwind(AssertUnwindSafe(|| make(&site.store.join(folder)))).is_ok();
            if !is_possible {
                continue;
            }
            let mut broken = Vec::new();
            let findings = exercise(&site, &mut broken);
            let found = findings.as_ref().and_then(|f| f["items"].as_array()).is_some_and(|items| {
                items.iter().any(|item| {
                    let path = item["path"].as_str().unwrap();
                    path.contains("junk")
                        || path.contains("no run")
                        || path.contains("x@2026")
                        || path.contains("x\u{fffd}")
                })
            });
            if !found {
                broken.push(format!("fsck does not name it: {findings:?}"));
            }
            let id = run_of(&site, "other");
            let run = Snapshot::of(&site.store).runs[&id].clone();
            if run.events.last().unwrap()["event"] != "completed" {
                broken.push(format!("another run does not go on: {}", run.events.last().unwrap()));
            }
            all.extend(broken.into_iter().map(|why| format!("{what} in {folder:?}: {why}")));
            let _ = fs::remove_dir_all(&site.dir);
        }
    }
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}
