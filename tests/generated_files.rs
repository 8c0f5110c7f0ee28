//! The committed manual pages and completion scripts are what the program generates, and the scripts complete
//! command lines in the shells that are installed.
//!
//! After a change of the command line: `WFCTL_REGENERATE=1 cargo test --test generated_files`

#![allow(clippy::unwrap_used)] // the rule exempts test functions, but not what they share

use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use wfctl::cli::{args::Shell, generate};

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What helps where a file differs.
const HINT: &str = "run `WFCTL_REGENERATE=1 cargo test --test generated_files`, or\n\
    `cargo run -- man man && cargo run -- completions bash > completions/wfctl.bash` and so on, and commit";

/// Fails where the folder does not hold exactly these files with this extension; writes them where asked to.
fn compare(folder: &str, generated: &BTreeMap<String, Vec<u8>>, is_generated: impl Fn(&str) -> bool) {
    let folder = root().join(folder);
    if env::var_os("WFCTL_REGENERATE").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, content) in generated {
            fs::write(folder.join(name), content).unwrap();
        }
    }
    for (name, content) in generated {
        let committed = fs::read(folder.join(name)).unwrap_or_default();
        assert!(committed == *content, "{name} is not what is generated now; {HINT}");
    }
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            !is_generated(&name) || generated.contains_key(&name),
            "{name} is not generated any more; delete it"
        );
    }
}

#[test]
fn the_manual_is_the_one_that_is_generated() {
    let pages = generate::man_pages().unwrap().into_iter().collect();
    compare("man", &pages, |name| name.ends_with(".1"));
}

#[test]
fn the_completions_are_the_ones_that_are_generated() {
    let scripts = SHELLS.map(|shell| {
        (generate::completions_file(shell).to_owned(), generate::completions(shell).into_bytes())
    });
    compare("completions", &scripts.into(), |_| true);
}

