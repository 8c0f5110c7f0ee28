//! Makes the system calls of every command fail with EIO and ENOSPC, once or for good, and fills real file
//! systems; then the disk is back, an operator goes over the store, and all promises are checked.
//!
//! Bounded unless `WFCTL_PROOF=full`.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod proof;

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use proof::{
    Done, Site,
    check::{Snapshot, heal_and_check},
    sample,
    scenarios::{Scenario, all, check_all_or_none},
    step,
    tracer::{self, Fault, Points, Traced},
};

/// Points of one command in the bounded form.
const BOUNDED: u64 = 7;

/// Whether a message says on which file of the store something failed, in full or below the store.
fn names_path(stderr: &str, site: &Site) -> bool {
    let parts = ["lock", "wfctl.toml", "draining", "workflows", "schedules", "slots", "runs", ".tmp-"];
    stderr.split_whitespace().any(|word| {
        let below =
            word.strip_prefix(site.store.to_str().unwrap()).map_or(word, |rest| rest.trim_matches('/'));
        below.is_empty() || below == ":" || parts.iter().any(|part| below.starts_with(part))
    })
}

fn attack(scenario: &Scenario, template: &Site, command: &[String], fault: Fault, name: &str) -> Traced {
    let site = template.copy_to(template.dir.with_file_name(name));
    let before = Snapshot::of(&site.store);
    let mut beside = scenario.beside.map(|start| start(&site));
    let traced = tracer::run(site.command(command), fault, Points::Disk, &site.store, &site.dir);
    let done = Done { code: traced.code, stdout: traced.stdout.clone(), stderr: traced.stderr.clone() };
    let checked = catch_unwind(AssertUnwindSafe(|| {
        let is_success = scenario.codes.contains(&traced.code);
        assert!(
            is_success || traced.code == 74 || traced.code == 1,
            "exit {}: {}",
            traced.code,
            traced.stderr
        );
        if let Some(hit) = &traced.hit {
            assert!(
                traced.code != 74 || names_path(&traced.stderr, &site),
                "no path is named: {}",
                traced.stderr
            );
            // What a signal ends claims nothing.
            let is_success = is_success && traced.code < 128;
            let is_sync = ["fsync", "fdatasync", "syncfs"].iter().any(|sync| hit.starts_with(sync));
            assert!(!(is_sync && is_success), "a failed sync was taken for success: {}", traced.stderr);
        }
        if traced.code == 0 {
            (scenario.acked)(&site, &done);
        }
        site.end_orphans();
        if let Some(child) = &mut beside {
            let _ = child.wait();
        }
        for args in scenario.heal {
            site.ok(args);
        }
        let mut broken = heal_and_check(&site, &before, scenario.allow);
        if traced.hit.as_ref().is_some_and(|hit| hit.starts_with("unlinkat")) {
            // What could not be removed stays; that is no reason to fail a run.
            broken.0.retain(|what| !(what.starts_with("debris: ") && what.ends_with(".context.json")));
        }
        let mut text = broken.text();
        if let Err(why) = check_all_or_none(scenario.name, &site) {
            text.push_str(&why);
        }
        assert!(text.is_empty(), "\n{text}{}", traced.stderr);
    }));
    if let Err(panic) = checked {
        let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        let kept = std::env::temp_dir().join(format!("wfctl-broken-{}", std::process::id())).join(name);
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        proof::copy_tree(&site.dir, &kept);
        panic!("{} with {fault:?} at {:?} (kept in {}): {why}", scenario.name, traced.hit, kept.display());
    }
    fs::remove_dir_all(&site.dir).unwrap();
    traced
}

