//! What people see: screens as snapshots, progress, colours, and streams that are closed, full or gone.
//!
//! After a wanted change: `WFCTL_SNAPSHOTS=update cargo test --test terminal`

#![allow(clippy::unwrap_used, clippy::print_stderr)] // the rule exempts test functions, but not what they share

mod support;
mod tmux;

use std::{
    fs::{self, File, OpenOptions},
    process::{Command, Stdio},
};

use support::{TestStore, assert_snapshot, normalised};
use tmux::Screen;

const AMBIGUOUS: &str = "nightly-report@20200102T040000Z";

const SLOW: &str = r#"
name = "slow"
[[step]]
id = "first"
run = "sleep 1"
[[step]]
id = "second"
run = "sleep 2"
"#;

#[test]
fn screens_are_as_wide_as_the_terminal_and_as_coloured_as_asked_for() {
    let test = TestStore::new();
    let _live = test.populate();
    let calls =
        [("status", vec!["status"]), ("show-ambiguous", vec!["show", AMBIGUOUS]), ("list", vec!["list"])];
    for (name, args) in calls {
        for width in ["80", "40"] {
            for color in ["never", "always"] {
                let args = [&args[..], &["--color", color]].concat();
                let output = test.command(&args).env("COLUMNS", width).output().unwrap();
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                let text = normalised(&String::from_utf8(output.stdout).unwrap(), &test);
                let suffix = if color == "always" { "-color" } else { "" };
                assert_snapshot(&format!("{name}-{width}{suffix}"), &text);
            }
        }
    }
}

#[test]
fn an_error_is_a_line_and_a_hint() {
    let test = TestStore::new();
    let _live = test.populate();
    for (name, color) in [("error", "never"), ("error-color", "always")] {
        let output = test.run(&["resume", AMBIGUOUS, "--color", color]);
        assert_eq!(output.status.code(), Some(76));
        assert_eq!(output.stdout, b"");
        assert_snapshot(name, &normalised(&String::from_utf8(output.stderr).unwrap(), &test));
    }
}

#[test]
fn a_real_terminal_shows_the_same_screens() {
    let test = TestStore::new();
    let _live = test.populate();
    for width in [80, 40] {
        let Some(screen) = Screen::open(&test, width, 60, &[("NO_COLOR", "1")]) else { return };
        screen.enter(&format!("clear; {} status; echo over", env!("CARGO_BIN_EXE_wfctl")));
        screen.wait_for(|text| text.contains("\nover"));
        // Long lines are joined again: where the terminal breaks them is its own affair.
        let text = screen.text(&["-J", "-e"]);
        assert!(!text.contains('\u{1b}'), "{text}");
        let text = text.split("\nover").next().unwrap().trim_start().to_owned() + "\n";
        let store = text.find("store:").unwrap();
        assert_snapshot(&format!("status-{width}"), &normalised(&text[store..], &test));
    }
}

#[test]
fn a_tick_shows_what_it_executes_and_leaves_nothing_of_it_behind() {
    let test = TestStore::new();
    let file = test.workflow("slow.toml", SLOW);
    test.ok(&["schedule", &file, "--at", "2099-01-01T00:00:00Z"]);
    for _ in 0..3 {
        test.ok(&["trigger", "slow"]);
    }
    let Some(screen) = Screen::open(&test, 80, 24, &[]) else { return };
    screen.enter(&format!("clear; {} tick", env!("CARGO_BIN_EXE_wfctl")));
    let text = screen.wait_for(|text| text.contains("  second  "));
    assert_eq!(text.lines().filter(|line| line.starts_with("slow@")).count(), 2, "{text}");
    assert!(text.contains("] 0/3, 1 queued"), "{text}");
    screen.wait_for(|text| text.contains("] 2/3, 0 queued"));
    let text = screen.wait_for(|text| text.lines().filter(|line| line.starts_with("completed")).count() == 3);
    assert!(!text.lines().any(|line| line.starts_with("slow@") || line.starts_with('[')), "{text}");
    assert!(screen.shows_cursor());
}

#[test]
fn an_interrupted_command_leaves_the_terminal_as_it_was() {
    let test = TestStore::new();
    let file = test.workflow("slow.toml", &SLOW.replace("sleep 2", "trap '' TERM; sleep 60"));
    for presses in [1, 2] {
        let Some(screen) = Screen::open(&test, 80, 24, &[]) else { return };
        let file = if presses == 1 { test.workflow("plain.toml", SLOW) } else { file.clone() };
        screen
            .enter(&format!("clear; {} run {file}; stty -a | grep -c ' echo '", env!("CARGO_BIN_EXE_wfctl")));
        screen.wait_for(|text| text.contains("  second  "));
        for _ in 0..presses {
            screen.press("C-c");
        }
        let text = screen.wait_for(|text| text.lines().any(|line| line == "1"));
        assert!(text.contains("ambiguous"), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("slow@")), "{text}");
        assert!(screen.shows_cursor());
    }
}

