//! Stop and join: end all processes of a step, and return only when none is left.
//!
//! SIGTERM and SIGCONT to all of them, the grace, SIGKILL, and a wait until a scan finds nobody.
//! A caller releases nothing before this returned `Ok` (*cancel and join before release*).
//!
//! Invariants:
//! - The step's own child is reaped last, so that the number of its group cannot be reused while
//!   the group is signalled.
//! - SIGTERM goes once to each process that was there when the stop began. Later ones were
//!   started by processes that know of the stop, to clean up, and have until the end of the grace.
//! - Joins are waits on pidfds. The kernel tells nothing when a process forks, or leaves the step
//!   by closing its descriptor; for these cases alone the scan is repeated, ever more rarely.
//!
//! Deliberately not here: locks (but the shared one of the inherited description, see
//! [`stop_child`]), and what a stop means to the run.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, pidfd_send_signal};

use super::child::{Child, Ending};
use super::members::{Member, Membership, SlotIdentity, ticks_now};
use super::wake::{StopWatch, poll_until};

/// How long the processes get to be gone after SIGKILL; only one that is stuck in the kernel
/// needs longer.
const JOIN_LIMIT: Duration = Duration::from_secs(10);

/// The shortest and the longest time to the next look where no event is to be expected.
const RESCAN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Nothing of the step is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Stopped {
    /// How the step's own process ended; `None` where it was not a child of this process.
    pub ending: Option<Ending>,
}

/// Something may be left of the step: release nothing.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// These processes belong to somebody else and did not end by themselves.
    #[error("not permitted to stop {}", list(.processes))]
    NotPermitted {
        /// Pid and program name.
        processes: Vec<(i32, String)>,
    },
    /// These processes are still there, seconds after SIGKILL.
    #[error("cannot stop {}: still there after SIGKILL", list(.processes))]
    NotJoined {
        /// Pid and program name.
        processes: Vec<(i32, String)>,
    },
    /// The processes cannot be found, signalled or waited for.
    #[error("cannot stop the processes of a step: {operation}: {source}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// Stops and joins the step that `child` leads.
///
/// `slot` is the open file description that the step inherited. It is locked shared once more
/// before the first look, because the step may have unlocked it, and holders are told from
/// readers by that lock; `wfctl`'s own description of the slot must hold the lock shared
/// meanwhile, so that nobody else can have it exclusively. Without a slot only the group counts.
///
/// If the child has been reaped already, its group may be somebody else's by now and is left
/// alone; the holders of the slot are stopped.
pub fn stop_child(
    mut child: Child,
    slot: Option<&File>,
    grace: Duration,
    stop: &StopWatch,
) -> Result<Stopped, StopError> {
    let slot = slot.map(relock).transpose()?;
    let unreaped = child.ending().is_none().then(|| child.pid());
    let membership = Membership { child: unreaped, slot, spare: &[] };
    stop_and_join(&membership, grace, stop)?;
    let ended = child.has_ended().and_then(|ended| if ended { child.reap() } else { Ok(None) });
    let ending = ended.map_err(system("wait for the step's process"))?;
    Ok(Stopped { ending })
}

/// Stops and joins whatever another, dead `wfctl` has left of a step: all that hold the slot's
/// lock shared, with the exception of `spare`.
///
/// The number of the group is of no use here, for nothing guards it against reuse. So processes
/// that closed the descriptor are not found; the lock does not know of them either.
pub fn stop_orphans(
    slot: SlotIdentity,
    spare: &[Pid],
    grace: Duration,
    stop: &StopWatch,
) -> Result<Stopped, StopError> {
    let membership = Membership { child: None, slot: Some(slot), spare };
    stop_and_join(&membership, grace, stop)?;
    Ok(Stopped { ending: None })
}

fn relock(slot: &File) -> Result<SlotIdentity, StopError> {
    flock(slot, FlockOperation::NonBlockingLockShared)
        .map_err(|errno| system("lock the slot")(errno.into()))?;
    SlotIdentity::of(slot).map_err(system("look at the slot"))
}

fn stop_and_join(membership: &Membership<'_>, grace: Duration, stop: &StopWatch) -> Result<(), StopError> {
    if terminate(membership, grace, stop)? {
        return Ok(());
    }
    kill(membership)
}

