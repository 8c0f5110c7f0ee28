//! One child process: finding its program, starting it, and how it ended.
//!
//! Owns the [`Child`] handle, which is the right to reap: a child is reaped once, through its
//! pidfd, by whoever holds the handle, and its number stays taken until then. Deliberately not
//! here: waiting with deadlines (`wake`), stopping (`stop`), retries and outcomes of steps.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, pidfd_open, waitid,
};

use super::sys;

/// Where programs are looked for if the step's environment has no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// What to start. Nothing of `wfctl`'s own environment or descriptors is added to it.
#[derive(Debug, Clone, Copy)]
pub struct SpawnSpec<'a> {
    /// The file to execute, absolute; see [`resolve_program`].
    pub program: &'a Path,
    /// All arguments, the name of the program first.
    pub argv: &'a [OsString],
    /// The whole environment.
    pub env: &'a [(OsString, OsString)],
    /// The folder to start in, absolute.
    pub cwd: &'a Path,
    /// Stdin; `/dev/null` if `None`, as for every step.
    pub stdin: Option<BorrowedFd<'a>>,
    /// Stdout and stderr; open it in append mode.
    pub output: BorrowedFd<'a>,
    /// The slot's open file description made for this step; it is inherited as
    /// [`SLOT_FD`](super::SLOT_FD). `None` for what belongs to no slot, such as notifications.
    pub slot: Option<BorrowedFd<'a>>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Signalled(i32),
}

/// Why nothing was started; [`SpawnError::Untracked`] is the one exception.
#[derive(Debug)]
pub enum SpawnError {
    /// The program is not there; `path` is the `PATH` that was searched, if one was.
    NotFound {
        /// As it was asked for.
        program: PathBuf,
        /// The value of `PATH`.
        path: Option<OsString>,
    },
    /// The program is there and may not be executed.
    NotExecutable {
        /// The file.
        program: PathBuf,
    },
    /// The program is a folder.
    IsFolder {
        /// The folder.
        program: PathBuf,
    },
    /// The folder to start in is missing, no folder, or closed to us.
    NoFolder {
        /// The folder.
        cwd: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The interpreter in the first line is missing, or there is no such line and the file is no
    /// program either.
    BadInterpreter {
        /// The script.
        program: PathBuf,
        /// What its first line names.
        interpreter: Option<PathBuf>,
    },
    /// An argument, a variable or a path contains a NUL byte or a variable has no usable name.
    Malformed {
        /// The program.
        program: PathBuf,
        /// Which part.
        what: &'static str,
    },
    /// The system refused for another reason.
    System {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The process **was** started and then killed at once, because no handle on it could be
    /// had. What it did until then is unknown.
    Untracked {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SpawnError {
    /// True if it is certain that not one instruction of the program ran.
    pub fn never_started(&self) -> bool {
        !matches!(self, Self::Untracked { .. })
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { program, path: None } => {
                write!(f, "cannot start {}: no such file", program.display())
            }
            Self::NotFound { program, path: Some(path) } => {
                write!(f, "cannot start {}: not found in PATH {}", program.display(), path.display())
            }
            Self::NotExecutable { program } => {
                write!(f, "cannot start {}: not executable", program.display())
            }
            Self::IsFolder { program } => write!(f, "cannot start {}: is a folder", program.display()),
            Self::NoFolder { cwd, source } => write!(f, "cannot start in folder {}: {source}", cwd.display()),
            Self::BadInterpreter { program, interpreter: Some(interpreter) } => {
                write!(
                    f,
                    "cannot start {}: its interpreter {} is missing",
                    program.display(),
                    interpreter.display()
                )
            }
            Self::BadInterpreter { program, interpreter: None } => {
                write!(f, "cannot start {}: neither a program nor a script with a #! line", program.display())
            }
            Self::Malformed { program, what } => {
                write!(f, "cannot start {}: malformed {what}", program.display())
            }
            Self::System { program, source } => write!(f, "cannot start {}: {source}", program.display()),
            Self::Untracked { program, source } => {
                write!(f, "started {} but had to kill it at once: {source}", program.display())
            }
        }
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoFolder { source, .. } | Self::System { source, .. } | Self::Untracked { source, .. } => {
                Some(source)
            }
            Self::NotFound { .. }
            | Self::NotExecutable { .. }
            | Self::IsFolder { .. }
            | Self::BadInterpreter { .. }
            | Self::Malformed { .. } => None,
        }
    }
}

/// A process that was started here and leads a process group of its own.
///
/// Dropping the handle neither stops nor reaps it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    ending: Option<Ending>,
}

impl Child {
    /// Its number, which is its process group's too.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// How it ended, if it has been reaped.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Readable from the moment it has ended.
    pub(super) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// True once it has ended, reaped or not.
    pub(super) fn has_ended(&self) -> io::Result<bool> {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(self.ending.is_some() || waitid(WaitId::PidFd(self.pidfd()), peek)?.is_some())
    }

