//! The README keeps its word: every block of shell in it is run, and its unit files are verified.
//!
//! Each block runs under `sh -eu` in a home, a store and a folder of its own, with copies of what the
//! repository ships in it, and the program under test first in `PATH`. A comment `# prints: TEXT` is a claim about what the block prints.
//!
//! `cargo` is a stand-in here, because a test that builds the package anew would wait for its own lock: it takes
//! the exact commands that the README gives and no others, and puts the program that is there already in place of
//! the built one. The continuous integration runs the two commands of the quick start for real, which
//! `the_quick_start_is_what_continuous_integration_runs` holds it to.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

const CARGO: &str = r#"#!/bin/sh
case "$*" in
    "run --release -- "*) shift 3; exec wfctl "$@" ;;
    "install --path . --root "*) mkdir -p "$5/bin" && cp "$WFCTL_UNDER_TEST" "$5/bin/wfctl" ;;
    test) echo "the tests are running" ;;
    *) echo "unexpected: cargo $*" >&2; exit 1 ;;
esac
"#;

/// A fenced block: the line it begins at, its words after the fence, its text.
struct Block {
    line: usize,
    info: String,
    text: String,
}

fn readme() -> String {
    fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap()
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in readme().lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block { line: number + 1, info: info.trim().to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            // What somebody who tried an example left there.
            true if entry.file_name() == "work" => {}
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Runs one block, and says what is wrong with it.
fn run(block: &Block) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let [home, bin, work] = ["home", "bin", "work"].map(|name| dir.path().join(name));
    for folder in [&home, &bin, &work] {
        fs::create_dir(folder).unwrap();
    }
    symlink(env!("CARGO_BIN_EXE_wfctl"), bin.join("wfctl")).unwrap();
    fs::write(bin.join("cargo"), CARGO).unwrap();
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
    for folder in ["fixtures", "completions", "man"] {
        copy(&Path::new(ROOT).join(folder), &work.join(folder));
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-eu", "-c", &block.text])
        .env_clear()
        .env("PATH", path)
        .env("HOME", &home)
        .env("WFCTL_UNDER_TEST", env!("CARGO_BIN_EXE_wfctl"))
        .current_dir(&work)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let context = format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("line {}: {}\n{context}", block.line, output.status));
    }
    for claim in block.text.lines().filter_map(|line| line.split_once("# prints: ")) {
        if !printed.contains(claim.1.trim()) {
            return Err(format!("line {}: it does not print {:?}\n{context}", block.line, claim.1.trim()));
        }
    }
    Ok(())
}

#[test]
fn every_block_of_shell_runs() {
    let blocks = blocks();
    let shell: Vec<_> = blocks.iter().filter(|block| block.info.split(' ').next() == Some("sh")).collect();
    assert!(shell.len() >= 8, "only {} blocks of shell", shell.len());
    let mut faults = Vec::new();
    for block in shell {
        assert_eq!(block.info, "sh", "line {}: only what needs root may be left out", block.line);
        if block.text.contains("jq ") && !has("jq") {
            eprintln!("jq is not installed: the block at line {} is not run", block.line);
            continue;
        }
        faults.extend(run(block).err());
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_claims_are_checked() {
    let block = |text: &str| Block { line: 1, info: "sh".into(), text: text.into() };
    assert!(run(&block("echo yes # prints: yes\n")).is_ok());
    assert!(run(&block("echo no # prints: yes\n")).is_err());
    assert!(run(&block("false\ntrue\n")).is_err());
    assert!(run(&block("cargo build\n")).is_err());
}

#[test]
fn the_quick_start_is_what_continuous_integration_runs() {
    let readme = readme();
    let section = readme.split("## Quick start").nth(1).unwrap().split("\n## ").next().unwrap();
    let block = section.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let commands: Vec<_> = block.lines().map(|line| line.split('#').next().unwrap().trim()).collect();
    assert_eq!(commands.len(), 2, "a job and the tests: {commands:?}");
    let ci = fs::read_to_string(Path::new(ROOT).join(".ci/run")).unwrap();
    for command in commands {
        let runs =
            ci.lines().any(|line| line.trim().strip_prefix("check ").is_some_and(|rest| rest == command));
        assert!(runs, ".ci/run has no line `check {command}`");
    }
}

#[test]
fn the_unit_files_are_valid() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for block in blocks() {
        if let Some(name) = block.info.strip_prefix("ini ") {
            let text = block.text.replace("%h/.local/bin/wfctl", env!("CARGO_BIN_EXE_wfctl"));
            assert_ne!(name, "", "line {}", block.line);
            fs::write(dir.path().join(name), text).unwrap();
            files.push(dir.path().join(name));
        }
    }
    assert_eq!(files.len(), 2);
    if !has("systemd-analyze") {
        eprintln!("systemd-analyze is not installed: the unit files are not verified");
        return;
    }
    let output = Command::new("systemd-analyze")
        .args(["--user", "verify", "--man=no"])
        .env("XDG_RUNTIME_DIR", dir.path())
        .args(&files)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // The machine's own units may have faults of their own; these files must not be named.
    let faults: Vec<_> = said.lines().filter(|line| line.contains("wfctl")).collect();
    assert!(faults.is_empty(), "{said}");
}

#[test]
fn the_exit_statuses_are_those_of_the_help() {
    let help = Command::new(env!("CARGO_BIN_EXE_wfctl")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let readme = readme();
    let table = readme.split("## Exit status").nth(1).unwrap().split("\n## ").next().unwrap();
    for code in ["0", "1", "2", "65", "66", "69", "70", "73", "74", "75", "76", "77", "78"] {
        assert!(table.contains(&format!("| {code} |")), "{code} is not in the README");
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(&format!("{code} "))),
            "{code}: --help"
        );
    }
}

#[test]
fn links_to_files_lead_somewhere() {
    for link in readme().split("](").skip(1).map(|rest| rest.split(')').next().unwrap().to_owned()) {
        if !link.contains("://") && !link.starts_with('#') {
            assert!(Path::new(ROOT).join(&link).exists(), "{link}");
        }
    }
}
