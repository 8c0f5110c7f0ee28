//! JSON Schemas of gate payloads: may this schema be used, and does this payload follow it.
//!
//! Invariants: nothing is ever fetched, from the network or from a file; no schema or payload within
//! the limits below can exhaust the stack. Deliberately not here: where in a workflow file a schema
//! stands, and what happens to a payload that was refused.

use std::thread;

use jsonschema::{Retrieve, Uri, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

/// The deepest nesting of a schema, in tables and arrays.
pub const MAX_SCHEMA_DEPTH: usize = 64;
/// The deepest nesting of a payload; what `serde_json` reads is never deeper.
pub const MAX_PAYLOAD_DEPTH: usize = 128;

/// The most objects in a schema. Chains of `$ref` recurse, so the size bounds the depth.
const MAX_SCHEMA_OBJECTS: usize = 256;
/// How many faults of a payload are listed.
const MAX_FAULTS: usize = 20;
/// How much of one fault is shown; the library quotes whole values.
const MAX_FAULT_LEN: usize = 300;
/// A chain of a few hundred `$ref`s overflows the 2 MiB of an ordinary thread, which would end the
/// whole process with every step in it. The kernel only backs the part that is touched.
const STACK_SIZE: usize = 128 * 1024 * 1024;

/// A schema that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct InvalidSchema {
    /// The JSON pointer of the part at fault, `""` for the whole.
    pub pointer: String,
    /// What is wrong with it.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Refuses a schema that does not compile, is too large, or refers to anything outside itself.
pub fn check_schema(schema: &Value) -> Result<(), InvalidSchema> {
    check_size(schema)?;
    on_a_deep_stack(|| compile(schema).map(drop)).unwrap_or_else(|why| Err(plain_fault(why)))
}

/// Whether `payload` follows `schema`; else each fault, with the JSON pointer it is found at.
pub fn validate_payload(schema: &Value, payload: &Value) -> Result<(), Vec<String>> {
    if !is_within(payload, MAX_PAYLOAD_DEPTH) {
        return Err(vec![format!("the payload is nested deeper than {MAX_PAYLOAD_DEPTH} levels")]);
    }
    let unusable = |fault: InvalidSchema| vec![format!("the schema cannot be used: {fault}")];
    check_size(schema).map_err(unusable)?;
    let faults = on_a_deep_stack(|| Ok(faults_of(&compile(schema)?, payload)))
        .unwrap_or_else(|why| Err(plain_fault(why)))
        .map_err(unusable)?;
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Refuses every reference that would have to be fetched.
struct RefuseToFetch;

impl Retrieve for RefuseToFetch {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("references are never fetched".into())
    }
}

fn compile(schema: &Value) -> Result<Validator, InvalidSchema> {
    jsonschema::options().with_retriever(RefuseToFetch).build(schema).map_err(|error| describe(&error))
}

fn describe(error: &ValidationError<'_>) -> InvalidSchema {
    let pointer = error.instance_path().to_string();
    if let ValidationErrorKind::Referencing(jsonschema::ReferencingError::Unretrievable { uri, .. }) =
        error.kind()
    {
        let why = format!("it refers to {:?}, and references are never fetched", shorten(uri));
        let hint = "put the part under `$defs` and refer to it as \"#/$defs/<name>\"".to_owned();
        return InvalidSchema { pointer, why, hint: Some(hint) };
    }
    let reason = shorten(&error.to_string());
    let why = if pointer.is_empty() { reason } else { format!("{reason} at {pointer:?}") };
    InvalidSchema { pointer, why, hint: None }
}

fn faults_of(validator: &Validator, payload: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut more = 0_usize;
    for error in validator.iter_errors(payload) {
        let pointer = error.instance_path().to_string();
        let place = if pointer.is_empty() { "the payload".to_owned() } else { pointer };
        let fault = format!("{place}: {}", shorten(&error.to_string()));
        if faults.contains(&fault) {
            continue;
        }
        if faults.len() < MAX_FAULTS {
            faults.push(fault);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        faults.push(format!("and {more} more"));
    }
    faults
}

fn plain_fault(why: String) -> InvalidSchema {
    InvalidSchema { pointer: String::new(), why, hint: None }
}

fn check_size(schema: &Value) -> Result<(), InvalidSchema> {
    if !is_within(schema, MAX_SCHEMA_DEPTH) {
        return Err(plain_fault(format!("it is nested deeper than {MAX_SCHEMA_DEPTH} levels")));
    }
    if count_objects(schema) > MAX_SCHEMA_OBJECTS {
        return Err(plain_fault(format!("it has more than {MAX_SCHEMA_OBJECTS} tables")));
    }
    Ok(())
}

/// Whether tables and arrays are nested at most `depth` deep; looks no deeper than that.
fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if depth == 0 => false,
        Value::Array(items) => items.iter().all(|item| is_within(item, depth - 1)),
        Value::Object(entries) => entries.values().all(|entry| is_within(entry, depth - 1)),
        _ => true,
    }
}

