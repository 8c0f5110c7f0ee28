//! Any text as the cursor of a listing: no panic, and an empty store stays empty wherever a page starts.
//!
//! Every input is tried as it is, and as what a cursor holds, encoded and with the right checksum.

#![no_main]

use std::{fmt::Write as _, path::Path, sync::LazyLock};

use chrono::Utc;
use libfuzzer_sys::fuzz_target;
use wfctl::{
    engine::query::{HistoryFilter, PageRequest, RunFilter, list_history, list_runs, list_schedules},
    store::Store,
};

static STORE: LazyLock<Store> = LazyLock::new(|| {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/target/empty-store"));
    Store::create(root, Some(1)).expect("a store");
    Store::open(root, "fuzz").expect("the store")
});

/// Whether any listing took the cursor.
fn list(cursor: String) -> bool {
    let request = PageRequest { limit: 3, cursor: Some(cursor) };
    let runs = list_runs(&STORE, Utc::now(), &RunFilter::default(), &request).map(|page| page.items.len());
    let history = list_history(&STORE, &HistoryFilter::default(), &request).map(|page| page.items.len());
    let schedules = list_schedules(&STORE, &request).map(|page| page.items.len());
    let found: Vec<usize> = [runs, history, schedules].into_iter().flatten().collect();
    assert!(found.len() <= 1, "a cursor of several listings");
    assert!(found.iter().all(|count| *count == 0), "something in an empty store");
    !found.is_empty()
}

fuzz_target!(|text: &str| {
    list(text.to_owned());
    let mut sealed = String::new();
    for byte in text.bytes().chain(crc32c::crc32c(text.as_bytes()).to_be_bytes()) {
        let _ = write!(sealed, "{byte:02x}");
    }
    if list(sealed.clone()) {
        assert!(!list(sealed[..sealed.len() - 2].to_owned()), "a cursor that was cut");
    }
});
