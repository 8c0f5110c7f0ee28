//! Waiting until something in a store changes, without asking again and again.
//!
//! A watch is a hint: whoever waits looks for itself after every wake-up, and where the kernel gives no
//! watch (its limits are per user) the wait falls back to looking a few times a second.

use std::{mem::MaybeUninit, path::Path, time::Duration};

use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags},
};

use super::lock::{Patience, Waited, wait_readable};

/// How often to look where nothing wakes us.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A set of watched files and folders.
#[derive(Debug)]
pub struct Watch {
    inotify: Option<OwnedFd>,
    complete: bool,
}

/// What a watch had to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drained {
    /// Something may have changed.
    Look,
    /// Nothing has.
    Nothing,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Something may have changed.
    Changed,
    /// The time is over.
    TimedOut,
    /// A signal asks to give up.
    Aborted,
}

impl Watch {
    /// A watch of nothing.
    pub fn new() -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Self { complete: inotify.is_some(), inotify }
    }

    /// Watches a file or folder for content, entries and renames.
    pub fn add(&mut self, path: &Path) {
        let flags = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVE_SELF
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF;
        let _ = self.add_flags(path, flags);
    }

    /// Watches a folder for files that are renamed into it; the result is for [`Watch::remove`].
    pub fn add_arrivals(&mut self, path: &Path) -> Option<i32> {
        self.add_flags(path, WatchFlags::MOVED_TO | WatchFlags::ONLYDIR)
    }

    /// Watches something no longer.
    pub fn remove(&mut self, watched: i32) {
        if let Some(fd) = &self.inotify {
            let _ = inotify::remove_watch(fd, watched);
        }
    }

    fn add_flags(&mut self, path: &Path, flags: WatchFlags) -> Option<i32> {
        let added = self.inotify.as_ref().and_then(|fd| inotify::add_watch(fd, path, flags).ok());
        self.complete &= added.is_some();
        added
    }

    /// What to poll for, where the kernel gives a watch.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// How long a wait may last before looking again; none: until something happens.
    pub fn look_every(&self) -> Option<Duration> {
        (!self.complete).then_some(LOOK_EVERY)
    }

    /// Waits until something may have changed.
    pub fn wait(&self, patience: Patience<'_>) -> Woken {
        let timeout = self.look_every().map_or(patience.timeout, |every| every.min(patience.timeout));
        let bounded = Patience { timeout, abort: patience.abort };
        let waited = match (self.fd(), patience.abort) {
            (Some(fd), _) => wait_readable(fd, bounded),
            (None, Some(abort)) => {
                wait_readable(abort, Patience { timeout, abort: None }).map(|waited| match waited {
                    Waited::Ready => Waited::Aborted,
                    other => other,
                })
            }
            (None, None) => {
                std::thread::sleep(timeout);
                Ok(Waited::TimedOut)
            }
        };
        self.drain();
        match waited {
            Ok(Waited::Ready) => Woken::Changed,
            Ok(Waited::Aborted) => Woken::Aborted,
            Ok(Waited::TimedOut) | Err(_) if timeout < patience.timeout => Woken::Changed,
            Ok(Waited::TimedOut) | Err(_) => Woken::TimedOut,
        }
    }

    /// Forgets what has been told so far. Whether any of it, or the lack of a watch, is a reason to look: that
    /// something is watched no longer is none.
    pub fn drain(&self) -> Drained {
        let mut drained = if self.complete { Drained::Nothing } else { Drained::Look };
        let Some(fd) = &self.inotify else { return Drained::Look };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(fd, &mut buffer);
        while let Ok(event) = reader.next() {
            if !event.events().contains(ReadFlags::IGNORED) {
                drained = Drained::Look;
            }
        }
        drained
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}
