//! The words of the program: ids, workflows, triggers, policies, events. No io, no clock, no printing.

pub mod ids;
pub mod policy;
pub mod trigger;
pub mod workflow;
