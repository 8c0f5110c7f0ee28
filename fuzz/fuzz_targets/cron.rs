//! Any text as a cron expression in any zone at any time: no panic, no endless search, and next, previous and
//! count agree. An input has three lines: zone, seconds since 1970, expression.

#![no_main]

use chrono::{DateTime, Utc};
use libfuzzer_sys::fuzz_target;
use wfctl::domain::trigger::{CronExpr, Definition, Rule, Trigger, Zone};

fuzz_target!(|input: &str| {
    let mut lines = input.splitn(3, '\n');
    let (Some(zone), Some(seconds), Some(text)) = (lines.next(), lines.next(), lines.next()) else { return };
    let zone = Zone::parse(zone).unwrap_or_else(|_| Zone::utc());
    let at = seconds.parse().ok().and_then(|seconds| DateTime::<Utc>::from_timestamp(seconds, 0));
    let at = at.unwrap_or_default();
    let expression = match CronExpr::parse(text) {
        Ok(expression) => expression,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert_eq!(
        CronExpr::parse(expression.as_str()).as_ref(),
        Ok(&expression),
        "its own text is the expression"
    );
    let trigger = Trigger::new(Definition { zone, ..Definition::new(Rule::Cron(expression)) });
    let mut before = at;
    for _ in 0..4 {
        let Some(next) = trigger.next_after(before) else { break };
        assert!(next > before, "{next} does not come after {before}");
        assert_eq!(trigger.last_until(next), Some(next));
        assert_eq!(trigger.count_between(before, next), 1, "from {before} to {next}");
        before = next;
    }
});
