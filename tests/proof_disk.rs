//! The engine on a disk that loses any subset of what was not synced, cut at every single effect; then an operator
//! goes over what is left and all promises are checked.
//!
//! Bounded unless `WFCTL_PROOF=full`; the choices come from a fixed seed.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod proof;

use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use chrono::Utc;
use proof::{
    Site,
    check::{Allow, Snapshot, heal_and_check},
    is_full,
    sim::{Image, SimDisk},
    step,
};
use serde_json::json;
use wfctl::{
    engine::{
        Engine, ProcessName,
        attempt::Unobserved,
        cancel,
        schedule::{self, Alteration, Inputs},
        tick,
    },
    process::Signals,
    store::{Store, settings},
};

/// Numbers that look like chance and are the same every time.
fn chance(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    }
}

#[test]
fn whatever_a_power_cut_loses_every_promise_holds() {
    let base = proof::base();
    let site = Site::new(base.path().join("site"), base.path().join("work"));
    site.ok(&["init", "--capacity", "2"]);
    let days = |n: i64| (Utc::now() - chrono::TimeDelta::days(n)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let due = |name: &str, steps: &str, n: i64, overlap: &str| {
        let file = site.workflow(name, steps);
        let args = ["schedule", &file, "--every", "1d", "--start", &days(n), "--overlap", overlap];
        site.ok(&[&args[..], &["--catchup", "all"]].concat());
    };
    let two = format!("{}{}", step("one", "true", ""), step("two", "true", "idempotent = true"));
    due("a", &two, 2, "queue");
    due("b", &format!("{}[[step]]\nid = \"ask\"\ninterrupt = \"?\"\n", step("one", "true", "")), 3, "skip");
    due("c", &step("one", "true", ""), 2, "allow");

    let first = Image::of(&site.store);
    let disk = Arc::new(SimDisk::new(&site.store, &site.dir.join("effects")));
    let signals = Signals::detached().unwrap();
    let mut acknowledged: Vec<(usize, Snapshot)> = vec![(0, Snapshot::of(&site.store))];
    let settings = settings::load(&*disk).unwrap();
    let store = Store::with_disk(&site.store, disk.clone(), settings, "proof");
    let engine = Engine {
        store: &store,
        clock: &Utc::now,
        signals: &signals,
        process: ProcessName { pid: std::process::id(), start: None, host: "here".to_owned() },
        env: BTreeMap::new(),
        lock_timeout: Duration::from_secs(5),
    };
    let mut acknowledge = || acknowledged.push((disk.log().len(), Snapshot::of(&site.store)));
    let report = tick::tick(&engine, &tick::Options::default(), &Unobserved).unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    acknowledge();
    schedule::trigger(&engine, "c", Inputs::Many(vec![json!(1), json!(2), json!(3)])).unwrap();
    acknowledge();
    schedule::trigger(&engine, "c", Inputs::One(None)).unwrap();
    acknowledge();
    schedule::alter(&engine, "c", Alteration::Pause, "me").unwrap();
    acknowledge();
    tick::tick(&engine, &tick::Options::default(), &Unobserved).unwrap();
    acknowledge();
    let asks = proof::scenarios::run_of(&site, "b").parse().unwrap();
    cancel::cancel(&engine, &asks, "me", None).unwrap();
    acknowledge();

    let log = disk.log();
    let each = if is_full() { 24 } else { 2 };
    let stride = if is_full() { 1 } else { 2 };
    let cuts: Vec<(usize, u64)> =
        (0..=log.len()).step_by(stride).flat_map(|at| (0..each).map(move |seed| (at, seed))).collect();
    let (next, broken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let effects = fs::read(site.dir.join("effects")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((at, seed)) = cuts.get(number).copied() else { return };
                    let left = Site::new(base.path().join(format!("cut{number}")), site.work.clone());
                    let mut choice = chance(number as u64 * 31 + seed + 1);
                    first.after_cut(&log, at, &mut choice).write_to(&left.store);
                    let so_far = log.get(at).or(log.last()).map_or(0, |logged| logged.effects);
                    fs::write(left.dir.join("effects"), &effects[..usize::try_from(so_far).unwrap()])
                        .unwrap();
                    let before = acknowledged.iter().rev().find(|(when, _)| *when <= at).unwrap();
                    let checked = catch_unwind(AssertUnwindSafe(|| {
                        let _ = left.run(&["unpause", "c"]);
                        let mut broken = heal_and_check(&left, &before.1, Allow::default());
                        // That a context was removed needs no sync, and nobody reads one that came back.
                        broken.0.retain(|what| {
                            !(what.starts_with("debris: ") && what.ends_with(".context.json"))
                        });
                        let text = broken.text();
                        assert!(text.is_empty(), "{text}");
                    }));
                    if let Err(panic) = checked {
                        let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                        let op = at.checked_sub(1).map(|last| &log[last].op);
                        broken
                            .lock()
                            .unwrap()
                            .push(format!("cut {at} (seed {seed}) behind {op:.400?}:\n{why}"));
                    }
                    fs::remove_dir_all(&left.dir).unwrap();
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap();
    eprintln!("{} effects, {} cuts, {} broken", log.len(), cuts.len(), broken.len());
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}