#[test]
fn colours_depend_on_the_terminal_and_on_no_color() {
    let test = TestStore::new();
    let _live = test.populate();
    assert!(!test.ok(&["status"]).contains('\u{1b}'));
    assert!(test.ok(&["status", "--color", "always"]).contains('\u{1b}'));
    for (variables, args, wants) in [
        (vec![], "", true),
        (vec![("NO_COLOR", "1")], "", false),
        (vec![("NO_COLOR", "")], "", true),
        (vec![("NO_COLOR", "1")], "--color always", true),
        (vec![], "--color never", false),
    ] {
        let Some(screen) = Screen::open(&test, 80, 60, &variables) else { return };
        screen.enter(&format!("clear; {} status {args}; echo over", env!("CARGO_BIN_EXE_wfctl")));
        screen.wait_for(|text| text.contains("\nover"));
        assert_eq!(screen.text(&["-e"]).contains("\u{1b}["), wants, "{variables:?} {args}");
    }
}

#[test]
fn what_a_file_says_never_moves_the_cursor() {
    let test = TestStore::new();
    let file = test.workflow(
        "evil.toml",
        "name = \"evil\"\n[[step]]\nid = \"ask\"\n\
         interrupt = \"Sure?\\u001b[2J\\u001b]0;title\\u0007\\nwfctl: forged\"\n",
    );
    let started = test.run(&["run", &file, "--id", "evil"]);
    let resumed = test.run(&["resume", "evil", "--outcome", "nonsense"]);
    let mut outputs = vec![started, resumed];
    for args in [
        &["status"][..],
        &["show", "evil"],
        &["list"],
        &["history"],
        &["wait", "evil"],
        &["show", "evil", "--json"],
    ] {
        outputs.push(test.run(args));
    }
    for output in outputs {
        let text = [output.stdout, output.stderr].concat();
        assert!(!text.contains(&0x1b) && !text.contains(&7), "{}", String::from_utf8_lossy(&text));
        assert!(!String::from_utf8_lossy(&text).lines().any(|line| line.starts_with("wfctl: forged")));
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let test = TestStore::new();
    let _live = test.populate();
    for args in [&["man"][..], &["status"], &["list", "--json"], &["logs", AMBIGUOUS, "-f"]] {
        let mut child = test.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{args:?}");
    }
    let program = env!("CARGO_BIN_EXE_wfctl");
    let line = format!("set -o pipefail; {program} list | head -1");
    let output = Command::new("bash").args(["-c", &line]).env("WFCTL_STORE", test.root()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stderr, b"");
}

#[test]
fn a_full_device_fails_what_only_reads_and_nothing_else() {
    let test = TestStore::new();
    let file = test.workflow("slow.toml", SLOW);
    test.ok(&["schedule", &file, "--at", "2099-01-01T00:00:00Z"]);
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (args, code) in [
        (&["status"][..], 74),
        (&["schedules"], 74),
        (&["next", "slow"], 74),
        (&["pause", "slow"], 0),
        (&["trigger", "slow"], 0),
        (&["tick", "--no-dispatch"], 0),
        (&["fsck"], 74),
    ] {
        let output = test.command(args).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        // A command that has nothing to say does not notice.
        assert!(text.contains("cannot write to stdout") || args[0] == "tick", "{args:?}: {text}");
    }
}

#[test]
fn a_closed_stdout_harms_nothing() {
    let test = TestStore::new();
    for command in ["status", "tick", "init"] {
        let line = format!("exec {} {command} >&-", env!("CARGO_BIN_EXE_wfctl"));
        let output = Command::new("sh").args(["-c", &line]).env("WFCTL_STORE", test.root()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_quiet_tick_speaks_only_when_a_person_is_needed() {
    let test = TestStore::new();
    let fine = test.workflow("fine.toml", "name = \"fine\"\n[[step]]\nid = \"a\"\nrun = \"true\"\n");
    let bad = test.workflow("bad.toml", "name = \"bad\"\n[[step]]\nid = \"a\"\nrun = \"exit 3\"\n");
    let gate = test.workflow("gate.toml", "name = \"gate\"\n[[step]]\nid = \"a\"\ninterrupt = \"Well?\"\n");
    for (file, code, said) in [(&fine, 0, ""), (&bad, 1, "failed    bad@"), (&gate, 0, "waiting   gate@")] {
        test.ok(&["schedule", file, "--at", "now"]);
        let output = test.run(&["tick", "-q"]);
        assert_eq!(output.status.code(), Some(code));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(said) && text.is_empty() == said.is_empty(), "{text}");
        assert_eq!(output.stderr, b"");
    }
}

#[test]
fn lists_can_be_narrowed_to_how_runs_stand() {
    let test = TestStore::new();
    let live = test.populate();
    let with = |word: &str| test.ok(&["list", "--status", word]);
    let only = |word: &str, day: &str| {
        let text = with(word);
        assert_eq!(text.matches("nightly-report@").count(), 1, "{word}: {text}");
        assert!(text.contains(&format!("nightly-report@202001{day}T")), "{word}: {text}");
    };
    only("interrupted", "01");
    only("ambiguous", "02");
    only("running", "03");
    only("queued", "04");
    drop(live);
    only("abandoned", "03");
    assert_eq!(with("running"), "");
}

#[test]
fn logs_are_bytes_where_nobody_looks_and_follow_a_run_to_its_end() {
    let test = TestStore::new();
    let file = test.workflow(
        "noisy.toml",
        "name = \"noisy\"\n[[step]]\nid = \"a\"\nrun = \"printf '\\\\033[2Jone\\\\n'\"\n\
         [[step]]\nid = \"b\"\nrun = \"sleep 1; echo two; sleep 1; echo three\"\n",
    );
    let child = test.command(&["run", &file, "--id", "noisy"]).stdout(Stdio::null()).spawn().unwrap();
    while !test.root().join("runs/active/noisy/journal.jsonl").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let followed = test.ok(&["logs", "noisy", "-f"]);
    assert_eq!(followed, "\u{1b}[2Jone\ntwo\nthree\n");
    assert!(child.wait_with_output().unwrap().status.success());
    let verbose = test.ok(&["logs", "noisy", "-v"]);
    assert!(verbose.starts_with("==> a (execution 1, try 1)\n"), "{verbose}");
    assert!(verbose.contains("\n==> b (execution 2, try 1)\ntwo\n"), "{verbose}");
    assert_eq!(test.ok(&["logs", "noisy", "--step", "b"]), "two\nthree\n");
    assert_eq!(test.run(&["logs", "noisy", "--step", "c"]).status.code(), Some(66));
}

#[test]
fn wait_says_when_the_time_is_over_and_how_runs_ended() {
    let test = TestStore::new();
    let live = test.populate();
    let output = test.run(&["wait", "nightly-report@20200103T040000Z", "--timeout", "100ms"]);
    assert_eq!(output.status.code(), Some(75));
    assert_eq!(test.run(&["wait", "nightly-report@20200101T040000Z", AMBIGUOUS]).status.code(), Some(1));
    assert_eq!(test.run(&["wait", "nightly-report@20200101T040000Z"]).status.code(), Some(0));
    drop(live);
}

#[test]
fn metrics_are_what_prometheus_reads() {
    let test = TestStore::new();
    let _live = test.populate();
    let file = test.workflow("slow.toml", SLOW);
    test.ok(&["schedule", &file, "--at", "2099-01-01T00:00:00Z"]);
    test.ok(&["tick", "--no-dispatch"]);
    let path = test.folder().join("wfctl.prom");
    test.ok(&["metrics", "--output", path.to_str().unwrap()]);
    let text = fs::read_to_string(&path).unwrap();
    for line in ["wfctl_slots{state=\"live\"} 1", "wfctl_ambiguous_runs 1", "wfctl_last_tick_exit_status 0"] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert_eq!(fs::read_dir(test.folder()).unwrap().count(), 3, "no temporary file is left");
    let checked =
        Command::new("promtool").args(["check", "metrics"]).stdin(File::open(&path).unwrap()).output();
    match checked {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        }
        Err(_) => eprintln!("skipped: promtool is not installed"),
    }
}

#[test]
fn completion_gives_words_and_never_an_error() {
    let test = TestStore::new();
    let _live = test.populate();
    let words = |args: &[&str]| test.ok(&[&["__complete"], args].concat());
    assert_eq!(words(&["interrupted"]), "nightly-report@20200101T040000Z\n");
    assert_eq!(words(&["ambiguous"]), format!("{AMBIGUOUS}\n"));
    assert_eq!(
        words(&["outcomes", "--", "resume", "nightly-report@20200101T040000Z"]),
        "approved\nrejected\n"
    );
    assert_eq!(words(&["steps", "--prefix", "e", "--", "logs", "nightly-report"]), "extract\n");
    let output = test.run(&["__complete", "runs", "--", "--store", "/nowhere", "show"]);
    assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(0), Vec::new(), Vec::new()));
}
