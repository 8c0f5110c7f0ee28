//! What the checked workflow promises, and that no text makes the reader panic.

use proptest::prelude::*;

use super::*;

const FULL: &str = include_str!("../../../fixtures/valid/full.toml");
const GATE: &str = include_str!("../../../fixtures/valid/gate.toml");
const LOOP: &str = include_str!("../../../fixtures/valid/loop.toml");
const RETRY: &str = include_str!("../../../fixtures/valid/retry.toml");
const SCHEMA: &str = include_str!("../../../fixtures/valid/payload-schema.toml");

fn outcome(text: &str) -> Outcome {
    text.parse().unwrap()
}

fn command<'w>(workflow: &'w Workflow, id: &str) -> &'w CommandStep {
    match &workflow.step(workflow.index_of(id).unwrap()).kind {
        StepKind::Command(step) => step,
        StepKind::Gate(_) => panic!("{id} is a gate"),
    }
}

fn gate<'w>(workflow: &'w Workflow, id: &str) -> &'w GateStep {
    match &workflow.step(workflow.index_of(id).unwrap()).kind {
        StepKind::Gate(step) => step,
        StepKind::Command(_) => panic!("{id} is a command"),
    }
}

fn route(workflow: &Workflow, from: &str, by: &str) -> Target {
    workflow.route(workflow.index_of(from).unwrap(), &outcome(by))
}

fn to(workflow: &Workflow, id: &str) -> Target {
    Target::Step(workflow.index_of(id).unwrap())
}

fn messages(text: &str) -> Vec<String> {
    Workflow::parse(text).unwrap_err().iter().map(|error| format!("{error}")).collect()
}

#[test]
fn every_key_of_a_file_is_read() {
    let workflow = Workflow::parse(FULL).unwrap();
    assert_eq!(workflow.name.as_str(), "nightly-report");
    assert_eq!(workflow.description.as_deref(), Some("Build the report, ask, publish"));
    assert_eq!(workflow.timeout, Some(Duration::from_secs(7200)));
    assert_eq!(workflow.max_steps, 50);
    assert_eq!(workflow.env["REGION"], "eu");
    assert!(matches!(&workflow.notify.on_failure, Some(CommandLine::Argv(argv)) if argv.len() == 2));
    assert_eq!(workflow.notify.on_success, Some(CommandLine::Shell("true".into())));
    let step = command(&workflow, "extract");
    assert_eq!(step.run, CommandLine::Shell("./extract.sh > data.csv".into()));
    assert_eq!(step.cwd.as_deref(), Some("/srv/report"));
    assert_eq!(step.env["LEVEL"], "3");
    assert_eq!(step.pass_env, ["SSH_AUTH_SOCK"]);
    assert_eq!(step.timeout, Some(Duration::from_secs(600)));
    assert!(step.idempotent);
}

#[test]
fn what_is_left_out_has_the_careful_default() {
    let workflow =
        Workflow::parse("name='x'\n[[step]]\nid='a'\nrun='x'\n[[step]]\nid='b'\ninterrupt='?'").unwrap();
    assert_eq!((workflow.max_steps, workflow.timeout), (1000, None));
    let step = command(&workflow, "a");
    assert_eq!((step.retry, step.idempotent, step.timeout), (Retry::NONE, false, None));
    assert_eq!(gate(&workflow, "b").outcomes, [Outcome::SUBMITTED]);
    assert_eq!((&gate(&workflow, "b").schema, gate(&workflow, "b").expires), (&None, None));
}

#[test]
fn ok_falls_through_and_failures_fail() {
    let workflow = Workflow::parse(RETRY).unwrap();
    assert_eq!(route(&workflow, "fetch", "ok"), to(&workflow, "load"));
    assert_eq!(route(&workflow, "load", "ok"), Target::End);
    for failure in ["error", "timeout", "expired", "never-heard-of"] {
        assert_eq!(route(&workflow, "load", failure), Target::Fail, "{failure}");
    }
}

#[test]
fn only_the_first_outcome_of_a_gate_falls_through() {
    let workflow = Workflow::parse(GATE).unwrap();
    assert_eq!(route(&workflow, "approve", "approved"), to(&workflow, "publish"));
    assert_eq!(route(&workflow, "approve", "rejected"), Target::End);
    assert_eq!(route(&workflow, "approve", "expired"), Target::End);
    let text =
        GATE.replace("next = { rejected = \"end\", expired = \"end\" }", "next = { rejected = \"fail\" }");
    let workflow = Workflow::parse(&text).unwrap();
    assert_eq!(route(&workflow, "approve", "expired"), Target::Fail);
    assert_eq!(route(&workflow, "approve", "rejected"), Target::Fail);
}

