//! Kills every command before every system call that changes something, lets an operator go over the store,
//! and checks all promises.
//!
//! Bounded unless `WFCTL_PROOF=full`, which tries every point of every command.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod proof;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
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
    tracer::{self, Fault, Points, Traced},
};

/// Points of one command in the bounded form, kills and torn writes together.
const BOUNDED: u64 = 12;

fn attack(scenario: &Scenario, template: &Site, command: &[String], fault: Fault, name: &str) -> Traced {
    let site = template.copy_to(template.dir.with_file_name(name));
    let before = Snapshot::of(&site.store);
    let mut beside = scenario.beside.map(|start| start(&site));
    let traced = tracer::run(site.command(command), fault, Points::All, &site.store, &site.dir);
    let done = Done { code: traced.code, stdout: traced.stdout.clone(), stderr: traced.stderr.clone() };
    let checked = catch_unwind(AssertUnwindSafe(|| {
        if traced.was_hit() {
            assert_eq!(traced.code, -9, "{traced:?}");
        } else {
            assert!(scenario.codes.contains(&traced.code), "{traced:?}");
        }
        // The word of success counts, also of a program that is killed right behind it.
        if traced.code == 0 || traced.hit.as_deref() == Some("exit_group") && scenario.codes == [0] {
            (scenario.acked)(&site, &done);
        }
        site.end_orphans();
        if let Some(child) = &mut beside {
            // The tracer may have seen its end already.
            let _ = child.wait();
        }
        for args in scenario.heal {
            site.ok(args);
        }
        let broken = heal_and_check(&site, &before, scenario.allow);
        let mut text = broken.text();
        if let Err(why) = check_all_or_none(scenario.name, &site) {
            text.push_str(&why);
        }
        assert!(text.is_empty(), "\n{text}");
    }));
    if let Err(panic) = checked {
        let why = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        let kept = std::env::temp_dir().join(format!("wfctl-broken-{}", std::process::id())).join(name);
        std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
        proof::copy_tree(&site.dir, &kept);
        panic!("{} with {fault:?} at {:?} (kept in {}): {why}", scenario.name, traced.hit, kept.display());
    }
    std::fs::remove_dir_all(&site.dir).unwrap();
    traced
}

fn is_write(points: &[String], at: u64) -> bool {
    let point = usize::try_from(at - 1).ok().and_then(|index| points.get(index));
    point.is_some_and(|what| what.starts_with("write ") || what.starts_with("pwrite64 "))
}

/// Attacks one command at a sample of its points. How many were hit, and what broke.
fn attack_all(scenario: &Scenario, number: usize) -> (u64, u64, Vec<String>) {
    let base = proof::base();
    let template = Site::new(base.path().join("template"), base.path().join("work"));
    let command = (scenario.setup)(&template);
    let clean = attack(scenario, &template, &command, Fault::None, &format!("{number}-clean"));
    let mut broken = Vec::new();
    let mut tried = 0;
    for at in sample(clean.points.len() as u64, BOUNDED, number as u64) {
        for fault in [Fault::Kill(at), Fault::Tear(at)] {
            if fault == Fault::Tear(at) && !is_write(&clean.points, at) {
                continue;
            }
            let name =
                format!("{number}-{at}-{}", if matches!(fault, Fault::Kill(_)) { "kill" } else { "tear" });
            let attacked =
                catch_unwind(AssertUnwindSafe(|| attack(scenario, &template, &command, fault, &name)));
            match attacked {
                Ok(traced) => tried += u64::from(traced.was_hit()),
                Err(panic) => broken.push(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
            }
        }
    }
    (clean.points.len() as u64, tried, broken)
}

#[test]
fn whatever_is_killed_when_every_promise_holds() {
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
                        "{:<40} {points:>4} points, {tried:>4} killed, {} broken",
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
