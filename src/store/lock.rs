//! The store lock: the one proof that a caller may change the state of a store.
//!
//! [`StoreLock`] cannot be made but by taking the lock; everything that changes state asks for a
//! reference to one. It is held for short state changes, never while a step runs. The file says who
//! holds it, for the message of whoever waits in vain. It is never unlinked.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt as _,
    },
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fs4::{FileExt, TryLockError};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::{
    StoreError,
    disk::{Create, Disk},
    layout,
};

/// How long to wait for something of the store, and what ends the wait early.
#[derive(Debug, Clone, Copy)]
pub struct Patience<'a> {
    /// The longest wait.
    pub timeout: Duration,
    /// Readable once a signal asks to give up.
    pub abort: Option<BorrowedFd<'a>>,
}

/// The store lock of one process: threads share it one after the other.
#[derive(Debug)]
pub struct LockFile {
    turn: Mutex<()>,
    file: Arc<File>,
    command: String,
}

/// The proof that the store lock is held, given up on drop.
#[derive(Debug)]
pub struct StoreLock<'a> {
    _turn: MutexGuard<'a, ()>,
    file: &'a File,
}

impl LockFile {
    /// Opens the lock file; `command` is what its content will say of this process.
    ///
    /// # Errors
    /// When it cannot be opened or created.
    pub fn open(disk: &dyn Disk, command: &str) -> Result<Self, StoreError> {
        let path = std::path::Path::new(layout::LOCK);
        let file = disk.lock_file(path, Create::IfMissing).map_err(|e| StoreError::io("open", path, e))?;
        Ok(Self { turn: Mutex::new(()), file: Arc::new(file), command: command.to_owned() })
    }

    /// Takes the lock.
    ///
    /// # Errors
    /// [`StoreError::LockBusy`] after `patience`, [`StoreError::Aborted`] when its abort became readable.
    pub fn acquire(&self, patience: Patience<'_>) -> Result<StoreLock<'_>, StoreError> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let io = |e| StoreError::io("lock", layout::LOCK, e);
        match FileExt::try_lock(&*self.file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => self.wait(patience)?,
            Err(TryLockError::Error(e)) => return Err(io(e)),
        }
        let lock = StoreLock { _turn: turn, file: &self.file };
        // Only for people; that it could not be written (a full disk) must not stop anybody. Reading costs
        // less than changing a file, and a process that takes the lock again and again is often the last one.
        let holder = format!("pid {} ({})\n", std::process::id(), self.command);
        if self.note() != holder.as_bytes() {
            let _ = self.file.write_all_at(holder.as_bytes(), 0);
            let _ = self.file.set_len(holder.len() as u64);
        }
        Ok(lock)
    }

    /// Waits in the kernel's queue rather than asking again and again: a thread blocks on the lock,
    /// and this one on that thread, the time limit and the abort.
    fn wait(&self, patience: Patience<'_>) -> Result<(), StoreError> {
        let io = |e: io::Error| StoreError::io("wait for", layout::LOCK, e);
        let done = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| io(e.into()))?);
        let state = Arc::new(AtomicU8::new(WAITING));
        let waiter =
            Waiter { file: Arc::clone(&self.file), done: Arc::clone(&done), state: Arc::clone(&state) };
        thread::Builder::new().spawn(move || waiter.run()).map_err(io)?;
        let outcome = wait_readable(done.as_fd(), patience).map_err(io)?;
        if outcome == Waited::Ready
            || state.compare_exchange(WAITING, ABANDONED, Ordering::SeqCst, Ordering::SeqCst).is_err()
        {
            return Ok(()); // granted, perhaps in the last moment
        }
        Err(match outcome {
            Waited::Aborted => StoreError::Aborted,
            Waited::Ready | Waited::TimedOut => StoreError::LockBusy { holder: self.holder() },
        })
    }

    fn note(&self) -> Vec<u8> {
        let mut text = vec![0; 200];
        let len = self.file.read_at(&mut text, 0).unwrap_or(0);
        text.truncate(len);
        text
    }

    fn holder(&self) -> String {
        match String::from_utf8_lossy(&self.note()).trim() {
            "" => "an unknown process".to_owned(),
            holder => holder.to_owned(),
        }
    }
}

impl Drop for StoreLock<'_> {
    fn drop(&mut self) {
        let _ = FileExt::unlock(self.file);
    }
}

const WAITING: u8 = 0;
const GRANTED: u8 = 1;
const ABANDONED: u8 = 2;

struct Waiter {
    file: Arc<File>,
    done: Arc<rustix::fd::OwnedFd>,
    state: Arc<AtomicU8>,
}

impl Waiter {
    fn run(self) {
        if FileExt::lock(&*self.file).is_err() {
            return; // the other side runs into its time limit
        }
        match self.state.compare_exchange(WAITING, GRANTED, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                let _ = rustix::io::write(&*self.done, &1u64.to_ne_bytes());
            }
            Err(_) => {
                let _ = FileExt::unlock(&*self.file);
            }
        }
    }
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    Ready,
    TimedOut,
    Aborted,
}

/// Waits until `fd` is readable.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>, patience: Patience<'_>) -> io::Result<Waited> {
    let deadline = Instant::now().checked_add(patience.timeout);
    loop {
        let mut fds = vec![PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        fds.extend(patience.abort.map(|abort| PollFd::from_borrowed_fd(abort, PollFlags::IN)));
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Ok(Waited::TimedOut),
            Ok(_) if !fds[0].revents().is_empty() => return Ok(Waited::Ready),
            Ok(_) => return Ok(Waited::Aborted),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
