//! Any text as a workflow file: no panic, and a refusal says why.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wfctl::domain::workflow::Workflow;

fuzz_target!(|text: &str| {
    match Workflow::parse(text) {
        Ok(workflow) => {
            assert_eq!(Workflow::parse(text).ok(), Some(workflow), "the same text is the same workflow")
        }
        Err(errors) => {
            assert!(!errors.is_empty(), "a refusal without a reason");
            for error in errors {
                assert!(!error.to_string().is_empty());
            }
        }
    }
});
