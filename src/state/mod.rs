//! The run as a fold of its journal, and the pure decisions that follow from it.

mod apply;
pub mod decide;
pub mod run;
#[cfg(test)]
mod tests;
