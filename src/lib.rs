//! `wfctl` runs multi-step jobs on a schedule, with human gates, without a daemon.

pub mod cli;
pub mod domain;
pub mod engine;
pub mod process;
pub mod state;
pub mod store;
