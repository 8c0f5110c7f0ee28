//! The words of the program: ids, workflows, triggers, policies, events. No io, no clock, no printing.

pub mod duration;
pub mod event;
pub mod ids;
pub mod json;
pub mod policy;
pub mod schedule;
pub mod schema;
pub mod time;
pub mod trigger;
pub mod workflow;
