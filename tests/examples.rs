//! The workflows in `fixtures/examples`, each from its start to its end through the real program.
//!
//! Every test copies the example into a folder of its own, with a store and a home of its own, and looks at what
//! the steps left behind: what an example claims in its comments is shown here.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

use serde_json::Value;
use tempfile::TempDir;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A copy of one example beside a store.
struct Example {
    dir: TempDir,
    file: PathBuf,
}

/// What a command ended with.
struct Said {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Example {
    fn new(name: &str, file: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/examples").join(name);
        copy(&from, &dir.path().join(name));
        let file = dir.path().join(name).join(file);
        Self { dir, file }
    }

    fn folder(&self) -> &Path {
        self.file.parent().unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.path(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wfctl"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("WFCTL_STORE", self.dir.path().join("store"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    /// Lets the power fail while a script is executed for the first time: `wfctl` and the step are killed.
    fn power_fails_in(&self, script: &str, args: &[&str]) {
        let first = "set -eu\nif mkdir work/once 2> /dev/null; then echo $$ > work/.pid; mv work/.pid work/pid; exec sleep 600; fi";
        let text = self.read(script).replacen("set -eu", first, 1);
        fs::write(self.path(script), text).unwrap();
        let mut wfctl = self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while !self.path("work/pid").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{script} is not started");
            thread::sleep(Duration::from_millis(10));
        }
        wfctl.kill().unwrap();
        wfctl.wait().unwrap();
        let step = self.read("work/pid");
        assert!(Command::new("kill").args(["-KILL", step.trim()]).status().unwrap().success());
        // The kernel unlocks the slot when the step is gone.
        while self.json(0, &[], &["status"])["slots"][0]["state"] == "live" {
            assert!(begun.elapsed() < Duration::from_secs(60), "{script} is not gone");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn wfctl(&self, env: &[(&str, &str)], args: &[&str]) -> Said {
        let output: Output = self.command(args).envs(env.iter().copied()).output().unwrap();
        Said {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// `wfctl --json …`, which must end with this status.
    fn json(&self, code: i32, env: &[(&str, &str)], args: &[&str]) -> Value {
        let mut all = vec!["--json"];
        all.extend(args);
        let said = self.wfctl(env, &all);
        assert_eq!(said.code, code, "{args:?}\n{}\n{}", said.stdout, said.stderr);
        serde_json::from_str(&said.stdout).unwrap()
    }

    fn run(&self, code: i32, env: &[(&str, &str)]) -> Value {
        self.json(code, env, &["run", self.file.to_str().unwrap()])
    }

    /// Answers the gate of a run.
    fn resume(&self, code: i32, run: &Value, args: &[&str]) -> Value {
        let mut all = vec!["resume", run["run"].as_str().unwrap()];
        all.extend(args);
        self.json(code, &[], &all)
    }

    fn show(&self, run: &Value) -> Value {
        self.json(0, &[], &["show", run["run"].as_str().unwrap()])
    }

    fn fsck(&self) {
        let said = self.wfctl(&[], &["fsck"]);
        assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            // What somebody who tried the example left there.
            true if entry.file_name() == "work" => {}
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}

/// The steps that a run started, each with its outcome, in their order.
fn path(run: &Value) -> Vec<String> {
    let steps = run["steps"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    steps.iter().map(|step| format!("{}:{}", text(&step["step"]), text(&step["outcome"]))).collect()
}

fn status(run: &Value) -> (&str, &str) {
    (run["status"].as_str().unwrap(), run["outcome"].as_str().unwrap_or("-"))
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

#[test]
fn every_example_is_valid_and_its_scripts_can_be_started() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/examples");
    let mut workflows = 0;
    for folder in fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        for file in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match file.extension().and_then(|extension| extension.to_str()) {
                Some("toml") => {
                    workflows += 1;
                    let checked = Command::new(env!("CARGO_BIN_EXE_wfctl")).arg("check").arg(&file).output();
                    assert!(checked.unwrap().status.success(), "{}", file.display());
                }
                Some("sh") => {
                    let mode = fs::metadata(&file).unwrap().permissions().mode();
                    assert_eq!(mode & 0o111, 0o111, "{} is not executable", file.display());
                }
                _ => {}
            }
        }
    }
    assert!(workflows >= 6, "only {workflows} examples");
}

#[test]
fn the_backup_is_checked_uploaded_and_only_seven_are_kept() {
    let example = Example::new("backup", "backup.toml");
    let mut last = Value::Null;
    for _ in 0..9 {
        last = example.run(0, &[]);
        assert_eq!(path(&last), ["dump:ok", "pack:ok", "check:ok", "upload:ok", "forget:ok"]);
    }
    let kept = example.names("work/bucket");
    assert_eq!(kept.len(), 7, "{kept:?}");
    assert!(kept.contains(&format!("{}.tar.gz", last["run"].as_str().unwrap())), "{kept:?}");
    assert!(example.read("work/restored/dump.sql").contains("Grace"));
    example.fsck();
}

#[test]
fn a_backup_that_cannot_be_read_back_is_not_uploaded() {
    let example = Example::new("backup", "backup.toml");
    fs::write(
        example.path("check.sh"),
        "#!/bin/sh\necho broken > work/backup.tar.gz\ncd work && sha256sum -c backup.sha256\n",
    )
    .unwrap();
    let run = example.run(1, &[]);
    assert_eq!(path(&run), ["dump:ok", "pack:ok", "check:error"]);
    assert_eq!(run["status"], "failed");
    assert!(!example.path("work/bucket").exists());
}

#[test]
fn the_upload_of_the_backup_is_tried_again_after_a_failure_that_was_seen() {
    let example = Example::new("backup", "backup.toml");
    let upload = example.read("upload.sh").replacen("set -eu", "set -eu\n[ \"$WFCTL_TRY\" -gt 2 ]", 1);
    fs::write(example.path("upload.sh"), upload).unwrap();
    let run = example.run(0, &[]);
    assert_eq!(
        path(&run),
        ["dump:ok", "pack:ok", "check:ok", "upload:error", "upload:error", "upload:ok", "forget:ok"]
    );
    assert_eq!(example.names("work/bucket").len(), 1);
}

#[test]
fn the_upload_of_the_backup_is_started_again_with_the_same_key_after_a_power_loss() {
    let example = Example::new("backup", "backup.toml");
    example.power_fails_in("upload.sh", &["run", example.file.to_str().unwrap()]);
    let tick = example.json(0, &[], &["tick"]);
    assert_eq!(tick["recovered"][0]["decision"], "requeued", "{tick:#}");
    let run = example.show(&tick["runs"][0]);
    assert_eq!(run["status"], "completed");
    let steps = run["steps"].as_array().unwrap();
    let uploads: Vec<_> = steps.iter().filter(|step| step["step"] == "upload").collect();
    assert_eq!(uploads.len(), 2, "{run:#}");
    assert_eq!(uploads[0]["key"], uploads[1]["key"]);
    assert_eq!(steps.iter().filter(|step| step["step"] == "dump").count(), 1, "it is replayed");
    assert_eq!(example.names("work/bucket").len(), 1);
    example.fsck();
}

#[test]
fn a_switch_that_was_under_way_at_a_power_loss_is_left_to_a_person() {
    let example = Example::new("deploy", "deploy.toml");
    let run = example.run(0, &[]);
    let id = run["run"].as_str().unwrap();
    example.power_fails_in("switch.sh", &["resume", id, "--outcome", "go"]);
    let tick = example.json(0, &[], &["tick"]);
    assert_eq!(tick["recovered"][0]["decision"], "ambiguous", "{tick:#}");
    assert_eq!(example.show(&run)["ambiguous"], true);
    for refused in ["resume", "retry"] {
        example.json(76, &[], &[refused, id]);
    }
    assert!(!example.path("work/current").exists(), "it was started again");

    // Somebody looked: nothing was switched. So once more, on their word.
    example.json(0, &[], &["resolve", id, "--as", "failed", "--note", "current is not there"]);
    example.json(0, &[], &["retry", id]);
    example.json(0, &[], &["tick"]);
    assert_eq!(status(&example.show(&run)), ("completed", "ok"));
    assert!(example.path("work/current").exists());
    example.fsck();
}

#[test]
fn the_report_waits_for_a_fitting_answer_and_is_published_with_it() {
    let example = Example::new("report", "report.toml");
    let run = example.run(0, &[]);
    assert_eq!(run["status"], "interrupted");
    assert_eq!(run["interrupt"]["question"], "Publish the weekly report?");
    assert_eq!(run["slot"], Value::Null, "a gate must not hold a slot");

    // Without the comment that the schema asks for, the gate stays as it is.
    let refused = example.resume(65, &run, &["--outcome", "approved", "--payload", "{}"]);
    assert_eq!(refused["error"]["code"], 65);
    assert_eq!(example.show(&run)["status"], "interrupted");
    assert!(!example.path("work/public").exists());

    let payload = r#"{"comment":"fine by me"}"#;
    let run = example.resume(0, &run, &["--outcome", "approved", "--payload", payload, "--by", "ada"]);
    assert_eq!(status(&run), ("completed", "ok"));
    assert_eq!(example.read("work/public/report.txt"), "Weekly report\nnorth: 150\nsouth: 80\n");
    let decision: Value = serde_json::from_str(&example.read("work/public/decision.json")).unwrap();
    assert_eq!(decision["steps"]["approve"]["outcome"], "approved");
    assert_eq!(decision["steps"]["approve"]["output"]["comment"], "fine by me");
    assert_eq!(run["attempts"][1]["by"], "ada");
    example.fsck();
}

#[test]
fn changes_to_the_report_lead_back_to_its_building_and_to_the_question() {
    let example = Example::new("report", "report.toml");
    let run = example.run(0, &[]);
    let first = run["interrupt"]["gate"].clone();
    let run = example.resume(0, &run, &["--outcome", "changes", "--payload", r#"{"comment":"round it"}"#]);
    assert_eq!(run["status"], "interrupted");
    assert_ne!(run["interrupt"]["gate"], first, "it is another question");
    assert_eq!(example.read("work/rounds"), "built\nbuilt\n");

    // Who still looks at the first question cannot answer the second by mistake.
    let old = first.to_string();
    example.resume(76, &run, &["--gate", &old, "--outcome", "approved", "--payload", r#"{"comment":"x"}"#]);

    let run = example.resume(0, &run, &["--outcome", "rejected", "--payload", r#"{"comment":"no"}"#]);
    assert_eq!(run["status"], "completed");
    assert_eq!(example.names("work/archive").len(), 1);
    assert!(!example.path("work/public").exists());
}

#[test]
fn a_report_that_nobody_answers_is_archived_by_a_tick_after_its_time() {
    let example = Example::new("report", "report.toml");
    let text = example.read("report.toml").replacen("72h", "1s", 1);
    fs::write(&example.file, text).unwrap();
    let run = example.run(0, &[]);
    let begun = Instant::now();
    while example.show(&run)["status"] == "interrupted" {
        assert!(begun.elapsed() < Duration::from_secs(60), "the gate does not expire");
        thread::sleep(Duration::from_millis(200));
        example.json(0, &[], &["tick"]);
    }
    assert_eq!(example.show(&run)["status"], "completed");
    assert_eq!(example.names("work/archive").len(), 1);
    assert!(!example.path("work/public").exists());
}

#[test]
fn people_are_told_that_the_report_waits() {
    let example = Example::new("report", "report.toml");
    let run = example.run(0, &[]);
    let outbox = example.read("work/outbox");
    assert!(outbox.contains("To: editors@example.org"), "{outbox}");
    assert!(outbox.contains(run["run"].as_str().unwrap()), "{outbox}");
    assert!(outbox.contains("Publish the weekly report?"), "{outbox}");
}

#[test]
fn the_pager_rings_for_a_failed_backup() {
    let example = Example::new("backup", "backup.toml");
    fs::remove_file(example.path("customers.csv")).unwrap();
    let run = example.run(1, &[]);
    assert_eq!(example.read("work/pager"), format!("{} ended failed\n", run["run"].as_str().unwrap()));
}

#[test]
fn the_certificate_is_renewed_only_when_it_is_time() {
    if !has("openssl") {
        eprintln!("openssl is not installed: the certificate example is not shown");
        return;
    }
    let example = Example::new("certificate", "renew.toml");
    let run = example.run(0, &[]);
    assert_eq!(path(&run), ["look:ok", "request:ok", "verify:ok", "install:ok", "reload:ok"]);
    let first = example.read("work/live/cert.pem");
    assert!(first.starts_with("-----BEGIN CERTIFICATE-----"));
    let mode = fs::metadata(example.path("work/live/key.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "the key is readable by others");

    // It is fresh now.
    let run = example.run(0, &[]);
    assert_eq!(path(&run), ["look:fresh"]);
    assert_eq!(status(&run), ("completed", "fresh"));

    // With 90 days left, and 91 asked for, it is time again; the new one falls short as well, is found out, and
    // the old one stays.
    let text = example.read("renew.toml").replacen("DAYS_LEFT = \"30\"", "DAYS_LEFT = \"91\"", 1);
    fs::write(&example.file, text).unwrap();
    let run = example.run(1, &[]);
    assert_eq!(path(&run), ["look:ok", "request:ok", "verify:error"]);
    assert_eq!(example.read("work/live/cert.pem"), first);
}

#[test]
fn the_pipeline_retries_the_fetch_and_loads_the_rows() {
    let example = Example::new("pipeline", "pipeline.toml");
    let run = example.run(0, &[]);
    assert_eq!(
        path(&run),
        ["fetch:error", "fetch:error", "fetch:ok", "inspect:ok", "transform:ok", "load:ok"]
    );
    let steps = run["steps"].as_array().unwrap();
    assert_eq!(steps[1]["try"], 2);
    assert_eq!(steps[1]["exit"], 22);
    let loaded = example.names("work/warehouse");
    assert_eq!(loaded, [format!("{}.tsv", steps[5]["key"].as_str().unwrap().replace('/', "_"))]);
    assert_eq!(example.read(&format!("work/warehouse/{}", loaded[0])), "apple\t120\npear\t80\nplum\t200\n");
    let logs = example.wfctl(&[], &["logs", run["run"].as_str().unwrap(), "--step", "fetch"]);
    assert!(logs.stdout.contains("503 Service Unavailable (try 2)"), "{}", logs.stdout);
    assert!(logs.stdout.contains("200 OK (try 3)"), "{}", logs.stdout);
    example.fsck();
}

#[test]
fn a_pipeline_without_rows_is_done_and_one_with_broken_rows_fails_into_quarantine() {
    let example = Example::new("pipeline", "pipeline.toml");
    let run = example.run(0, &[("FEED", "empty.csv")]);
    assert_eq!(status(&run), ("completed", "empty"));
    assert!(!example.path("work/warehouse").exists());

    let run = example.run(1, &[("FEED", "broken.csv")]);
    assert_eq!(run["status"], "failed");
    assert!(path(&run).ends_with(&["inspect:malformed".to_owned(), "quarantine:ok".to_owned()]));
    assert_eq!(example.names("work/quarantine").len(), 1);
    assert!(!example.path("work/warehouse").exists());
}

#[test]
fn the_load_of_the_pipeline_does_nothing_the_second_time_with_the_same_key() {
    let example = Example::new("pipeline", "pipeline.toml");
    fs::create_dir(example.path("work")).unwrap();
    fs::write(example.path("work/rows.tsv"), "apple\t120\n").unwrap();
    let load = || {
        let output = Command::new("./load.sh")
            .current_dir(example.folder())
            .env("WFCTL_IDEMPOTENCY_KEY", "pipeline@20261201T000000Z/6")
            .output()
            .unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(load(), "");
    fs::write(example.path("work/rows.tsv"), "something else\n").unwrap();
    assert_eq!(load(), "pipeline@20261201T000000Z/6 is loaded already\n");
    assert_eq!(example.names("work/warehouse"), ["pipeline@20261201T000000Z_6.tsv"]);
    assert_eq!(example.read("work/warehouse/pipeline@20261201T000000Z_6.tsv"), "apple\t120\n");
}

#[test]
fn a_deployment_goes_live_after_go_and_back_when_it_is_not_healthy() {
    let example = Example::new("deploy", "deploy.toml");
    let run = example.run(0, &[]);
    assert_eq!(run["status"], "interrupted");
    assert!(!example.path("work/current").exists(), "it must not switch before somebody said so");
    let run = example.resume(0, &run, &["--outcome", "go"]);
    assert_eq!(path(&run), ["build:ok", "switch:ok", "look:ok"]);
    let good = fs::read_link(example.path("work/current")).unwrap();
    assert!(example.read("work/current/app.conf").contains("greeting=hello"));

    fs::write(example.path("app/app.conf"), "greeting=moin\nhealth=bad\n").unwrap();
    let run = example.run(0, &[]);
    let run = example.resume(1, &run, &["--outcome", "go"]);
    assert_eq!(
        path(&run),
        ["build:ok", "switch:ok", "look:error", "look:error", "look:error", "rollback:ok"]
    );
    assert_eq!(run["status"], "failed");
    assert_eq!(fs::read_link(example.path("work/current")).unwrap(), good, "it did not go back");
    example.fsck();
}

#[test]
fn a_deployment_that_is_stopped_changes_nothing() {
    let example = Example::new("deploy", "deploy.toml");
    let run = example.run(0, &[]);
    let run = example.resume(0, &run, &["--outcome", "stop", "--note", "not on a Friday"]);
    assert_eq!(run["status"], "completed");
    assert_eq!(path(&run), ["build:ok"]);
    assert!(!example.path("work/current").exists());
}

#[test]
fn the_clean_up_compresses_old_logs_deletes_older_ones_and_leaves_the_rest() {
    let example = Example::new("cleanup", "cleanup.toml");
    fs::create_dir_all(example.path("work/logs")).unwrap();
    for (name, age) in [("today.log", 0), ("monday.log", 3), ("ancient.log.gz", 40), ("recent.log.gz", 10)] {
        let file = fs::File::create(example.path("work/logs").join(name)).unwrap();
        file.set_modified(SystemTime::now() - DAY * age).unwrap();
    }
    let run = example.run(0, &[]);
    assert_eq!(path(&run), ["look:ok", "compress:ok", "delete:ok"]);
    assert_eq!(example.names("work/logs"), ["monday.log.gz", "recent.log.gz", "today.log"]);
    assert_eq!(status(&example.run(0, &[])), ("completed", "tidy"));
}