fn count_objects(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(count_objects).sum(),
        Value::Object(entries) => 1 + entries.values().map(count_objects).sum::<usize>(),
        _ => 0,
    }
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_FAULT_LEN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Does the work of `f` on a thread of its own, whose stack is large enough for every schema and
/// payload within the limits.
fn on_a_deep_stack<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .stack_size(STACK_SIZE)
            .spawn_scoped(scope, f)
            .map_err(|error| format!("no thread to check it on: {error}"))?;
        thread.join().map_err(|_| "the schema library failed on it".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_payload_fault_names_the_pointer_and_the_reason() {
        let schema =
            json!({"type": "object", "required": ["comment"], "properties": {"a/b": {"type": "string"}}});
        assert_eq!(validate_payload(&schema, &json!({"comment": 1, "a/b": "x"})), Ok(()));
        let faults = validate_payload(&schema, &json!({"a/b": 5})).unwrap_err();
        assert!(faults.iter().any(|f| f == "/a~1b: 5 is not of type \"string\""), "{faults:?}");
        assert!(faults.iter().any(|f| f == "the payload: \"comment\" is a required property"), "{faults:?}");
    }

    #[test]
    fn references_inside_the_schema_work() {
        let schema = json!({"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}});
        assert_eq!(check_schema(&schema), Ok(()));
        assert_eq!(validate_payload(&schema, &json!(1)), Ok(()));
        assert!(validate_payload(&schema, &json!("1")).is_err());
    }

    #[test]
    fn references_out_of_the_schema_are_refused_wherever_they_stand() {
        for target in ["https://example.com/x.json", "file:///etc/passwd", "other.json", "/etc/passwd"] {
            for schema in [
                json!({"$ref": target}),
                json!({"properties": {"a": {"items": {"$ref": target}}}}),
                json!({"$defs": {"unused": {"$ref": target}}}),
                json!({"$dynamicRef": target}),
                json!({"$ref": "#/unknown", "unknown": {"$ref": target}}),
            ] {
                let refused = check_schema(&schema).unwrap_err();
                assert!(refused.why.contains("never fetched"), "{schema}: {refused}");
                assert!(validate_payload(&schema, &json!(1)).is_err());
            }
        }
    }

    #[test]
    fn schemas_that_do_not_compile_are_refused_at_their_place() {
        for (schema, pointer) in [
            (json!({"properties": {"a": {"type": "strng"}}}), "/properties/a/type"),
            (json!({"pattern": "("}), "/pattern"),
            (json!({"$ref": "#/$defs/missing"}), ""),
            (json!({"$schema": "https://example.com/dialect"}), ""),
        ] {
            assert_eq!(check_schema(&schema).unwrap_err().pointer, pointer, "{schema}");
        }
    }

    #[test]
    fn boolean_schemas_allow_all_or_nothing() {
        assert_eq!(validate_payload(&json!(true), &json!({"any": "thing"})), Ok(()));
        assert!(validate_payload(&json!(false), &json!(null)).is_err());
    }

    #[test]
    fn circular_schemas_end() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        ] {
            assert_eq!(validate_payload(&schema, &json!([1])), Ok(()), "{schema}");
        }
    }

    #[test]
    fn no_schema_within_the_limits_exhausts_the_stack() {
        let mut defs = serde_json::Map::new();
        defs.insert("d0".into(), json!({"type": "integer"}));
        let last = MAX_SCHEMA_OBJECTS / 2 - 2;
        for i in 1..=last {
            let before = format!("#/$defs/d{}", i - 1);
            defs.insert(
                format!("d{i}"),
                json!({"unevaluatedProperties": false, "allOf": [{"$ref": before}]}),
            );
        }
        let chain = json!({"$ref": format!("#/$defs/d{last}"), "$defs": defs});
        assert_eq!(validate_payload(&chain, &json!(1)), Ok(()));
    }

    #[test]
    fn a_cycle_of_references_over_a_deep_payload_does_not_exhaust_the_stack() {
        let mut deep = json!({});
        for _ in 1..MAX_PAYLOAD_DEPTH {
            deep = json!({ "a": deep });
        }
        let hops: serde_json::Map<_, _> = (0..200)
            .map(|i| (format!("d{i}"), json!({"$ref": format!("#/$defs/d{}", i + 1)})))
            .chain([("d200".to_owned(), json!({"properties": {"a": {"$ref": "#/$defs/d0"}}}))])
            .collect();
        let cycle = json!({"$ref": "#/$defs/d0", "$defs": hops});
        assert_eq!(validate_payload(&cycle, &deep), Ok(()));
    }

    #[test]
    fn what_is_beyond_the_limits_is_refused() {
        let mut deep = json!({});
        for _ in 0..MAX_PAYLOAD_DEPTH {
            deep = json!({ "not": deep });
        }
        assert!(check_schema(&deep).is_err());
        assert!(validate_payload(&json!(true), &deep).is_err());
        let wide: Vec<_> = (0..=MAX_SCHEMA_OBJECTS).map(|_| json!({})).collect();
        assert!(check_schema(&json!({ "allOf": wide })).is_err());
    }

    #[test]
    fn long_lists_of_faults_are_cut() {
        let payload: Vec<_> = (0..100).collect();
        let faults = validate_payload(&json!({"items": {"type": "string"}}), &json!(payload)).unwrap_err();
        assert_eq!(faults.len(), MAX_FAULTS + 1);
        assert_eq!(faults[MAX_FAULTS], "and 80 more");
    }
}
