//! Where outcomes lead: every outcome that a step can have gets one target, and every step is the
//! target of something.
//!
//! Invariant: of the outcomes an author declares, only the first of a gate has a default, so that a
//! "rejected" never falls through to the step that it was meant to stop. Deliberately not here: choosing
//! a route at run time, which is [`super::Workflow::route`].

use std::collections::{BTreeMap, HashMap};

use super::report::{Report, quote};
use super::step::{Draft, NextEntry};
use super::{Outcome, StepIndex, StepKind, Target};

/// The routes of one step.
pub(super) type Routes = BTreeMap<Outcome, Target>;

/// The outcomes that a step can have, and where those stand that the author declared.
type Possible = BTreeMap<Outcome, Option<usize>>;

/// The place of each step name. Names that break the grammar are there too, so that a `next` that
/// uses one is not a second error.
pub(super) fn index_names<'a>(drafts: &[Draft<'a>], report: &mut Report<'_>) -> HashMap<&'a str, StepIndex> {
    let mut index = HashMap::with_capacity(drafts.len());
    let mut places: HashMap<&str, usize> = HashMap::with_capacity(drafts.len());
    for (i, draft) in drafts.iter().enumerate() {
        let Some((name, at)) = draft.name else { continue };
        if let Some(first_at) = places.get(name) {
            let (first, second) = (report.line_of(*first_at), report.line_of(at));
            let message = format!("two steps have the id {}: lines {first} and {second}", quote(name));
            report.refuse_with_hint(at, message, "rename one of them");
        } else {
            places.insert(name, at);
            index.insert(name, StepIndex(i));
        }
    }
    index
}

/// The routes of each step. Whatever could not be read is left out; then the report has an error.
pub(super) fn resolve(
    drafts: &[Draft<'_>],
    index: &HashMap<&str, StepIndex>,
    report: &mut Report<'_>,
) -> Vec<Routes> {
    let mut all = Vec::with_capacity(drafts.len());
    let mut is_sound = true;
    for (i, draft) in drafts.iter().enumerate() {
        let before = report.count();
        let following = if i + 1 < drafts.len() { Target::Step(StepIndex(i + 1)) } else { Target::End };
        let possible = possible_outcomes(draft);
        let entries = resolve_entries(draft, possible.as_ref(), index, report);
        let is_readable = possible.is_some() && draft.next.is_some();
        let known = possible.filter(|_| is_readable).unwrap_or_default();
        all.push(complete(draft, known, &entries, following, report));
        is_sound &= is_readable && draft.id.is_some() && report.count() == before;
    }
    // Where routes are missing, steps would seem unreachable that are not.
    if is_sound && index.len() == drafts.len() {
        refuse_unreachable(drafts, &all, report);
    }
    all
}

/// The targets that `next` names.
fn resolve_entries<'a>(
    draft: &'a Draft<'_>,
    possible: Option<&Possible>,
    index: &HashMap<&str, StepIndex>,
    report: &mut Report<'_>,
) -> HashMap<&'a str, Target> {
    let mut entries = HashMap::new();
    for entry in draft.next.iter().flatten() {
        let target = match (entry.target, index.get(entry.target)) {
            ("end", _) => Target::End,
            ("fail", _) => Target::Fail,
            (_, Some(step)) => Target::Step(*step),
            (_, None) => {
                refuse_unknown_step(draft, entry, index, report);
                Target::Fail
            }
        };
        entries.insert(entry.outcome, target);
        if let (Some(kind), Some(possible)) = (&draft.kind, possible)
            && !possible.contains_key(entry.outcome)
        {
            refuse_impossible(draft, kind, possible, entry, report);
        }
    }
    entries
}

fn refuse_unknown_step(
    draft: &Draft<'_>,
    entry: &NextEntry<'_>,
    index: &HashMap<&str, StepIndex>,
    report: &mut Report<'_>,
) {
    let message = format!("`next` of {} names an unknown step {}", draft.label, quote(entry.target));
    let mut names: Vec<_> = index.keys().copied().chain(["end", "fail"]).collect();
    names.sort_unstable();
    let hint = match report.nearest(entry.target, names.into_iter()) {
        Some(name) => format!("did you mean {}?", quote(name)),
        None => "name a step of this file, \"end\" or \"fail\"".to_owned(),
    };
    report.refuse_with_hint(entry.target_at, message, hint);
}