/// Asks all to end, and waits for it up to the grace. True if none is left.
fn terminate(membership: &Membership<'_>, grace: Duration, stop: &StopWatch) -> Result<bool, StopError> {
    let began = ticks_now().map_err(system("read the clock"))?;
    // A grace that has no end in the clock's range is one without end.
    let grace_ends = Instant::now().checked_add(grace);
    if stop.hastened() {
        return Ok(false);
    }
    // At once for the whole group, so that none of it can fork away from it.
    signal_group(membership, &[Signal::TERM, Signal::CONT]);
    let mut told = HashSet::new();
    let mut pause = RESCAN.0;
    loop {
        let members = scan(membership)?;
        if members.is_empty() {
            return Ok(true);
        }
        for member in &members {
            let newcomer = told.insert((member.pid.as_raw_nonzero(), member.born));
            if newcomer && !member.in_group && member.born <= began {
                // Who may not be signalled may still end within the grace.
                let _ = signal(member, Signal::TERM)? && signal(member, Signal::CONT)?;
            }
        }
        if stop.hastened() || grace_ends.is_some_and(|end| end <= Instant::now()) {
            return Ok(false);
        }
        pause = await_change(&members, Some(stop.hastened_fd()), grace_ends, pause)?;
    }
}

/// Kills all, and waits until none is left.
fn kill(membership: &Membership<'_>) -> Result<(), StopError> {
    let limit = Instant::now() + JOIN_LIMIT;
    let mut pause = RESCAN.0;
    loop {
        signal_group(membership, &[Signal::KILL]);
        let members = scan(membership)?;
        if members.is_empty() {
            return Ok(());
        }
        let mut denied = Vec::new();
        for member in &members {
            if !signal(member, Signal::KILL)? {
                denied.push(named(member));
            }
        }
        if denied.len() == members.len() {
            return Err(StopError::NotPermitted { processes: denied });
        }
        if limit <= Instant::now() {
            return Err(StopError::NotJoined { processes: members.iter().map(named).collect() });
        }
        pause = await_change(&members, None, Some(limit), pause)?;
    }
}

/// Waits until a member ends, the descriptor is readable, the deadline passes, or it is time to
/// look again. Gives the time to the look after that.
fn await_change(
    members: &[Member],
    event: Option<BorrowedFd<'_>>,
    deadline: Option<Instant>,
    pause: Duration,
) -> Result<Duration, StopError> {
    let look_again = Instant::now() + pause;
    let until = deadline.map_or(look_again, |deadline| deadline.min(look_again));
    let fds: Vec<_> = members.iter().map(|member| member.pidfd.as_fd()).chain(event).collect();
    let changed = poll_until(&fds, Some(until)).map_err(system("wait for processes to end"))?;
    Ok(if changed { RESCAN.0 } else { RESCAN.1.min(pause * 2) })
}

fn signal_group(membership: &Membership<'_>, signals: &[Signal]) {
    for signal in signals {
        if let Some(leader) = membership.child {
            // What is left to do is found by the scan that follows.
            let _ = kill_process_group(leader, *signal);
        }
    }
}

/// False if it is not permitted. A process that is gone needs no signal.
fn signal(member: &Member, signal: Signal) -> Result<bool, StopError> {
    match pidfd_send_signal(&member.pidfd, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(true),
        Err(Errno::PERM) => Ok(false),
        Err(errno) => Err(system("signal a process")(errno.into())),
    }
}

fn scan(membership: &Membership<'_>) -> Result<Vec<Member>, StopError> {
    membership.scan().map_err(system("look through /proc"))
}

fn system(operation: &'static str) -> impl Fn(io::Error) -> StopError {
    move |source| StopError::System { operation, source }
}

fn named(member: &Member) -> (i32, String) {
    (member.pid.as_raw_nonzero().get(), member.name.clone())
}

fn list(processes: &[(i32, String)]) -> String {
    let mut text = String::from(if processes.len() == 1 { "process" } else { "processes" });
    for (place, (pid, name)) in processes.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma} {pid} ({name})");
    }
    text
}
