//! What a step gets, what its end means, and in which order steps run.

#![allow(clippy::unwrap_used)]

mod support;

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};
use support::{Done, TestStore, is_alive};

/// Executes a workflow of these steps as the run `w-1` and gives what came of it.
#[track_caller]
fn run(store: &TestStore, steps: &str) -> (Done, Value) {
    let file = store.workflow("w", steps);
    let done = store.run(&["run", &file, "--id", "w-1"]);
    let shown = store.show("w-1");
    (done, shown)
}

fn environment(text: &str) -> BTreeMap<&str, &str> {
    text.split('\0').filter_map(|variable| variable.split_once('=')).collect()
}

#[test]
fn a_step_gets_the_environment_that_is_promised_and_nothing_else() {
    let store = TestStore::new(1);
    let file = store.workflow(
        "w",
        "[env]\nREGION = \"eu\"\nSHADOWED = \"workflow\"\nUSER = \"over\"\n\
         [[step]]\nid = \"show\"\nrun = [\"/bin/cp\", \"/proc/self/environ\", \"environ\"]\n\
         env = { SHADOWED = \"step\", EXTRA = \"$HOME 'x'\" }\npass_env = [\"TOKEN\", \"ABSENT\"]\n",
    );
    let mut schedule = store.command(&["schedule", &file, "--at", "now"]);
    schedule.env("TZ", "Europe/Berlin").env("SHELL", "/bin/zsh").env("LC_ALL", "C").env("NOT_PINNED", "1");
    store.start(schedule).wait().expect(0);
    let mut tick = store.command(&["tick"]);
    tick.env("TOKEN", "secret")
        .env("OTHER", "1")
        .env("LANG", "de_DE")
        .env("TZ", "UTC")
        .env("HOME", "/elsewhere");
    store.start(tick).wait().expect(0);

    let run = store.run_of("w");
    let shown = store.show(&run);
    let text = store.read("environ");
    let mut env = environment(&text);
    let occurrence = env.remove("WFCTL_OCCURRENCE").unwrap();
    assert_eq!(occurrence, shown["occurrence"].as_str().unwrap().replace(".000Z", "Z"));
    let folder = store.dir.join("runs/active").join(&run);
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (context, output, key) = (path("1.context.json"), path("1.output.json"), format!("{run}/1"));
    let (home, root) = (store.work.to_str().unwrap(), store.dir.to_str().unwrap());
    let expected = BTreeMap::from([
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", home),
        ("USER", "over"),
        ("LOGNAME", "tester"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C"),
        ("TZ", "Europe/Berlin"),
        ("SHELL", "/bin/zsh"),
        ("REGION", "eu"),
        ("SHADOWED", "step"),
        ("EXTRA", "$HOME 'x'"),
        ("TOKEN", "secret"),
        ("WFCTL_STORE", root),
        ("WFCTL_RUN", &run),
        ("WFCTL_SCHEDULE", "w"),
        ("WFCTL_STEP", "show"),
        ("WFCTL_ATTEMPT", "1"),
        ("WFCTL_IDEMPOTENCY_KEY", &key),
        ("WFCTL_TRY", "1"),
        ("WFCTL_CONTEXT", &context),
        ("WFCTL_OUTPUT", &output),
    ]);
    assert_eq!(env, expected);
}

#[test]
fn a_step_has_no_stdin_its_own_group_and_only_the_slots_descriptor() {
    let store = TestStore::new(1);
    let steps = "[[step]]\nid = \"look\"\nrun = \"\"\"\n\
        readlink /proc/$$/fd/0 > stdin; ls /proc/$$/fd > numbers; \
        for fd in $(cat numbers); do readlink /proc/$$/fd/$fd >> fds; done; \
        cut -d' ' -f1,5 /proc/$$/stat > group; pwd > cwd; cat > read\"\"\"\n";
    let (done, shown) = run(&store, steps);
    done.expect(0);
    assert_eq!(store.read("stdin").trim(), "/dev/null");
    let group = store.read("group");
    let (pid, group) = group.trim().split_once(' ').unwrap();
    assert_eq!(pid, group);
    assert_eq!(store.read("cwd").trim(), store.work.to_str().unwrap());
    let slot = store.slot_path(0).to_str().unwrap().to_owned();
    let fds = store.read("fds");
    let log = shown["folder"].as_str().unwrap();
    let strange: Vec<_> = fds
        .lines()
        // The shell's own: the redirection of the moment, and what it keeps aside meanwhile.
        .filter(|fd| {
            *fd != "/dev/null" && *fd != slot && !fd.contains("/1-look.log") && !fd.ends_with("/fds")
        })
        .collect();
    assert!(strange.is_empty(), "{strange:?} of {fds}, log in {log}");
    assert_eq!(fds.lines().filter(|fd| *fd == slot).count(), 1, "{fds}");
}

#[test]
fn a_step_has_default_signal_dispositions_and_an_empty_mask() {
    let store = TestStore::new(1);
    let file = store
        .workflow("w", "[[step]]\nid = \"look\"\nrun = [\"/bin/cp\", \"/proc/self/status\", \"status\"]\n");
    let mut command = store.program("/bin/sh".as_ref());
    command.args(["-c", "trap '' HUP INT QUIT USR1 PIPE; exec \"$@\"", "sh"]);
    command.arg(env!("CARGO_BIN_EXE_wfctl")).arg("--store").arg(&store.dir).args(["run", &file]);
    store.start(command).wait().expect(0);
    let status = store.read("status");
    for field in ["SigIgn:", "SigBlk:"] {
        let mask = status.lines().find_map(|line| line.strip_prefix(field)).unwrap().trim();
        assert_eq!(u64::from_str_radix(mask, 16).unwrap(), 0, "{field} {mask}");
    }
}

#[test]
fn steps_run_in_order_and_outcomes_route() {
    let store = TestStore::new(1);
    let steps = "[[step]]\nid = \"a\"\nrun = \"echo a >> order; exit 10\"\nexit = { 10 = \"skip\" }\nnext = { skip = \"c\" }\n\
        [[step]]\nid = \"b\"\nrun = \"echo b >> order; exit 7\"\nnext = { error = \"d\" }\n\
        [[step]]\nid = \"c\"\nrun = \"echo c >> order\"\nnext = { ok = \"b\" }\n\
        [[step]]\nid = \"d\"\nrun = \"echo d >> order\"\n";
    let (done, shown) = run(&store, steps);
    done.expect(0);
    assert_eq!(store.read("order"), "a\nc\nb\nd\n");
    assert_eq!((&shown["status"], &shown["outcome"]), (&"completed".into(), &"ok".into()));
    let outcomes: Vec<_> = shown["steps"].as_array().unwrap().iter().map(|s| s["outcome"].clone()).collect();
    assert_eq!(outcomes, ["skip", "ok", "error", "ok"]);
    let exits: Vec<_> = shown["steps"].as_array().unwrap().iter().map(|s| s["exit"].clone()).collect();
    assert_eq!(exits, [10, 0, 7, 0]);
}

#[test]
fn end_completes_and_fail_fails_with_the_outcome_of_the_step() {
    let store = TestStore::new(1);
    let (done, shown) = run(
        &store,
        "[[step]]\nid = \"a\"\nrun = \"exit 10\"\nexit = { 10 = \"empty\" }\nnext = { empty = \"end\" }\n\
         [[step]]\nid = \"b\"\nrun = \"echo b >> order\"\n",
    );
    done.expect(0);
    assert_eq!((&shown["status"], &shown["outcome"]), (&"completed".into(), &"empty".into()));
    assert_eq!(store.read("order"), "");

    let store = TestStore::new(1);
    let (done, shown) = run(
        &store,
        "[[step]]\nid = \"a\"\nrun = \"exit 10\"\nexit = { 10 = \"bad\" }\nnext = { bad = \"fail\" }\n",
    );
    done.expect(1);
    assert_eq!((&shown["status"], &shown["reason"]), (&"failed".into(), &"fail".into()));
    assert_eq!((&shown["outcome"], &shown["ambiguous"]), (&"bad".into(), &false.into()));
}

#[test]
fn a_failed_step_fails_the_run_and_a_signal_is_an_error() {
    let store = TestStore::new(1);
    let (done, shown) = run(&store, "[[step]]\nid = \"a\"\nrun = \"kill -9 $$\"\n");
    done.expect(1);
    assert_eq!((&shown["status"], &shown["reason"]), (&"failed".into(), &"error".into()));
    assert_eq!((&shown["steps"][0]["signal"], &shown["steps"][0]["exit"]), (&9.into(), &Value::Null));
    assert_eq!(shown["attempts"][0]["state"], "settled");
    store.fsck_clean();
}

#[test]
fn a_step_is_tried_again_after_known_failures_with_new_keys() {
    let store = TestStore::new(1);
    let (done, shown) = run(
        &store,
        "[[step]]\nid = \"a\"\nretry = { max = 3, delay = \"30ms\", backoff = 2.0 }\n\
         run = \"echo $WFCTL_TRY $WFCTL_IDEMPOTENCY_KEY >> tries; [ $WFCTL_TRY = 3 ]\"\n",
    );
    done.expect(0);
    assert_eq!(store.read("tries"), "1 w-1/1\n2 w-1/2\n3 w-1/3\n");
    let starts: Vec<_> = store.events("w-1").into_iter().filter(|e| e["event"] == "step_started").collect();
    let ends: Vec<_> = store.events("w-1").into_iter().filter(|e| e["event"] == "step_finished").collect();
    for (index, delay) in [(0, 30), (1, 60)] {
        let waited = millis(&starts[index + 1]["at"]) - millis(&ends[index]["at"]);
        assert!(waited >= delay - 2, "{waited} ms before try {}", index + 2);
    }
    assert_eq!(shown["steps"][2]["try"], 3);
}

/// The milliseconds of a time of day.
fn millis(at: &Value) -> i64 {
    let text = at.as_str().unwrap();
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    let (day, hour, minute) = (number(8..10), number(11..13), number(14..16));
    (((day * 24 + hour) * 60 + minute) * 60 + number(17..19)) * 1000 + number(20..23)
}

#[test]
fn an_idempotent_step_keeps_its_key_from_try_to_try() {
    let store = TestStore::new(1);
    let (done, _) = run(
        &store,
        "[[step]]\nid = \"a\"\nidempotent = true\nretry = { max = 1, delay = \"1ms\" }\n\
         run = \"echo $WFCTL_TRY $WFCTL_IDEMPOTENCY_KEY >> tries; exit 1\"\n",
    );
    done.expect(1);
    assert_eq!(store.read("tries"), "1 w-1/1\n2 w-1/1\n");
}

#[test]
fn an_outcome_of_its_own_is_not_tried_again() {
    let store = TestStore::new(1);
    let (done, _) = run(
        &store,
        "[[step]]\nid = \"a\"\nretry = { max = 3, delay = \"1ms\" }\nexit = { 4 = \"none\" }\nnext = { none = \"end\" }\n\
         run = \"echo x >> tries; exit 4\"\n",
    );
    done.expect(0);
    assert_eq!(store.read("tries"), "x\n");
}

#[test]
fn a_step_that_takes_too_long_is_stopped_and_routed() {
    let store = TestStore::new(1);
    let (done, shown) = run(
        &store,
        "[[step]]\nid = \"a\"\ntimeout = \"100ms\"\nrun = \"echo $$ > pid; sh ./await never\"\nnext = { timeout = \"b\" }\n\
         [[step]]\nid = \"b\"\nrun = \"echo b > b\"\n",
    );
    done.expect(0);
    assert_eq!(shown["steps"][0]["outcome"], "timeout");
    assert!(!is_alive(&store.read("pid")));
    assert!(store.exists("b"));
}

#[test]
fn an_attempt_that_takes_too_long_fails_and_is_not_ambiguous() {
    let store = TestStore::new(1);
    let file = store.file(
        "w.toml",
        "name = \"w\"\ntimeout = \"150ms\"\n[[step]]\nid = \"a\"\nrun = \"echo a >> order\"\n\
         [[step]]\nid = \"b\"\nrun = \"echo $$ > pid; sh ./await never\"\n[[step]]\nid = \"c\"\nrun = \"echo c >> order\"\n",
    );
    store.run(&["run", file.to_str().unwrap(), "--id", "w-1"]).expect(1);
    let shown = store.show("w-1");
    assert_eq!((&shown["reason"], &shown["ambiguous"]), (&"timeout".into(), &false.into()), "{shown}");
    assert!(!store.read("order").contains('c'));
    assert!(!is_alive(&store.read("pid")) || !store.exists("pid"));
    store.assert_slot_free(0);
}

#[test]
fn the_step_budget_ends_a_loop() {
    let store = TestStore::new(1);
    let file = store.file(
        "w.toml",
        "name = \"w\"\nmax_steps = 4\n[[step]]\nid = \"a\"\nrun = \"echo a >> order\"\nnext = { ok = \"a\", error = \"end\" }\n",
    );
    store.run(&["run", file.to_str().unwrap(), "--id", "w-1"]).expect(1);
    assert_eq!(store.show("w-1")["reason"], "max_steps");
    assert_eq!(store.read("order").lines().count(), 4);
}

#[test]
fn a_program_that_does_not_exist_is_a_known_failure() {
    let store = TestStore::new(1);
    let (done, shown) = run(&store, "[[step]]\nid = \"a\"\nrun = [\"./absent\"]\n");
    done.expect(1);
    assert_eq!((&shown["reason"], &shown["ambiguous"]), (&"error".into(), &false.into()));
    assert!(shown["error"].as_str().unwrap().contains("absent"), "{shown}");
    assert_eq!(shown["steps"][0]["outcome"], "error");
    store.file("plain", "not executable");
    store
        .run(&["run", &store.workflow("p", "[[step]]\nid = \"a\"\nrun = [\"./plain\"]\n"), "--id", "p-1"])
        .expect(1);
    assert_eq!(store.show("p-1")["ambiguous"], false);
    store
        .run(&[
            "run",
            &store.workflow("d", "[[step]]\nid = \"a\"\ncwd = \"nowhere\"\nrun = \"true\"\n"),
            "--id",
            "d-1",
        ])
        .expect(1);
    assert!(store.show("d-1")["error"].as_str().unwrap().contains("nowhere"));
    store.assert_slot_free(0);
}

#[test]
fn a_log_exists_only_if_something_was_written() {
    let store = TestStore::new(1);
    let (_, shown) = run(
        &store,
        "[[step]]\nid = \"loud\"\nrun = \"echo out; echo err >&2\"\n[[step]]\nid = \"quiet\"\nrun = \"true\"\n",
    );
    let folder = store.folder("w-1");
    assert_eq!(fs::read_to_string(folder.join("1-loud.log")).unwrap(), "out\nerr\n");
    let names: Vec<_> = fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "journal and one log, nothing else is left: {names:?}");
    assert!(shown["steps"][0]["log"].is_string() && shown["steps"][1]["log"].is_null(), "{shown}");
    assert!(store.ok(&["logs", "w-1"]).stdout.contains("out\nerr\n"));
}

