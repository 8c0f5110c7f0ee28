use clap::{CommandFactory as _, Parser as _, error::ErrorKind};

use super::*;
use crate::domain::policy::{CatchUp, Policies};

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

fn refuse(line: &str) -> ErrorKind {
    match parse(line) {
        Err(error) => error.kind(),
        Ok(cli) => panic!("{line} was read as {cli:?}"),
    }
}

#[test]
fn the_definition_keeps_claps_own_rules() {
    Cli::command().debug_assert();
}

#[test]
fn global_options_stand_before_and_after_the_command() {
    for line in ["wfctl --json --store /s status", "wfctl status --store /s --json"] {
        let cli = parse(line).unwrap();
        assert!(cli.global.json);
        assert_eq!(cli.global.store.as_deref(), Some(std::path::Path::new("/s")));
    }
}

#[test]
fn a_trigger_is_one_of_three_and_schedule_needs_it() {
    parse("wfctl schedule f.toml --every 5m --jitter 10s").unwrap();
    assert_eq!(refuse("wfctl schedule f.toml"), ErrorKind::MissingRequiredArgument);
    assert_eq!(refuse("wfctl schedule f.toml --every 5m --at now"), ErrorKind::ArgumentConflict);
    assert_eq!(refuse("wfctl schedule f.toml --cron @daily --anchor now"), ErrorKind::ArgumentConflict);
    assert_eq!(refuse("wfctl schedule f.toml --at now --dst-gap skip"), ErrorKind::ArgumentConflict);
}

#[test]
fn next_takes_a_schedule_or_a_trigger() {
    assert!(parse("wfctl next nightly -n 3").is_ok());
    assert!(parse("wfctl next --cron @daily --tz UTC --from 2027-03-27").is_ok());
    assert_eq!(refuse("wfctl next"), ErrorKind::MissingRequiredArgument);
    assert_eq!(refuse("wfctl next nightly --cron @daily"), ErrorKind::ArgumentConflict);
    assert_eq!(refuse("wfctl next nightly --tz UTC"), ErrorKind::MissingRequiredArgument);
}

#[test]
fn waiting_takes_an_optional_duration_with_an_equals_sign() {
    let wait = |line: &str| match parse(line).unwrap().command {
        Command::Resume(args) => args.wait,
        other => panic!("{other:?}"),
    };
    assert_eq!(wait("wfctl resume r"), None);
    assert_eq!(wait("wfctl resume --wait r"), Some(None));
    assert_eq!(wait("wfctl resume --wait=1m r"), Some(Some(Duration::from_secs(60))));
    assert!(parse("wfctl drain --wait").is_ok());
}

#[test]
fn payloads_come_from_stdin_and_may_be_negative() {
    for payload in ["-", "-1", "@f", "{}"] {
        let cli = Cli::try_parse_from(["wfctl", "resume", "r", "--payload", payload]).unwrap();
        assert!(matches!(cli.command, Command::Resume(args) if args.payload.as_deref() == Some(payload)));
    }
}

#[test]
fn what_is_refused_says_why() {
    for (line, why) in [
        ("wfctl wait r --timeout 5", "write 5s for seconds"),
        ("wfctl pause a/b", "only letters, digits"),
        ("wfctl show a/b", "a run id is made of"),
        ("wfctl statu", "similar subcommand exists: 'status'"),
        ("wfctl tick --dry", "--dry-run"),
        ("wfctl resolve r --as complete", "completed"),
        ("wfctl config capacty", "capacity"),
        ("wfctl init --capacity 0", "1..=10000"),
    ] {
        let error = parse(line).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(why), "{line}: {error}");
    }
}

#[test]
fn every_option_and_command_says_what_it_is_for() {
    let mut command = Cli::command();
    command.build();
    for sub in command.get_subcommands() {
        assert!(sub.get_about().is_some(), "{}", sub.get_name());
        for arg in sub.get_arguments() {
            assert!(arg.get_help().is_some(), "{} {}", sub.get_name(), arg.get_id());
        }
    }
}

#[test]
fn an_unfinished_line_tells_its_store_command_and_run() {
    let read = |line: &str| Line::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    for line in [
        "--store /s -v logs nightly --step",
        "logs --store=/s -f nightly",
        "logs --step x nightly --store /s",
        "--color never logs nightly --json --store /s --step",
    ] {
        let line = read(line);
        assert_eq!(line.store.as_deref(), Some(std::path::Path::new("/s")));
        assert_eq!(line.command.as_deref(), Some("logs"));
        assert_eq!(line.positionals, ["nightly"]);
    }
    assert_eq!(read("resume --wait r --note").positionals, ["r"]);
    assert_eq!(read("next -n 3 nightly").positionals, ["nightly"]);
    assert_eq!(read(""), Line::default());
}

#[test]
fn completion_takes_any_words_of_a_line() {
    let cli = Cli::try_parse_from([
        "wfctl",
        "__complete",
        "steps",
        "--prefix=--step=ex",
        "--",
        "logs",
        "r",
        "--json",
        "--bad",
        "--step=ex",
    ])
    .unwrap();
    let Command::Complete(args) = cli.command else { panic!("{cli:?}") };
    assert_eq!(args.prefix(), "ex");
    assert_eq!(args.line().positionals, ["r"]);
}

#[test]
fn a_catch_up_limit_goes_with_catch_up_all() {
    let policies = |line: &str| match parse(line).unwrap().command {
        Command::Schedule(args) => args.policy.policies(),
        other => panic!("{other:?}"),
    };
    assert_eq!(policies("wfctl schedule f --at now"), Ok(Policies::default()));
    let all = policies("wfctl schedule f --at now --catchup all --catchup-limit 3").unwrap();
    assert_eq!(all.catch_up, CatchUp::All { limit: 3 });
    assert!(policies("wfctl schedule f --at now --catchup-limit 3").is_err());
}
