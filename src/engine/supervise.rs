//! Who is told to stop, and when: signals of this process and cancel requests of others.
//!
//! A [`Supervisor`] knows the attempts that this process executes. Its loop runs beside the threads that
//! execute them and turns what comes from outside into requests to stop. What a SIGINT means depends on
//! the command: caller cancellation in `run` and `resume`, a fence of everything in `tick`.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::{Engine, EngineError};
use crate::{
    domain::ids::RunId,
    process::{Interruption, StopHandle, StopKind, StopWatch, stop_pair},
    store::{
        layout,
        watch::{Drained, Watch},
    },
};

/// How many ended attempts are watched at most. The kernel wakes the loop for each watch that is taken back,
/// so they are taken back many at once.
const MOST_STALE: usize = 64;

/// What the first SIGINT means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInterrupt {
    /// Caller cancellation of the one run that is executed.
    Cancel,
    /// A fence of all that is executed.
    Fence,
}

/// The attempts of this process, and how to stop them.
#[derive(Debug)]
pub struct Supervisor<'e> {
    engine: &'e Engine<'e>,
    on_interrupt: OnInterrupt,
    inner: Mutex<Inner>,
    /// Wakes the loop when everything is over.
    nudge: OwnedFd,
}

#[derive(Debug)]
struct Inner {
    watch: Watch,
    attempts: BTreeMap<RunId, Watched>,
    /// What is watched still, of attempts that have ended.
    stale: Vec<i32>,
    stopping: Option<StopKind>,
    hastened: bool,
    finished: bool,
}

#[derive(Debug)]
struct Watched {
    dir: PathBuf,
    handle: StopHandle,
    descriptor: Option<i32>,
}

impl<'e> Supervisor<'e> {
    /// A supervisor of nothing yet.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn new(engine: &'e Engine<'e>, on_interrupt: OnInterrupt) -> Result<Self, EngineError> {
        let nudge = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| system("watch over executions", e.into()))?;
        let inner = Inner {
            watch: Watch::new(),
            attempts: BTreeMap::new(),
            stale: Vec::new(),
            stopping: None,
            hastened: false,
            finished: false,
        };
        Ok(Self { engine, on_interrupt, inner: Mutex::new(inner), nudge })
    }

    /// Adds an attempt about to begin; `dir` is the run's folder below the store. A request to cancel that
    /// an earlier attempt left is forgotten. The caller holds the store lock, so none can come meanwhile.
    ///
    /// # Errors
    /// When the kernel gives no descriptor.
    pub fn add(&self, run: &RunId, dir: &Path) -> Result<StopWatch, EngineError> {
        let (handle, stop) = stop_pair().map_err(|e| system("watch over executions", e))?;
        let _ = self.engine.disk().remove_file(&dir.join(layout::CANCEL_REQUEST));
        let mut inner = self.inner();
        if let Some(kind) = inner.stopping {
            handle.request(kind);
        }
        let descriptor = inner.watch.add_arrivals(&self.engine.store.root().join(dir));
        inner.attempts.insert(run.clone(), Watched { dir: dir.to_owned(), handle, descriptor });
        Ok(stop)
    }

    /// Forgets an attempt that has ended.
    pub fn remove(&self, run: &RunId) {
        let mut inner = self.inner();
        if let Some(Watched { descriptor: Some(descriptor), .. }) = inner.attempts.remove(run) {
            inner.stale.push(descriptor);
        }
        if inner.stale.len() >= MOST_STALE {
            for descriptor in std::mem::take(&mut inner.stale) {
                inner.watch.remove(descriptor);
            }
        }
    }

    /// Whether everything is being stopped, so that nothing new may begin.
    pub fn is_stopping(&self) -> bool {
        self.inner().stopping.is_some() || self.engine.signals.pending().is_some()
    }

    /// Ends the loop.
    pub fn finish(&self) {
        self.inner().finished = true;
        self.nudge();
    }

    /// Passes on signals and cancel requests until [`Supervisor::finish`].
    ///
    /// # Errors
    /// When waiting fails; attempts then run on without being told of anything.
    pub fn run(&self) -> Result<(), EngineError> {
        loop {
            self.pass_on_signals();
            self.pass_on_requests();
            if self.inner().finished {
                return Ok(());
            }
            self.wait().map_err(|e| system("watch over executions", e))?;
        }
    }

    fn wait(&self) -> io::Result<()> {
        let (watched, timeout, is_stopping, hastened) = {
            let inner = self.inner();
            let watched = inner.watch.fd().map(|fd| fd.try_clone_to_owned()).transpose()?;
            (watched, inner.watch.look_every(), inner.stopping.is_some(), inner.hastened)
        };
        let mut fds = vec![PollFd::new(&self.nudge, PollFlags::IN)];
        fds.extend(watched.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));
        // Both stay readable for good, so only the one that was not passed on yet is polled. What counts is
        // what was passed on, not what has come: a signal may have come since the look before this wait.
        if !is_stopping {
            fds.push(PollFd::from_borrowed_fd(self.engine.signals.first_fd(), PollFlags::IN));
        } else if !hastened {
            fds.push(PollFd::from_borrowed_fd(self.engine.signals.second_fd(), PollFlags::IN));
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut seen = [0; 8];
        let _ = rustix::io::read(&self.nudge, &mut seen);
        Ok(())
    }

    fn pass_on_signals(&self) {
        let Some((signal, times)) = self.engine.signals.pending() else { return };
        let kind = match (signal, self.on_interrupt) {
            (Interruption::Int, OnInterrupt::Cancel) => StopKind::Cancel,
            (Interruption::Int | Interruption::Term | Interruption::Hup, _) => StopKind::Fence { signal },
        };
        let mut inner = self.inner();
        if inner.stopping.is_none() {
            inner.stopping = Some(kind);
            inner.attempts.values().for_each(|attempt| attempt.handle.request(kind));
        }
        if times > 1 && !inner.hastened {
            inner.hastened = true;
            inner.attempts.values().for_each(|attempt| attempt.handle.hasten());
        }
    }

    fn pass_on_requests(&self) {
        let inner = self.inner();
        if inner.watch.drain() == Drained::Nothing {
            return; // whoever executes must not wait for a look at every folder
        }
        for Watched { dir, handle, .. } in inner.attempts.values() {
            let request = dir.join(layout::CANCEL_REQUEST);
            if handle.requested().is_none() && matches!(self.engine.disk().kind(&request), Ok(Some(_))) {
                handle.request(StopKind::Cancel);
            }
        }
    }

    fn nudge(&self) {
        let _ = rustix::io::write(self.nudge.as_fd(), &1u64.to_ne_bytes());
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn system(what: &'static str, source: io::Error) -> EngineError {
    EngineError::System { what, source }
}