#[test]
fn a_gate_may_name_its_first_outcome_error_and_it_falls_through() {
    let text = "name='x'\n[[step]]\nid='a'\ninterrupt='?'\noutcomes=['error']\n[[step]]\nid='b'\nrun='x'";
    let workflow = Workflow::parse(text).unwrap();
    assert_eq!(route(&workflow, "a", "error"), to(&workflow, "b"));
}

#[test]
fn exit_statuses_become_outcomes_and_outcomes_lead_on() {
    let workflow = Workflow::parse(LOOP).unwrap();
    let poll = command(&workflow, "poll");
    for (code, expected) in [
        (0, "ok"),
        (10, "pending"),
        (11, "empty"),
        (12, "ok"),
        (13, "error"),
        (1, "error"),
        (-1, "error"),
        (266, "error"),
    ] {
        assert_eq!(poll.exit_outcome(code).as_str(), expected, "{code}");
    }
    assert_eq!(route(&workflow, "poll", "pending"), to(&workflow, "wait"));
    assert_eq!(route(&workflow, "wait", "ok"), to(&workflow, "poll"));
    assert_eq!(route(&workflow, "poll", "timeout"), Target::Fail);
    assert_eq!(route(&workflow, "alarm", "ok"), Target::Fail);
}

#[test]
fn waits_between_tries_grow_up_to_the_cap_and_never_overflow() {
    let workflow = Workflow::parse(RETRY).unwrap();
    let retry = command(&workflow, "fetch").retry;
    let waits: Vec<_> = (0..9).map(|n| retry.delay_before(n).as_secs()).collect();
    assert_eq!(waits, [0, 0, 10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(retry.delay_before(u32::MAX), Duration::from_secs(300));
    let none = command(&workflow, "load").retry;
    assert_eq!(none.delay_before(u32::MAX), Duration::ZERO);
    let steady =
        Retry { max: 3, delay: Duration::from_secs(7), backoff: 1.0, max_delay: Duration::from_secs(7) };
    assert_eq!(steady.delay_before(3), Duration::from_secs(7));
    let steep = Retry { backoff: f64::MAX, delay: Duration::ZERO, ..steady };
    assert_eq!(steep.delay_before(9), Duration::ZERO);
}

#[test]
fn payload_schemas_become_json() {
    let workflow = Workflow::parse(SCHEMA).unwrap();
    let schema = gate(&workflow, "count").schema.clone().unwrap();
    assert_eq!(schema["properties"]["n"]["$ref"], "#/$defs/count");
    assert_eq!(schema["$defs"]["count"]["minimum"], 1);
    assert_eq!(gate(&workflow, "anything").schema, Some(serde_json::Value::Bool(true)));
}

#[test]
fn all_errors_are_found_in_one_pass_and_sorted_by_place() {
    let text = "nme = 'x'\nmax_steps = 0\n\n[[step]]\nid = 'a'\nrun = 'x'\ntimeout = '0s'\nretry = { max = 'y' }\n\
                exit = { 0 = 'ok', 300 = 'timeout' }\nnext = { ok = 'nowhere' }\n\n[[step]]\nid = 'a'\ninterrupt = ''\n";
    let found = messages(text);
    let lines: Vec<usize> = Workflow::parse(text).unwrap_err().iter().map(|error| error.line).collect();
    assert_eq!(lines, [1, 1, 2, 7, 8, 9, 9, 9, 10, 13, 14], "{found:#?}");
}

#[test]
fn a_duplicate_id_names_both_lines() {
    let text = "name='x'\n[[step]]\nid='a'\nrun='x'\n[[step]]\nid='a'\nrun='y'";
    assert_eq!(messages(text), ["6:4: two steps have the id \"a\": lines 3 and 6"]);
}

#[test]
fn a_broken_route_does_not_make_other_steps_seem_unreachable() {
    let text = "name='x'\n[[step]]\nid='a'\nrun='x'\nnext={ok='cc'}\n[[step]]\nid='b'\nrun='y'\n[[step]]\nid='c'\nrun='y'";
    let errors = Workflow::parse(text).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert!(errors[0].message.contains("unknown step \"cc\""));
}

#[test]
fn a_step_that_is_only_reached_by_a_failure_is_reachable() {
    let text = "name='x'\n[[step]]\nid='a'\nrun='x'\nnext={ok='end',timeout='b'}\n[[step]]\nid='b'\nrun='y'";
    assert!(Workflow::parse(text).is_ok());
}

#[test]
fn a_file_of_more_than_one_mebibyte_is_refused() {
    let text = format!("{FULL}#{}", "x".repeat(MAX_FILE_SIZE));
    assert!(messages(&text)[0].contains("larger than 1 MiB"));
    let fits = format!("{FULL}#{}", "x".repeat(MAX_FILE_SIZE - FULL.len() - 1));
    assert!(Workflow::parse(&fits).is_ok());
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    let key = format!("{}a", "a.".repeat(78));
    let nested = format!("{}1{}", format!("{{{key}=").repeat(78), "}".repeat(78));
    for line in
        [format!("schema = {{ x = {nested} }}"), format!("zzz = {nested}"), format!("next = {nested}")]
    {
        assert!(!messages(&format!("name='x'\n[[step]]\nid='a'\ninterrupt='?'\n{line}\n")).is_empty());
    }
    assert!(!messages(&format!("a = {}", "[".repeat(500_000))).is_empty());
    assert!(!messages(&format!("[{}a]", "a.".repeat(500_000))).is_empty());
}

#[test]
fn many_errors_take_little_time() {
    let steps = "[[step]]\nid='a'\nrun='x'\nnext={q='zz'}\n".repeat(20_000);
    assert!(messages(&format!("name='x'\n{steps}")).len() > 20_000);
    let names: Vec<_> = (0..60_000).map(|i| format!("'o{i}'")).collect();
    let gate = format!("name='x'\n[[step]]\nid='a'\ninterrupt='?'\noutcomes=[{}]\n", names.join(","));
    assert_eq!(messages(&gate).len(), 59_999);
}

/// Texts that are nearly workflows: a valid file with a few characters cut, doubled or replaced.
fn mutated() -> impl Strategy<Value = String> {
    let files = prop::sample::select(vec![FULL, GATE, LOOP, RETRY, SCHEMA]);
    let snippet = prop::sample::select(vec![
        "",
        "\"",
        "{",
        "}",
        "[[step]]\n",
        "\n",
        "=",
        "0",
        "-1",
        "\"end\"",
        "\u{0}",
        "é",
        "\u{feff}",
        "next",
        "1e999",
        "2026-12-01",
        "\"\"",
        ".",
        "a.b.c",
        "'''",
        "[",
        "]",
        "99999999999999999999",
        "true",
        "\r",
    ]);
    let edit = (any::<prop::sample::Index>(), 0..12_usize, snippet);
    (files, prop::collection::vec(edit, 1..5)).prop_map(|(file, edits)| {
        let mut chars: Vec<char> = file.chars().collect();
        for (at, cut, snippet) in edits {
            let start = at.index(chars.len() + 1);
            let end = (start + cut).min(chars.len());
            chars.splice(start..end, snippet.chars());
        }
        chars.into_iter().collect()
    })
}

/// What holds for the result of every text.
fn check_result(text: &str) -> Result<(), TestCaseError> {
    match Workflow::parse(text) {
        Ok(workflow) => {
            for (i, step) in workflow.steps().iter().enumerate() {
                prop_assert_eq!(workflow.index_of(step.id.as_str()), Some(StepIndex(i)));
                prop_assert!(step.routes().count() > 0);
                for (_, target) in step.routes() {
                    if let Target::Step(index) = target {
                        prop_assert!(index.get() < workflow.steps().len());
                    }
                }
            }
            prop_assert!(workflow.first().get() < workflow.steps().len());
        }
        Err(errors) => {
            prop_assert!(!errors.is_empty());
            let lines = text.split('\n').count();
            for error in &errors {
                prop_assert!(error.line >= 1 && error.line <= lines && error.column >= 1);
                prop_assert!(!error.message.is_empty() && !error.message.contains('\n'), "{:?}", error);
            }
            prop_assert!(errors.is_sorted_by_key(|error| (error.line, error.column)));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        check_result(&text)?;
    }

    #[test]
    fn no_nearly_valid_text_makes_the_reader_panic(text in mutated()) {
        check_result(&text)?;
    }

    #[test]
    fn no_value_of_any_type_makes_the_reader_panic(
        key in "(name|timeout|max_steps|env|notify|step)",
        step_key in "(id|run|cwd|env|pass_env|timeout|retry|exit|idempotent|interrupt|outcomes|schema|expires|next)",
        value in "(1|-1|1\\.5|nan|true|'x'|''|'9s'|\\[\\]|\\[1\\]|\\['a'\\]|\\{\\}|\\{a=1\\}|\\{a='b'\\}|\\{1='x'\\}|2026-12-01)",
        kind in "(run='x'|interrupt='?')",
    ) {
        check_result(&format!("{key} = {value}\n[[step]]\nid='q'\n{kind}\n{step_key} = {value}\n"))?;
        check_result(&format!("name='x'\n[[step]]\n{kind}\n{step_key} = {value}\n"))?;
    }
}
