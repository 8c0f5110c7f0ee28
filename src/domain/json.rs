//! JSON from outside that a record is to hold: only what can be read back from there.
//!
//! Deliberately not here: schemas ([`super::schema`]), and how large the text may be where it comes from.

use std::io;

use serde_json::Value;

/// The deepest nesting that is taken. A record puts a few levels around the value, and what reads JSON back
/// stops at 128.
const DEEPEST: usize = 100;
/// The most bytes that a value may take in a record, in which numbers can be longer than they were written. The
/// longest record that is read back is a good deal longer, for a record holds more than the value.
const LARGEST: usize = 12 << 20;

/// Reads one value.
///
/// # Errors
/// Why it is not taken, as the end of a sentence that names it.
pub fn parse_value(text: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| format!("is no JSON: {error}"))?;
    if !is_within(&value, DEEPEST) {
        return Err(format!("is nested deeper than {DEEPEST} levels"));
    }
    let mut room = Room(LARGEST);
    serde_json::to_writer(&mut room, &value)
        .map_err(|_| format!("takes more than {} MiB in the record", LARGEST >> 20))?;
    Ok(value)
}

fn is_within(value: &Value, levels: usize) -> bool {
    let inner = levels.checked_sub(1);
    match value {
        Value::Array(items) => inner.is_some_and(|inner| items.iter().all(|item| is_within(item, inner))),
        Value::Object(fields) => {
            inner.is_some_and(|inner| fields.values().all(|item| is_within(item, inner)))
        }
        _ => true,
    }
}

/// Takes so many bytes and keeps none.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn depth_and_size_have_a_limit() {
        let nested = |levels| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert!(parse_value(&nested(DEEPEST)).is_ok());
        for levels in [DEEPEST + 1, 126, 127, 128, 100_000] {
            assert!(parse_value(&nested(levels)).is_err(), "{levels}");
        }
        let long = format!("[{}1]", "1e15,".repeat(1_000_000));
        assert_eq!(parse_value(long.as_bytes()).unwrap_err(), "takes more than 12 MiB in the record");
    }
}