/// Refuses an entry for an outcome that the step never has: it would be a route that nobody takes.
fn refuse_impossible(
    draft: &Draft<'_>,
    kind: &StepKind,
    possible: &Possible,
    entry: &NextEntry<'_>,
    report: &mut Report<'_>,
) {
    let message = format!("{} can never have the outcome {}", draft.label, quote(entry.outcome));
    let is_gate = matches!(kind, StepKind::Gate(_));
    let hint = if is_gate && entry.outcome == Outcome::EXPIRED.as_str() {
        "set `expires`, or remove the entry".to_owned()
    } else if let Some(name) = report.nearest(entry.outcome, possible.keys().map(Outcome::as_str)) {
        format!("did you mean {}?", quote(name))
    } else {
        let names: Vec<_> = possible.keys().take(20).map(Outcome::as_str).collect();
        format!("its outcomes are {}", names.join(", "))
    };
    report.refuse_with_hint(entry.outcome_at, message, hint);
}

/// Every outcome that a step can have; `None` if that could not be read. Any command can time out,
/// since the workflow may have a timeout.
fn possible_outcomes(draft: &Draft<'_>) -> Option<Possible> {
    let mut possible = Possible::new();
    match draft.kind.as_ref()? {
        StepKind::Command(_) => {
            possible.extend([Outcome::OK, Outcome::ERROR, Outcome::TIMEOUT].map(|outcome| (outcome, None)));
        }
        StepKind::Gate(gate) => possible.extend(gate.expires.map(|_| (Outcome::EXPIRED, None))),
    }
    for (outcome, at) in draft.declared.as_ref()? {
        possible.entry(outcome.clone()).or_insert(Some(*at));
    }
    Some(possible)
}

/// Adds the defaults, and refuses the outcomes that have none.
fn complete(
    draft: &Draft<'_>,
    possible: Possible,
    entries: &HashMap<&str, Target>,
    following: Target,
    report: &mut Report<'_>,
) -> Routes {
    let mut routes = Routes::new();
    for (outcome, declared_at) in possible {
        let target = entries.get(outcome.as_str()).copied();
        if let Some(target) = target.or_else(|| default_target(draft, &outcome, following)) {
            routes.insert(outcome, target);
        } else {
            let message = format!("{} has no entry in `next` for the outcome \"{outcome}\"", draft.label);
            let hint = format!("say where it leads: next = {{ {outcome} = \"end\" }}");
            report.refuse_with_hint(declared_at.unwrap_or(0), message, hint);
        }
    }
    routes
}

/// Where an outcome leads without an entry; `None` if it needs one.
fn default_target(draft: &Draft<'_>, outcome: &Outcome, following: Target) -> Option<Target> {
    match draft.kind.as_ref()? {
        StepKind::Command(_) if *outcome == Outcome::OK => Some(following),
        StepKind::Command(_) if *outcome == Outcome::ERROR || *outcome == Outcome::TIMEOUT => {
            Some(Target::Fail)
        }
        StepKind::Gate(gate) if gate.outcomes.first() == Some(outcome) => Some(following),
        StepKind::Gate(_) if *outcome == Outcome::EXPIRED => Some(Target::Fail),
        StepKind::Command(_) | StepKind::Gate(_) => None,
    }
}

fn refuse_unreachable(drafts: &[Draft<'_>], routes: &[Routes], report: &mut Report<'_>) {
    let mut reached = vec![false; drafts.len()];
    let mut waiting = vec![0];
    while let Some(i) = waiting.pop() {
        if std::mem::replace(&mut reached[i], true) {
            continue;
        }
        waiting.extend(routes[i].values().filter_map(|target| match target {
            Target::Step(step) => Some(step.0),
            Target::End | Target::Fail => None,
        }));
    }
    for (draft, _) in drafts.iter().zip(reached).filter(|(_, reached)| !reached) {
        let at = draft.name.map_or(0, |(_, at)| at);
        let message = format!("{} can never be reached", draft.label);
        report.refuse_with_hint(at, message, "name it in the `next` of a step before it, or remove it");
    }
}