#[test]
fn the_manual_has_no_warnings() {
    let Some(mandoc) = find("mandoc") else { return };
    for page in ["wfctl-workflow.5", "wfctl-store.5"] {
        let output =
            Command::new(&mandoc).args(["-Tlint", "-Wwarning"]).arg(root().join("man").join(page)).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    for (name, _) in generate::man_pages().unwrap() {
        let output =
            Command::new(&mandoc).args(["-Tlint", "-Wwarning"]).arg(root().join("man").join(name)).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

fn find(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A stand-in for `wfctl` that answers what the scripts ask, and the scripts themselves.
struct Shells {
    folder: tempfile::TempDir,
}

impl Shells {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for shell in SHELLS {
            let path = folder.path().join(generate::completions_file(shell));
            fs::write(path, generate::completions(shell)).unwrap();
        }
        let program = folder.path().join("wfctl");
        fs::write(
            &program,
            "#!/bin/sh\n\
             case $2 in\n\
             interrupted) printf 'nightly@20261201T040000Z\\nnightly@20261202T040000Z\\n' ;;\n\
             schedules) printf 'nightly\\nsync\\n' ;;\n\
             steps) echo \"of-$6\" ;;\n\
             esac\n",
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn run(&self, shell: &str, args: &[&str]) -> Option<String> {
        let folder = self.folder.path();
        let path = format!("{}:{}", folder.display(), env::var("PATH").unwrap());
        let output = Command::new(find(shell)?)
            .args(args)
            .current_dir(folder)
            .env_clear()
            .envs([("PATH", path.as_str()), ("HOME", folder.to_str().unwrap()), ("TERM", "dumb")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        Some(String::from_utf8(output.stdout).unwrap())
    }
}

/// What bash puts in place of the last word, given how it splits the line.
fn complete_in_bash(shells: &Shells, line: &str, words: &[&str]) -> Option<String> {
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "source ./wfctl.bash; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; COMP_WORDS=({}); \
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _wfctl wfctl \"${{COMP_WORDS[COMP_CWORD]}}\"; echo \"${{COMPREPLY[*]}}\"",
        quoted.join(" ")
    );
    shells.run("bash", &["--norc", "--noprofile", "-c", &script]).map(|text| text.trim().to_owned())
}

#[test]
fn bash_completes_commands_options_and_what_the_store_holds() {
    let shells = Shells::new();
    for (line, words, want) in [
        ("wfctl resu", &["wfctl", "resu"][..], "resume"),
        ("wfctl --json res", &["wfctl", "--json", "res"], "resume resolve"),
        ("wfctl tick --no-", &["wfctl", "tick", "--no-"], "--no-dispatch --no-recover"),
        ("wfctl list --status in", &["wfctl", "list", "--status", "in"], "interrupted"),
        ("wfctl list --status=in", &["wfctl", "list", "--status", "=", "in"], "interrupted"),
        ("wfctl pause ", &["wfctl", "pause", ""], "nightly sync"),
        (
            "wfctl resume nightly@2026120",
            &["wfctl", "resume", "nightly", "@", "2026120"],
            "20261201T040000Z 20261202T040000Z",
        ),
        ("wfctl logs sync --step ", &["wfctl", "logs", "sync", "--step", ""], "of-sync"),
        ("wfctl --store /s pause s", &["wfctl", "--store", "/s", "pause", "s"], "sync"),
        ("wfctl __", &["wfctl", "__"], ""),
    ] {
        let Some(completed) = complete_in_bash(&shells, line, words) else { return };
        assert_eq!(completed, want, "{line}");
    }
}

#[test]
fn fish_completes_commands_options_and_what_the_store_holds() {
    let shells = Shells::new();
    for (line, want) in [
        ("wfctl resu", "resume"),
        ("wfctl tick --no-d", "--no-dispatch"),
        ("wfctl list --status in", "interrupted"),
        ("wfctl pause ", "nightly sync"),
        ("wfctl resume nightly@2026120", "nightly@20261201T040000Z nightly@20261202T040000Z"),
        ("wfctl logs sync --step ", "of-sync"),
        ("wfctl __", ""),
    ] {
        let script = format!("source ./wfctl.fish; complete -C '{line}'");
        let Some(completed) = shells.run("fish", &["--no-config", "-c", &script]) else { return };
        let words: Vec<_> =
            completed.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
        assert_eq!(words.join(" "), want, "{line}");
    }
}

#[test]
fn zsh_completes_commands_options_and_what_the_store_holds() {
    let shells = Shells::new();
    for (line, want) in [
        ("wfctl resu", "wfctl resume"),
        ("wfctl tick --no-d", "wfctl tick --no-dispatch"),
        ("wfctl list --status in", "wfctl list --status interrupted"),
        ("wfctl pause s", "wfctl pause sync"),
        ("wfctl resume nightly@20261202", "wfctl resume nightly@20261202T040000Z"),
        ("wfctl logs sync --step ", "wfctl logs sync --step of-sync"),
    ] {
        // A completion is asked for in a terminal of its own; the answer is waited for, not timed.
        let script = format!(
            "zmodload zsh/zpty; zpty z zsh -f -i\n\
             zpty -w z 'PS1=; fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; stty cols 200; print re\"\"ady'\n\
             local out= chunk= i=0\n\
             while [[ $out != *$'\\n'ready* ]] && ((i++ < 500)); do zpty -r -t z chunk && out+=$chunk || sleep 0.02; done\n\
             zpty -w -n z '{line}'$'\\t'; out= i=0\n\
             while [[ $out != *'{want}'* ]] && ((i++ < 500)); do zpty -r -t z chunk && out+=$chunk || sleep 0.02; done\n\
             print -r -- $out; zpty -d z"
        );
        let Some(completed) = shells.run("zsh", &["-f", "-c", &script]) else { return };
        assert!(completed.contains(want), "{line}: {completed:?}");
    }
}
