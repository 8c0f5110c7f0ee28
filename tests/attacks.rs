//! What a hostile or clumsy environment may do to a store, and what must hold all the same.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use support::TestStore;

#[test]
fn no_chosen_id_takes_the_place_of_an_occurrence() {
    let store = TestStore::new(1);
    let file = store.quick("w");
    store.ok(&["schedule", &file, "--at", "2027-01-01T00:00:00Z"]);
    for id in ["w@20270101T000000Z", "w@20260101T000000Z-m1", "other@20260101T000000Z-m1"] {
        let refused = store.run(&["run", &file, "--id", id]).expect(2);
        assert!(refused.stderr.contains("ids with '@' are given by wfctl itself"), "{refused:?}");
    }
    assert!(!store.exists("w.effect"));
    let report = store.json(&["tick", "--now", "2027-01-01T00:00:01Z"]);
    assert_eq!(report["runs"][0]["run"], "w@20270101T000000Z", "{report}");
    store.ok(&["fsck"]);
}

#[test]
#[allow(unsafe_code)]
fn a_file_size_limit_fails_a_write_and_kills_nothing() {
    use std::os::unix::process::CommandExt as _;

    let store = TestStore::new(1);
    let file = store.workflow(
        "w",
        "[[step]]\nid = \"one\"\nrun = \"ulimit -f >> w.effect; kill -XFSZ $$; echo x >> w.effect\"\n",
    );
    let mut command = store.command(&["run", &file, "--id", "limited"]);
    // SAFETY: setrlimit(2) is async-signal-safe and touches nothing that the parent shares.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const none);
            Ok(())
        });
    }
    // Its own words do not fit either, as they go to a file.
    store.start(command).wait().expect(74);
    assert!(!store.exists("w.effect"));
    store.ok(&["recover"]);
    store.ok(&["fsck"]);
    assert_eq!(store.status()["capacity"]["free"], 1);

    // Steps have the default disposition.
    store.run(&["run", &file, "--id", "free"]).expect(1);
    assert_eq!(store.show("free")["steps"][0]["signal"], libc::SIGXFSZ);
}

/// Finished runs of three days, the folder of the middle one with a folder inside, which cannot be deleted.
fn undeletable() -> (TestStore, Vec<String>) {
    let store = TestStore::new(1);
    let file = store.quick("w");
    let start = ["--every", "1d", "--start", "2026-01-01T00:00:00Z", "--catchup", "all"];
    store.ok(&[&["schedule", file.as_str(), "--overlap", "queue"], &start[..]].concat());
    store.ok(&["tick", "--now", "2026-01-03T01:00:00Z"]);
    let runs = [1, 2, 3].map(|day| format!("w@2026010{day}T000000Z")).to_vec();
    let dir = store.dir.join("runs/done/2026-01-02").join(&runs[1]);
    fs::create_dir_all(dir.join("folder/inside")).unwrap();
    (store, runs)
}

#[track_caller]
fn left(store: &TestStore) -> Vec<String> {
    let items = store.json(&["list"])["items"].clone();
    items.as_array().unwrap().iter().map(|item| item["run"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_run_that_cannot_be_deleted_does_not_keep_the_others() {
    let (store, runs) = undeletable();
    let refused = store.run(&["prune", "--older-than", "0s"]).expect(74);
    assert!(refused.stderr.contains(&runs[1]), "{refused:?}");
    assert_eq!(left(&store), [runs[1].clone()]);
}

#[test]
fn a_run_that_cannot_be_deleted_does_not_keep_the_others_from_a_tick() {
    let (store, runs) = undeletable();
    store.ok(&["pause", "w"]);
    store.ok(&["config", "keep", "1ms"]);
    let refused = store.run(&["tick"]).expect(74);
    assert!(refused.stderr.contains(&runs[1]), "{refused:?}");
    assert_eq!(left(&store), [runs[1].clone()]);
}

/// Values that are JSON and could not be read back from a record.
#[test]
fn what_is_acknowledged_can_be_read_back() {
    let store = TestStore::new(1);
    for levels in [101, 120, 126, 127] {
        store.file("deep.json", &format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
        let steps = "[[step]]\nid = \"one\"\nrun = \"cp deep.json $WFCTL_OUTPUT\"\n[[step]]\nid = \"ask\"\ninterrupt = \"?\"\n";
        let file = store.workflow("w", steps);
        store.run(&["run", &file, "--input", "@deep.json"]).expect(65);
        store.run(&["schedule", &file, "--id", "s", "--every", "1h", "--input", "@deep.json"]).expect(65);
        let run = format!("run-{levels}");
        store.ok(&["run", &file, "--id", &run]);
        store.run(&["resume", &run, "--payload", "@deep.json"]).expect(65);
        let said = store.show(&run)["steps"][0]["error"].to_string();
        assert!(said.contains("nested deeper than 100 levels"), "{said}");
        store.ok(&["resume", &run, "--payload", "1"]);
    }
    store.file("long.json", &format!("\"{}\"", "x".repeat((16 << 20) - 2)));
    let file = store.quick("quick");
    store.run(&["run", &file, "--input", "@long.json"]).expect(65);
    store.ok(&["fsck"]);
}

#[test]
fn a_limit_of_open_files_that_is_too_low_is_told_before_anything_is_admitted() {
    let store = TestStore::new(1);
    let file = store.quick("q");
    store.ok(&["schedule", &file, "--at", "now"]);
    let mut command = store.program("/bin/sh".as_ref());
    command.args(["-c", "ulimit -n 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_wfctl"), "--store"]);
    command.arg(&store.dir).arg("tick");
    let done = store.start(command).wait();
    assert_eq!(done.code, 74, "{done:?}");
    assert!(done.stderr.contains("limit of open files"), "{done:?}");
    assert_eq!(store.json(&["list"])["items"].as_array().unwrap().len(), 0);
    store.ok(&["tick"]);
    assert_eq!(store.json(&["list"])["items"][0]["status"], "completed");
}

#[test]
fn a_huge_journal_costs_nobody_their_time_or_memory() {
    let store = TestStore::new(1);
    let run = store.interrupted("g");
    let file = store.quick("q");
    let journal = fs::OpenOptions::new().write(true).open(store.folder(&run).join("journal.jsonl")).unwrap();
    journal.set_len(40 << 30).unwrap();
    drop(journal);
    store.ok(&["run", &file]);
    store.ok(&["status"]);
    store.run(&["show", &run]).expect(74);
}

#[test]
fn a_retry_after_a_refused_gate_goes_on_at_the_gate() {
    let store = TestStore::new(1);
    let steps = "[[step]]\nid = \"one\"\nrun = \"echo x >> w.effect\"\n\
                 [[step]]\nid = \"ask\"\ninterrupt = \"go on?\"\noutcomes = [\"yes\", \"no\"]\nnext = { no = \"fail\" }\n\
                 [[step]]\nid = \"two\"\nrun = \"echo y >> w.effect\"\n";
    let file = store.workflow("w", steps);
    let run = store.json(&["run", &file])["run"].as_str().unwrap().to_owned();
    store.run(&["resume", &run, "--outcome", "no"]).expect(1);
    store.ok(&["retry", &run]);
    store.ok(&["tick"]);
    store.ok(&["resume", &run, "--outcome", "yes"]);
    assert_eq!(store.read("w.effect"), "x\ny\n");
}