    /// Reaps it and tells how it ended; `None` if it has not. Never blocks.
    pub(super) fn reap(&mut self) -> io::Result<Option<Ending>> {
        if self.ending.is_none() {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let status = waitid(WaitId::PidFd(self.pidfd()), options)?;
            self.ending = status.map(|status| ending_of(&status)).transpose()?;
        }
        Ok(self.ending)
    }
}

/// Starts a process: own group, default dispositions, empty signal mask, the given environment
/// and descriptors and no others.
pub fn spawn(spec: &SpawnSpec<'_>) -> Result<Child, SpawnError> {
    check_folder(spec.cwd)?;
    let malformed = |what| SpawnError::Malformed { program: spec.program.to_owned(), what };
    let program = c_string(spec.program.as_os_str()).ok_or_else(|| malformed("path"))?;
    let cwd = c_string(spec.cwd.as_os_str()).ok_or_else(|| malformed("folder"))?;
    let argv: Option<Vec<_>> = spec.argv.iter().map(|arg| c_string(arg)).collect();
    let envp: Option<Vec<_>> = spec.env.iter().map(|(name, value)| variable(name, value)).collect();
    let raw = sys::RawSpawn {
        program: &program,
        argv: &argv.ok_or_else(|| malformed("argument"))?,
        envp: &envp.ok_or_else(|| malformed("environment variable"))?,
        cwd: &cwd,
        stdin: spec.stdin,
        output: spec.output,
        slot: spec.slot,
    };
    let system = |source| SpawnError::System { program: spec.program.to_owned(), source };
    // Keeps a descriptor's place for the pidfd: without a handle a running step could only be
    // killed, and its outcome would be unknown.
    let place = rustix::io::fcntl_dupfd_cloexec(spec.output, 3).map_err(|errno| system(errno.into()))?;
    let pid = sys::posix_spawn(&raw).map_err(|source| explain(spec, source))?;
    drop(place);
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok(Child { pid, pidfd, ending: None }),
        Err(errno) => {
            // The child is not reaped yet, so the number is its own. An error here means that
            // it has ended already.
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            Err(SpawnError::Untracked { program: spec.program.to_owned(), source: errno.into() })
        }
    }
}

/// Finds the program that `name` means to a step: a name with a slash relative to the step's
/// folder, any other in the `PATH` of the step's own environment, whose empty and relative
/// entries are relative to that folder too.
///
/// `cwd` must be absolute; then so is the result.
pub fn resolve_program(name: &OsStr, path_var: Option<&OsStr>, cwd: &Path) -> Result<PathBuf, SpawnError> {
    if name.as_bytes().contains(&b'/') {
        let program = cwd.join(name);
        return check_program(&program).map(|()| program);
    }
    let path = path_var.unwrap_or(OsStr::new(DEFAULT_PATH));
    let mut refused = None;
    // An empty name would resolve to each folder of PATH.
    let folders = path.as_bytes().split(|byte| *byte == b':').filter(|_| !name.is_empty());
    for folder in folders {
        let program = cwd.join(OsStr::from_bytes(folder)).join(name);
        match check_program(&program) {
            Ok(()) => return Ok(program),
            // The search goes on as a shell's does, and the first thing found explains itself.
            Err(SpawnError::NotFound { .. }) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| SpawnError::NotFound { program: name.into(), path: Some(path.to_owned()) }))
}