#[test]
fn outputs_and_payloads_are_the_context_of_later_steps() {
    let store = TestStore::new(1);
    let file = store.workflow(
        "w",
        "[[step]]\nid = \"a\"\nrun = \"printf '{\\\"n\\\": [1, null]}' > $WFCTL_OUTPUT; cp $WFCTL_CONTEXT first\"\n\
         [[step]]\nid = \"ask\"\ninterrupt = \"?\"\noutcomes = [\"yes\"]\n\
         [[step]]\nid = \"b\"\nrun = \"cp $WFCTL_CONTEXT second\"\n",
    );
    store.ok(&["run", &file, "--id", "w-1", "--input", "{\"day\": 3}"]);
    store.ok(&["resume", "w-1", "--outcome", "yes", "--payload", "{\"comment\": \"fine\"}"]);
    let context = |name: &str| serde_json::from_str::<Value>(&store.read(name)).unwrap();
    assert_eq!(context("first"), json!({"input": {"day": 3}, "steps": {}}));
    assert_eq!(
        context("second"),
        json!({"input": {"day": 3}, "steps": {
            "a": {"outcome": "ok", "output": {"n": [1, null]}},
            "ask": {"outcome": "yes", "output": {"comment": "fine"}},
        }})
    );
    let attempts = store.show("w-1")["attempts"].clone();
    assert_eq!(
        (&attempts[1]["outcome"], &attempts[1]["payload"]),
        (&"yes".into(), &json!({"comment": "fine"}))
    );
}

