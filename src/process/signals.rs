//! The signals that `wfctl` itself gets, as a count of interruptions that can be waited for.
//!
//! Owns the handlers of SIGINT, SIGTERM and SIGHUP. A SIGHUP that was ignored when `wfctl` was
//! started (`nohup`) stays ignored; the others always count, also in the background job of a script, whose
//! shell ignores SIGINT for it: whoever sends one means it. Handlers only record; what
//! an interruption means to a command is decided there. SIGPIPE is left as the Rust runtime set
//! it, ignored; steps get every signal's default anyway.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};

use super::sys;
use super::wake::raise;

/// A signal that asks `wfctl` to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// SIGINT, Ctrl-C.
    Int,
    /// SIGTERM.
    Term,
    /// SIGHUP.
    Hup,
}

impl Interruption {
    /// The signal's number.
    pub fn signal(self) -> i32 {
        match self {
            Self::Int => libc::SIGINT,
            Self::Term => libc::SIGTERM,
            Self::Hup => libc::SIGHUP,
        }
    }

    /// The signal's name, as `SIGINT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "SIGINT",
            Self::Term => "SIGTERM",
            Self::Hup => "SIGHUP",
        }
    }

    /// What `wfctl` exits with when this ended it: 130, 143 or 129.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Int => 130,
            Self::Term => 143,
            Self::Hup => 129,
        }
    }
}

struct Record {
    seen: Mutex<Option<(Interruption, u32)>>,
    first: OwnedFd,
    second: OwnedFd,
}

impl Record {
    fn add(&self, interruption: Interruption) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, times) =
            seen.map_or((interruption, 1), |(first, times)| (first, times.saturating_add(1)));
        *seen = Some((first, times));
        raise(if times == 1 { self.first.as_fd() } else { self.second.as_fd() });
    }
}

/// The interruptions of this process so far.
#[derive(Clone)]
pub struct Signals(Arc<Record>);

impl Signals {
    /// Installs the handlers; once in a process, before threads and children.
    pub fn install() -> io::Result<Self> {
        let signals = Self::detached()?;
        let record = Arc::clone(&signals.0);
        ctrlc::set_handler(move || record.add(Interruption::Int)).map_err(io::Error::other)?;
        let mut wanted = vec![libc::SIGTERM];
        wanted.extend(Some(libc::SIGHUP).filter(|hup| !sys::is_ignored(*hup)));
        let mut arriving = signal_hook::iterator::Signals::new(wanted)?;
        let record = Arc::clone(&signals.0);
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in arriving.forever() {
                record.add(if signal == libc::SIGHUP { Interruption::Hup } else { Interruption::Term });
            }
        })?;
        Ok(signals)
    }

    /// A record that no signal reaches, for tests and for embedding.
    pub fn detached() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let record = Record { seen: Mutex::new(None), first: eventfd(0, flags)?, second: eventfd(0, flags)? };
        Ok(Self(Arc::new(record)))
    }

    /// Records an interruption as if its signal had arrived.
    pub fn inject(&self, interruption: Interruption) {
        self.0.add(interruption);
    }

    /// The first interruption, and how many there were of any kind.
    pub fn pending(&self) -> Option<(Interruption, u32)> {
        *self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readable, for good, once an interruption is pending.
    pub fn first_fd(&self) -> BorrowedFd<'_> {
        self.0.first.as_fd()
    }

    /// Readable, for good, once a second one has come, of whichever kind.
    pub fn second_fd(&self) -> BorrowedFd<'_> {
        self.0.second.as_fd()
    }
}

impl std::fmt::Debug for Signals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Signals").field(&self.pending()).finish()
    }
}