/// Says whether a step can inherit its slot under this process's limit of open files. Better asked before
/// anything is admitted than told to each run.
pub fn check_open_files() -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let needed = u64::try_from(sys::SLOT_FD).unwrap_or(u64::MAX) + 1;
    match limit {
        Some(limit) if limit < needed => Err(io::Error::other(format!(
            "the limit of open files is {limit}, and at least {needed} are needed"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Says whether a step could be started in this folder.
pub fn check_folder(cwd: &Path) -> Result<(), SpawnError> {
    let error = |source| SpawnError::NoFolder { cwd: cwd.to_owned(), source };
    if !fs::metadata(cwd).map_err(error)?.is_dir() {
        return Err(error(io::ErrorKind::NotADirectory.into()));
    }
    rustix::fs::access(cwd, Access::EXEC_OK).map_err(|errno| error(errno.into()))
}

fn check_program(program: &Path) -> Result<(), SpawnError> {
    let program = || program.to_owned();
    match fs::metadata(program()) {
        Ok(found) if found.is_dir() => Err(SpawnError::IsFolder { program: program() }),
        Ok(found) if !found.is_file() => Err(SpawnError::NotExecutable { program: program() }),
        Ok(_) => rustix::fs::access(program(), Access::EXEC_OK)
            .map_err(|_| SpawnError::NotExecutable { program: program() }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(SpawnError::NotExecutable { program: program() })
        }
        Err(_) => Err(SpawnError::NotFound { program: program(), path: None }),
    }
}

/// `posix_spawn` says what went wrong, not with which of the things it was told; find out.
fn explain(spec: &SpawnSpec<'_>, source: io::Error) -> SpawnError {
    let program = spec.program.to_owned();
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::EACCES | libc::ENOTDIR | libc::ELOOP) => {
            let blamed = check_folder(spec.cwd).and_then(|()| check_program(spec.program)).err();
            blamed.unwrap_or_else(|| match first_line_interpreter(spec.program) {
                Some(interpreter) => SpawnError::BadInterpreter { program, interpreter: Some(interpreter) },
                None => SpawnError::System { program, source },
            })
        }
        Some(libc::ENOEXEC) => SpawnError::BadInterpreter { program, interpreter: None },
        Some(libc::EBADF) if spec.slot.is_some() => {
            let fd = sys::SLOT_FD;
            let source = io::Error::other(format!("descriptor {fd} is out of reach, see `ulimit -n`"));
            SpawnError::System { program, source }
        }
        _ => SpawnError::System { program, source },
    }
}

fn first_line_interpreter(program: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    File::open(program).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace);
    let interpreter = words.find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(interpreter)))
}

fn c_string(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

fn variable(name: &OsStr, value: &OsStr) -> Option<CString> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return None;
    }
    let mut joined = name.to_owned();
    joined.push("=");
    joined.push(value);
    CString::new(joined.into_vec()).ok()
}

fn ending_of(status: &WaitIdStatus) -> io::Result<Ending> {
    if let Some(code) = status.exit_status() {
        // The kernel passes on the low eight bits only.
        return u8::try_from(code & 0xff).map(Ending::Exited).map_err(io::Error::other);
    }
    status
        .terminating_signal()
        .map(Ending::Signalled)
        .ok_or_else(|| io::Error::other("a child ended in no known way"))
}