#[test]
fn an_output_that_is_too_large_or_no_json_is_not_recorded_and_said() {
    let store = TestStore::new(1);
    let (done, shown) = run(
        &store,
        "[[step]]\nid = \"large\"\nrun = \"{ printf '\\\"'; head -c 1048576 /dev/zero | tr '\\\\0' x; printf '\\\"'; } > $WFCTL_OUTPUT\"\n\
         [[step]]\nid = \"fits\"\nrun = \"{ printf '\\\"'; head -c 1048574 /dev/zero | tr '\\\\0' x; printf '\\\"'; } > $WFCTL_OUTPUT\"\n\
         [[step]]\nid = \"text\"\nrun = \"echo hello > $WFCTL_OUTPUT\"\n\
         [[step]]\nid = \"link\"\nrun = \"ln -s /etc/passwd $WFCTL_OUTPUT\"\n\
         [[step]]\nid = \"fifo\"\nrun = \"mkfifo $WFCTL_OUTPUT\"\n\
         [[step]]\nid = \"look\"\nrun = \"cp $WFCTL_CONTEXT context\"\n",
    );
    done.expect(0);
    let context: Value = serde_json::from_str(&store.read("context")).unwrap();
    for step in ["large", "text", "link", "fifo"] {
        assert_eq!(context["steps"][step], json!({"outcome": "ok", "output": null}), "{step}");
    }
    assert_eq!(context["steps"]["fits"]["output"].as_str().unwrap().len(), 1_048_574);
    let said: Vec<_> = shown["steps"].as_array().unwrap().iter().map(|s| s["error"].to_string()).collect();
    assert!(said[0].contains("1 MiB") && said[2].contains("JSON"), "{said:?}");
    assert!(said[3].contains("not recorded") && said[4].contains("not recorded"), "{said:?}");
    assert_eq!(fs::read_dir(store.folder("w-1")).unwrap().count(), 1, "scratch files are removed");
}

