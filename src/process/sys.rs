//! The system calls that no safe crate offers: `posix_spawn` with all that a step needs, the
//! close-on-exec sweep, and the dispositions that `wfctl` found when it was started.
//!
//! This is the only file with unsafe code. It decides nothing: what to start, when to stop and
//! how to word an error is said elsewhere.
//!
//! `posix_spawn` rather than fork: it shares memory with the child until exec, so its cost does
//! not grow with `wfctl`, and it is sound in a process that has threads.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_short};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Once, PoisonError, RwLock, RwLockWriteGuard};

use rustix::process::Pid;

/// The number under which a step inherits its slot's descriptor.
///
/// Shells keep descriptors of their own at 10 and up, at 63 and down, and at 255; `flock`
/// examples use 9 and 200. Below 256, since the soft limit of open files may be as low as that.
pub const SLOT_FD: RawFd = 223;

/// Held shared while a child is created, and exclusively by [`no_spawn_under_way`].
static SPAWNING: RwLock<()> = RwLock::new(());

/// Everything that `posix_spawn` is told; the caller has checked and resolved it all.
pub(super) struct RawSpawn<'a> {
    pub(super) program: &'a CStr,
    pub(super) argv: &'a [CString],
    pub(super) envp: &'a [CString],
    pub(super) cwd: &'a CStr,
    /// `None` is `/dev/null`.
    pub(super) stdin: Option<BorrowedFd<'a>>,
    /// Becomes both stdout and stderr.
    pub(super) output: BorrowedFd<'a>,
    /// Becomes [`SLOT_FD`].
    pub(super) slot: Option<BorrowedFd<'a>>,
}

/// Creates a process in a group of its own, with default dispositions and an empty signal mask.
///
/// When this returns the child has called exec, or the error says why it could not.
pub(super) fn posix_spawn(raw: &RawSpawn<'_>) -> io::Result<Pid> {
    reap_children_ourselves();
    let stdin = raw.stdin.map(Source::new).transpose()?;
    let output = Source::new(raw.output)?;
    let slot = raw.slot.map(Source::new).transpose()?;

    let mut actions = Actions::new()?;
    match &stdin {
        Some(stdin) => actions.dup2(stdin.raw(), 0)?,
        None => actions.open_null(0)?,
    }
    actions.dup2(output.raw(), 1)?;
    actions.dup2(output.raw(), 2)?;
    // Last, for a source above may sit at this very number.
    if let Some(slot) = &slot {
        actions.dup2(slot.raw(), SLOT_FD)?;
    }
    actions.chdir(raw.cwd)?;
    let attributes = Attributes::for_step()?;
    let argv = null_terminated(raw.argv);
    let envp = null_terminated(raw.envp);

    let _spawning = SPAWNING.read().unwrap_or_else(PoisonError::into_inner);
    mark_all_close_on_exec()?;
    let mut pid: libc::pid_t = 0;
    // SAFETY: the actions and attributes are initialised and outlive the call; program, argv and
    // envp are NUL-terminated strings in null-terminated arrays that outlive it too, and
    // posix_spawn does not write to them.
    let code = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            raw.program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            argv.as_ptr(),
            envp.as_ptr(),
        )
    };
    check(code)?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::other("posix_spawn gave no process id"))
}

/// Keeps every spawn of this process waiting while the guard lives.
///
/// Until its exec a new child has a copy of all descriptors of `wfctl`, and so looks like a
/// process of every run; whoever looks for processes by descriptor holds this meanwhile.
pub(super) fn no_spawn_under_way() -> RwLockWriteGuard<'static, ()> {
    SPAWNING.write().unwrap_or_else(PoisonError::into_inner)
}

/// Makes sure that nothing `wfctl` was started with reaches a step, and that descriptors 0 to 2
/// are open, so that no file of the store ever lands on a standard stream.
///
/// Call it once, first thing in `main`. Descriptors stay usable for `wfctl` itself.
pub fn sanitize_inherited_fds() -> io::Result<()> {
    for fd in 0..=2 {
        // SAFETY: F_GETFD only asks, and is defined for numbers that are not open.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1 {
            continue;
        }
        // SAFETY: the path is a NUL-terminated literal. The new descriptor gets the lowest free
        // number, which is `fd`, and is left open for the life of the process on purpose.
        if unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    mark_all_close_on_exec()
}

