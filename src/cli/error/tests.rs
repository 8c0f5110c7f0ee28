use std::path::PathBuf;

use clap::Parser as _;

use super::*;
use crate::{cli::args::Cli, domain::ids::RunId};

fn run() -> RunId {
    "nightly@20261201T040000Z".parse().unwrap()
}

fn io_error(kind: io::ErrorKind) -> StoreError {
    StoreError::io("write", "lock", kind.into())
}

#[test]
fn every_error_has_the_exit_status_of_the_manual() {
    let path = || PathBuf::from("/s");
    let why = || "why".to_owned();
    let store: [(StoreError, u8, &str); 14] = [
        (io_error(io::ErrorKind::Other), 74, "io"),
        (io_error(io::ErrorKind::StorageFull), 74, "io"),
        (io_error(io::ErrorKind::PermissionDenied), 74, "io"),
        (StoreError::Corrupt { path: path(), why: why() }, 65, "corrupt"),
        (StoreError::Snapshot { path: path(), why: why() }, 65, "snapshot"),
        (StoreError::NoStore { path: path() }, 66, "no_store"),
        (StoreError::NotAStore { path: path(), why: why() }, 73, "not_a_store"),
        (StoreError::NotPrivate { path: path(), why: why() }, 77, "not_private"),
        (StoreError::NetworkFs { path: path(), fs: "NFS" }, 78, "network_fs"),
        (StoreError::Format { found: 2, known: 1 }, 78, "format"),
        (StoreError::Settings { why: why() }, 78, "settings"),
        (StoreError::LockBusy { holder: why() }, 75, "lock_busy"),
        (StoreError::Aborted, 130, "interrupted"),
        (StoreError::Bug(why()), 70, "bug"),
    ];
    let engine = [
        (EngineError::Interrupted(Interruption::Term), 143, "interrupted"),
        (EngineError::NoRun("x".into()), 66, "no_run"),
        (EngineError::ManyRuns { prefix: "n".into(), found: vec!["a".into()] }, 66, "many_runs"),
        (EngineError::NoSchedule { id: "x".into(), nearest: None }, 66, "no_schedule"),
        (EngineError::Exists { what: "schedule", id: "x".into() }, 73, "exists"),
        (EngineError::Draining, 69, "draining"),
        (EngineError::Full { busy: 1, capacity: 1 }, 75, "full"),
        (EngineError::Live { run: run(), why: why() }, 75, "live"),
        (EngineError::WrongState { run: run(), why: why(), hint: why() }, 76, "wrong_state"),
        (EngineError::BadInput { what: why(), why: why(), hint: why() }, 65, "bad_input"),
        (EngineError::Unreadable { path: path(), source: io::ErrorKind::NotFound.into() }, 66, "no_file"),
        (EngineError::NotReclaimed { run: run(), why: why() }, 74, "not_reclaimed"),
        (EngineError::Untracked { run: run(), why: why() }, 74, "untracked"),
    ];
    let all =
        store.into_iter().map(|(error, code, kind)| (EngineError::Store(error), code, kind)).chain(engine);
    for (error, code, kind) in all {
        let failure = Failure::of(&error);
        assert_eq!((failure.code, failure.kind), (code, kind), "{error}");
        assert!(failure.hint.is_some(), "{error} has no hint");
    }
}

#[test]
fn a_capacity_that_was_not_reclaimed_names_the_way_to_reclaim_it() {
    let failure = Failure::of(&EngineError::NotReclaimed { run: run(), why: "no space".into() });
    assert!(failure.message.contains("NOT reclaimed"));
    assert!(failure.hint.unwrap().contains("wfctl recover --run nightly@20261201T040000Z"));
}

#[test]
fn the_errors_of_a_workflow_are_lines_with_their_place() {
    let errors = crate::domain::workflow::Workflow::parse("nam = \"x\"\n").unwrap_err();
    let failure = Failure::bad_workflow(Path::new("a.toml"), &errors);
    assert_eq!(failure.code, 65);
    assert!(failure.details[0].starts_with("a.toml:1:1: "), "{:?}", failure.details);
    let document = serde_json::to_value(failure.document()).unwrap();
    assert_eq!(document["error"]["errors"].as_array().unwrap().len(), errors.len());
    assert_eq!(document["error"]["errors"][0]["line"], 1);
}

#[test]
fn a_trigger_that_never_fires_is_bad_data_and_a_typo_is_wrong_usage() {
    let never = TriggerError::NeverFires { why: "x".into(), hint: "y".into() };
    assert_eq!(Failure::of_trigger(&never).code, 65);
    let zone = crate::domain::trigger::Zone::parse("Europe/Berln").unwrap_err();
    let failure = Failure::from(zone);
    assert_eq!((failure.code, failure.kind), (2, "unknown_zone"));
    assert!(failure.hint.is_some());
}

#[test]
fn what_clap_refuses_has_a_message_and_a_hint() {
    let of = |line: &str| Failure::of_usage(&Cli::try_parse_from(line.split(' ')).unwrap_err());
    let failure = of("wfctl statu");
    assert_eq!(failure.message, "unrecognized subcommand 'statu'");
    assert_eq!(failure.hint.as_deref(), Some("a similar subcommand exists: 'status'"));
    assert!(of("wfctl schedule f").message.contains("--cron <EXPR>|--every <DUR>|--at <TIME>"));
    assert_eq!(of("wfctl").message, "no command was given");
}
