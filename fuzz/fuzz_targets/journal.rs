//! Any bytes as a journal: no panic, and what is accepted is a prefix that says the same again.
//!
//! Every input is tried as it is, and with the checksums of its lines made right, without which hardly any
//! input would get behind them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wfctl::store::journal::{fold, fold_records, parse};

/// The lines with right checksums.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let end = line.windows(8).rposition(|at| at == b",\"crc\":\"").unwrap_or(line.len());
        out.extend_from_slice(&line[..end]);
        out.extend(format!(",\"crc\":\"{:08x}\"}}\n", crc32c::crc32c(&line[..end])).bytes());
    }
    out
}

fn check(bytes: &[u8]) {
    let folded = fold(bytes);
    let Ok(contents) = parse(bytes) else {
        assert!(folded.is_err(), "what cannot be read cannot be folded");
        return;
    };
    let valid = usize::try_from(contents.valid_len).expect("within the input");
    let again = parse(&bytes[..valid]).expect("what counted is readable by itself");
    assert_eq!((again.records.len(), again.valid_len), (contents.records.len(), contents.valid_len));
    if folded.is_ok() {
        for length in 0..=contents.records.len() {
            fold_records(&contents.records[..length]).expect("every beginning of a history is one");
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    check(&sealed(bytes));
});