fn attack_all(scenario: &Scenario, number: usize) -> (usize, u64, Vec<String>) {
    let base = proof::base();
    let template = Site::new(base.path().join("template"), base.path().join("work"));
    let command = (scenario.setup)(&template);
    let clean = attack(scenario, &template, &command, Fault::None, &format!("{number}-clean"));
    let mut broken = Vec::new();
    let mut tried = 0;
    for at in sample(clean.points.len() as u64, BOUNDED, number as u64) {
        let mut faults = vec![
            Fault::Fail { at, errno: libc::ENOSPC },
            Fault::FailFrom { at, errno: libc::EIO },
            Fault::Fail { at, errno: libc::EIO },
            Fault::FailFrom { at, errno: libc::ENOSPC },
        ];
        if !proof::is_full() {
            faults.truncate(2);
        }
        for (kind, fault) in faults.into_iter().enumerate() {
            let name = format!("{number}-{at}-{kind}");
            let attacked =
                catch_unwind(AssertUnwindSafe(|| attack(scenario, &template, &command, fault, &name)));
            match attacked {
                Ok(traced) => tried += u64::from(traced.was_hit()),
                Err(panic) => broken.push(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
            }
        }
    }
    (clean.points.len(), tried, broken)
}

#[test]
fn whatever_call_fails_nothing_is_claimed_that_is_not_so() {
    if let Some(why) = tracer::unavailable() {
        eprintln!("skipped: {why}");
        return;
    }
    let only = std::env::var("WFCTL_PROOF_ONLY").ok();
    let scenarios: Vec<Scenario> = all()
        .into_iter()
        .filter(|scenario| only.as_deref().is_none_or(|only| scenario.name.contains(only)))
        .collect();
    let next = AtomicUsize::new(0);
    let broken = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(number) else { return };
                    let attacked = catch_unwind(AssertUnwindSafe(|| attack_all(scenario, number)));
                    let (points, tried, found) = attacked.unwrap_or_else(|panic| {
                        (0, 0, vec![panic.downcast_ref::<String>().cloned().unwrap_or_default()])
                    });
                    eprintln!(
                        "{:<40} {points:>4} points, {tried:>4} failed, {} broken",
                        scenario.name,
                        found.len()
                    );
                    broken.lock().unwrap().extend(found);
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap();
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

/// A small file system in memory, unmounted on drop.
struct Mounted<'p>(&'p Path);

impl<'p> Mounted<'p> {
    fn new(at: &'p Path, options: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(at)
            .output()
            .is_ok_and(|out| out.status.success());
        done.then_some(Self(at))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).output();
    }
}

fn fill_and_free(options: &str, fill: fn(&Path) -> u32, free: fn(&Path, u32)) {
    let base = proof::base();
    let place = base.path().join("place");
    let Some(_mounted) = Mounted::new(&place, options) else {
        eprintln!("skipped: a tmpfs cannot be mounted here");
        return;
    };
    let site = Site::new(place.join("site"), base.path().join("work"));
    site.ok(&["init", "--capacity", "2"]);
    let file = site.workflow("a", &step("one", "true", ""));
    let start = (chrono::Utc::now() - chrono::TimeDelta::days(3)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let args =
        ["schedule", &file, "--every", "1d", "--start", &start, "--overlap", "queue", "--catchup", "all"];
    site.ok(&args);
    let before = Snapshot::of(&site.store);
    let full = fill(&place);
    // The outputs of these calls have no room beside the store.
    let call = |args: &[&str]| {
        let out = site.command(args).output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    for args in [&["tick"][..], &["trigger", "a"], &["config", "capacity", "3"], &["pause", "a"]] {
        let (code, stderr) = call(args);
        assert_eq!(code, Some(74), "{args:?} on a full disk: {stderr}");
        assert!(names_path(&stderr, &site), "{args:?} names no path: {stderr}");
    }
    for args in [&["list"][..], &["status"], &["history"], &["fsck"]] {
        let (code, stderr) = call(args);
        assert_eq!(code, Some(0), "{args:?} on a full disk: {stderr}");
    }
    free(&place, full);
    let broken = heal_and_check(&site, &before, proof::check::Allow::default());
    assert!(broken.is_empty(), "\n{}", broken.text());
    assert_eq!(Snapshot::of(&site.store).runs.len(), 3, "all are run once the disk is back");
}

#[test]
fn a_full_disk_refuses_and_everything_goes_on_when_there_is_room_again() {
    let fill = |place: &Path| {
        for size in [4096, 1] {
            let mut file = fs::File::options().append(true).create(true).open(place.join("filler")).unwrap();
            while std::io::Write::write_all(&mut file, &vec![b'x'; size]).is_ok() {}
        }
        0
    };
    fill_and_free("size=128k,mode=700", fill, |place, _| fs::remove_file(place.join("filler")).unwrap());
}

#[test]
fn a_disk_without_inodes_refuses_and_everything_goes_on_when_there_are_some_again() {
    let fill = |place: &Path| {
        (0..1_000_000).find(|n| fs::write(place.join(format!("filler{n}")), "").is_err()).unwrap()
    };
    let free = |place: &Path, count| {
        (0..count).for_each(|n| fs::remove_file(place.join(format!("filler{n}"))).unwrap());
    };
    fill_and_free("nr_inodes=64,size=4m,mode=700", fill, free);
}