/// Sets close-on-exec on every descriptor above 2.
fn mark_all_close_on_exec() -> io::Result<()> {
    // SAFETY: with CLOSE_RANGE_CLOEXEC the call closes nothing, it only sets a flag that every
    // descriptor of this program is meant to have.
    let code = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if code == 0 {
        return Ok(());
    }
    match io::Error::last_os_error().raw_os_error() {
        // Kernels before 5.11 and some sandboxes.
        Some(libc::ENOSYS | libc::EINVAL | libc::EPERM) => mark_each_close_on_exec(),
        _ => Err(io::Error::last_os_error()),
    }
}

fn mark_each_close_on_exec() -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let Some(fd) = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else {
            continue;
        };
        if fd > 2 {
            // SAFETY: sets a flag and nothing else; a number that was closed meanwhile is EBADF.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// Makes a write beyond `ulimit -f` fail like one on a full disk instead of killing the process, as the Rust
/// runtime does for pipes. Steps get the default back, as for every signal.
pub fn outlive_file_size_limit() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeroed memory is a valid `sigaction`: no flags, an empty mask; its handler is a plain field.
    unsafe {
        (*action.as_mut_ptr()).sa_sigaction = libc::SIG_IGN;
        libc::sigaction(libc::SIGXFSZ, action.as_mut_ptr(), ptr::null_mut());
    }
}

/// True if the signal is ignored in this process, as it is under `nohup`.
pub(super) fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; the old one is written to memory of the right type.
    let code = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed memory is a valid `sigaction`, whether or not the call filled it in.
    code == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Takes back an inherited "ignore SIGCHLD", with which the kernel would reap the children
/// itself and throw away how they ended.
fn reap_children_ourselves() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: zeroed memory is a valid `sigaction`: SIG_DFL, no flags, an empty mask.
        // Nothing in this program handles SIGCHLD.
        unsafe { libc::sigaction(libc::SIGCHLD, action.as_mut_ptr(), ptr::null_mut()) };
    });
}

/// A descriptor to hand down, moved away from 0 to 2 if it is there, for those are overwritten.
enum Source<'a> {
    AsIs(BorrowedFd<'a>),
    Moved(OwnedFd),
}

impl<'a> Source<'a> {
    fn new(fd: BorrowedFd<'a>) -> io::Result<Self> {
        if fd.as_raw_fd() > 2 {
            return Ok(Self::AsIs(fd));
        }
        Ok(Self::Moved(rustix::io::fcntl_dupfd_cloexec(fd, 3)?))
    }

    fn raw(&self) -> RawFd {
        match self {
            Self::AsIs(fd) => fd.as_raw_fd(),
            Self::Moved(fd) => fd.as_fd().as_raw_fd(),
        }
    }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: init writes the whole object.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: init succeeded.
        Ok(Self(unsafe { actions.assume_init() }))
    }

    /// Also right where both numbers are the same: close-on-exec is cleared then.
    fn dup2(&mut self, from: RawFd, to: RawFd) -> io::Result<()> {
        // SAFETY: the object is initialised; numbers are checked when the child uses them.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut self.0, from, to) })
    }

    fn open_null(&mut self, fd: RawFd) -> io::Result<()> {
        let path = c"/dev/null".as_ptr();
        // SAFETY: the object is initialised, and the path is a literal.
        check(unsafe { libc::posix_spawn_file_actions_addopen(&raw mut self.0, fd, path, libc::O_RDONLY, 0) })
    }

    fn chdir(&mut self, folder: &CStr) -> io::Result<()> {
        // SAFETY: the object is initialised, and the path is copied by the call.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&raw mut self.0, folder.as_ptr()) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn for_step() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: init writes the whole object.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: init succeeded.
        let mut attributes = Self(unsafe { attributes.assume_init() });
        let flags = libc::POSIX_SPAWN_SETPGROUP | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        let flags = c_short::try_from(flags).map_err(io::Error::other)?;
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        let none = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the attributes are initialised, and the sets are plain bits, valid when zeroed
        // or all ones. `sigfillset` would leave out the two signals that the C library keeps for
        // its threads, which it then sets to be ignored in the child.
        unsafe {
            all.as_mut_ptr().write_bytes(0xff, 1);
            check(libc::posix_spawnattr_setflags(&raw mut attributes.0, flags))?;
            check(libc::posix_spawnattr_setpgroup(&raw mut attributes.0, 0))?;
            check(libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, all.as_ptr()))?;
            check(libc::posix_spawnattr_setsigmask(&raw mut attributes.0, none.as_ptr()))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `for_step`, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// The array that exec wants. The pointers are as good as `strings`.
fn null_terminated(strings: &[CString]) -> Vec<*mut c_char> {
    strings.iter().map(|s| s.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// The `posix_spawn` family returns its error instead of setting `errno`.
fn check(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}