#[test]
fn a_given_id_makes_a_second_start_refuse() {
    let store = TestStore::new(1);
    let file = store.quick("q");
    store.ok(&["run", &file, "--id", "q-1"]);
    let before = store.tree();
    store.run(&["run", &file, "--id", "q-1"]).expect(73);
    assert_eq!(store.tree(), before);
    assert_eq!(store.read("q.effect"), "x\n");
}

#[test]
fn inputs_are_admitted_all_or_none() {
    let store = TestStore::new(1);
    let file =
        store.workflow("w", "[[step]]\nid = \"a\"\nrun = \"cat $WFCTL_CONTEXT >> seen; echo >> seen\"\n");
    store.ok(&["schedule", &file, "--every", "1h"]);
    let before = store.tree();
    store.file("bad.jsonl", "{\"n\": 1}\n{\"n\": 2}\n{\"n\": \n");
    let refused = store.run(&["trigger", "w", "--inputs", "@bad.jsonl"]).expect(65);
    assert!(refused.stderr.contains('3'), "{refused:?}");
    assert_eq!(store.tree(), before);
    store.file("good.jsonl", "{\"n\": 1}\n{\"n\": 2}\n{\"n\": 3}\n");
    store.ok(&["trigger", "w", "--inputs", "@good.jsonl"]);
    let items = store.json(&["list"])["items"].clone();
    assert_eq!(items.as_array().unwrap().len(), 3, "{items}");
    assert!(items.as_array().unwrap().iter().all(|run| run["manual"] == true && run["status"] == "queued"));
    store.ok(&["tick"]);
    let inputs: Vec<Value> = store
        .read("seen")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["input"]["n"].clone())
        .collect();
    assert_eq!(inputs, [1, 2, 3]);
}
