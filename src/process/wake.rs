//! The one wait loop of an executing run, and everything that can end a wait.
//!
//! Owns the pair of [`StopHandle`] and [`StopWatch`], by which a run is told from another thread
//! to stop. What was requested first stays; asking for more haste is a separate matter. Both are
//! eventfds that are never drained, so nothing is lost between two waits.
//!
//! Waits wake up for a reason and never to look around. Deadlines are monotonic. Deliberately
//! not here: what to do about a wake-up, and where stop requests come from.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::child::{Child, Ending};
use super::signals::Interruption;

/// What ended a wait for a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The child ended and has been reaped. Where several things happened this one is told,
    /// for a known ending is worth more than any request.
    ChildExited(Ending),
    /// A stop was requested.
    StopRequested(StopKind),
    /// The deadline has passed.
    Deadline,
}

/// What ended a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slept {
    /// All of it was slept.
    Through,
    /// A stop was requested.
    StopRequested(StopKind),
}

/// Why an execution is to be stopped, which decides what is recorded afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// Caller cancellation: the run is settled as ambiguous.
    Cancel,
    /// Stop, and leave the rest to recovery.
    Fence {
        /// What `wfctl` got.
        signal: Interruption,
    },
}

/// A wait failed; what became of the child is not known.
#[derive(Debug, thiserror::Error)]
#[error("cannot wait for process {pid}: {source}")]
pub struct WaitError {
    /// The child.
    pub pid: i32,
    /// Why.
    pub source: io::Error,
}

struct Shared {
    kind: OnceLock<StopKind>,
    requested: OwnedFd,
    hastened: OwnedFd,
}

/// The side that asks for the stop of one executing run; any thread may hold a clone.
#[derive(Clone)]
pub struct StopHandle(Arc<Shared>);

/// The side of the thread that executes the run.
pub struct StopWatch(Arc<Shared>);

/// A handle and its watch, one pair for each executing run.
pub fn stop_pair() -> io::Result<(StopHandle, StopWatch)> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let shared =
        Shared { kind: OnceLock::new(), requested: eventfd(0, flags)?, hastened: eventfd(0, flags)? };
    let shared = Arc::new(shared);
    Ok((StopHandle(Arc::clone(&shared)), StopWatch(shared)))
}

impl StopHandle {
    /// Asks for a stop and wakes the run. Of several requests the first one counts.
    pub fn request(&self, kind: StopKind) {
        // The kind is set before the event, so whoever sees the event sees the kind.
        let _ = self.0.kind.set(kind);
        raise(self.0.requested.as_fd());
    }

    /// Makes the stop under way, or the next one, skip its grace: SIGKILL at once. This alone
    /// requests no stop.
    pub fn hasten(&self) {
        raise(self.0.hastened.as_fd());
    }

    /// The request that counts, if there is one.
    pub fn requested(&self) -> Option<StopKind> {
        self.0.kind.get().copied()
    }
}

impl StopWatch {
    /// The request that counts, if there is one.
    pub fn requested(&self) -> Option<StopKind> {
        self.0.kind.get().copied()
    }

    /// True if the grace is to be skipped.
    pub fn hastened(&self) -> bool {
        let mut fds = [PollFd::new(&self.0.hastened, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Readable once the grace is to be skipped.
    pub(super) fn hastened_fd(&self) -> BorrowedFd<'_> {
        self.0.hastened.as_fd()
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopHandle").field(&self.requested()).finish()
    }
}

impl fmt::Debug for StopWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StopWatch").field(&self.requested()).finish()
    }
}

/// Waits until the child ends, a stop is requested or the deadline passes.
///
/// Only [`Wake::ChildExited`] reaps the child. After the other two it is still running as far as
/// anyone knows, and the caller stops it or waits again.
pub fn wait(child: &mut Child, deadline: Option<Instant>, stop: &StopWatch) -> Result<Wake, WaitError> {
    let pid = child.pid().as_raw_nonzero().get();
    wake_of(child, deadline, stop).map_err(|source| WaitError { pid, source })
}

fn wake_of(child: &mut Child, deadline: Option<Instant>, stop: &StopWatch) -> io::Result<Wake> {
    loop {
        let ready = poll_until(&[child.pidfd(), stop.0.requested.as_fd()], deadline)?;
        if let Some(ending) = child.reap()? {
            return Ok(Wake::ChildExited(ending));
        }
        if let Some(kind) = stop.requested() {
            return Ok(Wake::StopRequested(kind));
        }
        if !ready {
            return Ok(Wake::Deadline);
        }
    }
}

/// Sleeps until the deadline, unless a stop is requested before.
pub fn sleep_until(deadline: Instant, stop: &StopWatch) -> io::Result<Slept> {
    loop {
        let ready = poll_until(&[stop.0.requested.as_fd()], Some(deadline))?;
        if let Some(kind) = stop.requested() {
            return Ok(Slept::StopRequested(kind));
        }
        if !ready {
            return Ok(Slept::Through);
        }
    }
}

/// Waits until one of the descriptors is readable (true) or the deadline has passed (false); for
/// waits that are not about a child, such as for [`Signals`](super::Signals).
pub fn poll_until(fds: &[BorrowedFd<'_>], deadline: Option<Instant>) -> io::Result<bool> {
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A time too far away for the kernel is as good as none.
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) if left.is_some_and(|left| left > Duration::ZERO) => {}
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Makes an eventfd readable for good.
pub(super) fn raise(event: BorrowedFd<'_>) {
    // It can only fail where the counter is about to overflow, and then it is readable already.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}
