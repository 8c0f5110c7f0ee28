//! The words of the program: ids, workflows, triggers, policies, events. No io, no clock, no printing.

pub mod duration;
pub mod ids;
pub mod policy;
pub mod schema;
pub mod trigger;
pub mod workflow;
