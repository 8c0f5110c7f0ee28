//! Children and signals: how one step is started, waited for and stopped.
//!
//! In reading order: [`child`] starts one process and knows how it ended; [`wake`] is the one
//! wait loop and the closed enum of what can end a wait; [`stop`] stops and joins everything
//! that belongs to a step, with `members` telling what that is; [`signals`] turns the signals
//! that `wfctl` itself gets into [`Interruption`]s; [`executor`] is the seam behind which
//! another way of running steps would stand; `sys` is the only unsafe code of the crate.
//!
//! Invariants:
//! - A step inherits its standard streams and the slot's descriptor ([`SLOT_FD`]), nothing else.
//! - Every process that `wfctl` creates comes from [`child::spawn`]. A scan for the processes of
//!   a step excludes spawns under way, because between fork and exec a new child still has every
//!   descriptor of `wfctl`, the slots of other runs included.
//! - A process is signalled through a pidfd that was checked after it was opened, or through the
//!   group of a child that is not reaped yet; so a reused number is never signalled.
//!
//! Deliberately not here: stores, journals, workflows, retries, exit codes of `wfctl`, and any
//! knowledge of what a slot file says.

pub mod child;
pub mod executor;
mod members;
pub mod signals;
pub mod stop;
mod sys;
pub mod wake;

pub use child::{Child, Ending, SpawnError, SpawnSpec, check_open_files, resolve_program, spawn};
pub use executor::{Fate, LocalExecutor, SlotLock, StepExecutor};
pub use members::{SlotIdentity, process_start};
pub use rustix::process::Pid;
pub use signals::{Interruption, Signals};
pub use stop::{StopError, Stopped, stop_child, stop_orphans};
pub use sys::{SLOT_FD, outlive_file_size_limit, sanitize_inherited_fds};
pub use wake::{
    Slept, StopHandle, StopKind, StopWatch, WaitError, Wake, poll_until, sleep_until, stop_pair, wait,
};
