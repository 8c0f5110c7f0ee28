//! What is seen on a terminal while runs execute.

use std::time::Duration;

use super::output::Output;
use crate::{
    domain::ids::{RunId, StepId},
    engine::attempt::Observer,
};

/// A line for each executing run; nothing of it where stderr is no terminal.
#[derive(Debug)]
pub struct Progress {}

impl Progress {
    /// Progress on the terminal of `out`, if it has one.
    pub fn new(_out: &Output) -> Self {
        Self {}
    }

    /// Counts something long.
    pub fn counted(&self, _what: &str, _done: u64) {}

    /// Takes all lines away.
    pub fn clear(&self) {}
}

impl Observer for Progress {
    fn step_started(&self, _run: &RunId, _step: &StepId, _try_no: u32) {}
    fn waiting(&self, _run: &RunId, _step: &StepId, _delay: Duration) {}
    fn ended(&self, _run: &RunId) {}
}
