//! Every file in `fixtures/valid` is a workflow; every file in `fixtures/invalid` breaks one rule and
//! says in its first lines where (`# expect: LINE:COLUMN: words`) and with which advice (`# hint: words`).

#![allow(clippy::unwrap_used)] // the rule exempts test functions, but not what they share

use std::{
    fs,
    path::{Path, PathBuf},
};

use wfctl::domain::workflow::Workflow;

fn fixtures(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn every_valid_file_is_accepted() {
    let files = fixtures("valid");
    assert!(files.len() >= 6);
    for (path, text) in files {
        if let Err(errors) = Workflow::parse(&text) {
            panic!("{}: {errors:#?}", path.display());
        }
    }
}

#[test]
fn every_invalid_file_is_refused_at_the_place_with_the_reason_and_the_hint() {
    let files = fixtures("invalid");
    assert!(files.len() >= 60);
    let mut wrong = Vec::new();
    for (path, text) in files {
        let mut lines = text.lines();
        let expected = lines.next().unwrap().strip_prefix("# expect: ").expect("an expectation");
        let hint = lines.next().unwrap().strip_prefix("# hint: ").unwrap_or("");
        let (place, words) = expected.split_once(": ").unwrap();
        let errors = Workflow::parse(&text).err().unwrap_or_default();
        let is_as_expected = match errors.as_slice() {
            [error] => {
                format!("{}:{}", error.line, error.column) == place
                    && error.message.contains(words)
                    && error.hint.as_deref().unwrap_or("").contains(hint)
            }
            _ => false,
        };
        if !is_as_expected {
            wrong.push(format!("{}: expected {expected} ({hint}), got {errors:#?}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
