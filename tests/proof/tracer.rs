//! Runs the program under `ptrace` and ends it, or makes a system call fail, at a chosen point.
//!
//! A point is a system call, in any thread of the program, that changes something others can see: files,
//! folders, locks, processes, and the end itself. Points are counted over all threads in the order in
//! which they begin. What the program starts (the steps) is not traced. Killing happens before the call:
//! the kernel skips a call whose caller has a fatal signal pending.

use std::{
    fs::{self, File},
    io, mem,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

/// What happens to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// SIGKILL before the point with this number, from 1.
    Kill(u64),
    /// The write at this point is cut in half, and SIGKILL follows before the next point.
    Tear(u64),
    /// The point fails with this error, without being done.
    Fail { at: u64, errno: i32 },
    /// It and all later ones fail.
    FailFrom { at: u64, errno: i32 },
}

/// Which system calls count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Points {
    /// All that change something, locks, processes and the end included.
    All,
    /// Those that change files and can fail for want of space or a broken disk.
    Disk,
}

/// What became of the program.
#[derive(Debug)]
pub struct Traced {
    /// Its exit code, or minus the signal that ended it.
    pub code: i32,
    /// What the points were, in order.
    pub points: Vec<String>,
    /// What the point that was hit would have done.
    pub hit: Option<String>,
    pub stdout: String,
    pub stderr: String,
}

impl Traced {
    /// Whether the fault happened at all.
    pub fn was_hit(&self) -> bool {
        self.hit.is_some()
    }
}

/// Why nothing can be traced here; none where it can.
pub fn unavailable() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("the tracer knows x86_64 only".to_owned());
    }
    let mut command = Command::new("/bin/true");
    match trace(&mut command, Fault::None, Points::All, Path::new("/"), &mut None) {
        Ok((0, ..)) => None,
        Ok((code, ..)) => Some(format!("a traced /bin/true ended with {code}")),
        Err(error) => Some(format!("ptrace is not permitted: {error}")),
    }
}

/// Runs `command` under the tracer; its output goes to files below `dir`. Only calls on files below
/// `store`, where they name one, count as points.
#[track_caller]
pub fn run(mut command: Command, fault: Fault, points: Points, store: &Path, dir: &Path) -> Traced {
    let (out, err): (PathBuf, PathBuf) = (dir.join("traced.out"), dir.join("traced.err"));
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut hit = None;
    let (code, points) = trace(&mut command, fault, points, store, &mut hit).unwrap();
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Traced { code, points, hit, stdout: read(&out), stderr: read(&err) }
}

/// How long the program may take before it counts as hung.
const LIMIT: Duration = Duration::from_secs(60);

#[allow(unsafe_code)]
fn trace(
    command: &mut Command,
    fault: Fault,
    points: Points,
    store: &Path,
    hit: &mut Option<String>,
) -> io::Result<(i32, Vec<String>)> {
    // SAFETY: ptrace(2) with TRACEME touches no memory.
    unsafe {
        command.pre_exec(|| {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let pid = libc::pid_t::try_from(command.spawn()?.id()).unwrap();
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                // SAFETY: plain system call.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        });
        let mut tracer =
            Tracer { pid, fault, points, store, seen: Vec::new(), torn: false, failing: Vec::new() };
        let code = tracer.run(hit);
        drop(done);
        Ok((code, tracer.seen))
    })
}

struct Tracer<'t> {
    pid: libc::pid_t,
    fault: Fault,
    points: Points,
    store: &'t Path,
    seen: Vec<String>,
    torn: bool,
    /// The threads in a call that was replaced, and the error that it is to give.
    failing: Vec<(libc::pid_t, i32)>,
}

#[allow(unsafe_code)]
impl Tracer<'_> {
    fn run(&mut self, hit: &mut Option<String>) -> i32 {
        let mut is_set_up = false;
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the result.
            let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            assert!(tid > 0, "the program vanished: {}", io::Error::last_os_error());
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                if tid == self.pid {
                    let signalled = libc::WIFSIGNALED(status);
                    return if signalled { -libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
                }
                continue;
            }
            let signal = libc::WSTOPSIG(status);
            let mut deliver = 0;
            if !is_set_up {
                let options =
                    libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
                // SAFETY: the thread is stopped and ours.
                unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, tid, 0, options) };
                is_set_up = true;
            } else if signal == libc::SIGTRAP | 0x80 {
                self.at_call(tid, hit);
            } else if signal != libc::SIGTRAP && signal != libc::SIGSTOP {
                deliver = signal;
            }
            // SAFETY: the thread is stopped and ours, or already gone, which is no harm.
            unsafe { libc::ptrace(libc::PTRACE_SYSCALL, tid, 0, deliver) };
        }
    }

    fn at_call(&mut self, tid: libc::pid_t, hit: &mut Option<String>) {
        let Some(mut regs) = registers(tid) else { return };
        if let Some(index) = self.failing.iter().position(|(failing, _)| *failing == tid) {
            let (_, errno) = self.failing.swap_remove(index);
            regs.rax = (-i64::from(errno)).cast_unsigned();
            set_registers(tid, &regs);
            return;
        }
        // At the entry of a call the kernel has put -ENOSYS where the result will be.
        if regs.rax.cast_signed() != -i64::from(libc::ENOSYS) {
            return;
        }
        let Some(what) = self.point(tid, &regs) else { return };
        if self.torn {
            self.kill();
            return;
        }
        self.seen.push(what.clone());
        let count = self.seen.len() as u64;
        let is_write = matches!(regs.orig_rax.cast_signed(), libc::SYS_write | libc::SYS_pwrite64);
        match self.fault {
            Fault::Kill(at) if at == count => {
                *hit = Some(what);
                self.kill();
            }
            Fault::Tear(at) if at == count && is_write && regs.rdx > 1 => {
                *hit = Some(format!("half of {what}"));
                regs.rdx /= 2;
                set_registers(tid, &regs);
                self.torn = true;
            }
            Fault::Fail { at, errno } if at == count => self.fail(tid, regs, errno, what, hit),
            Fault::FailFrom { at, errno } if at <= count => self.fail(tid, regs, errno, what, hit),
            _ => {}
        }
    }

    fn fail(
        &mut self,
        tid: libc::pid_t,
        mut regs: libc::user_regs_struct,
        errno: i32,
        what: String,
        hit: &mut Option<String>,
    ) {
        hit.get_or_insert(what);
        regs.orig_rax = u64::MAX;
        set_registers(tid, &regs);
        self.failing.push((tid, errno));
    }

    fn kill(&self) {
        // SAFETY: plain system call.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }

    /// What the call at hand does, where it counts.
    fn point(&self, tid: libc::pid_t, regs: &libc::user_regs_struct) -> Option<String> {
        let on_fd = |name: &str| {
            let target = fs::read_link(format!("/proc/{}/fd/{}", self.pid, regs.rdi)).ok()?;
            target.starts_with(self.store).then(|| format!("{name} {}", target.display()))
        };
        let below = |name: &str| Some(format!("{name} {}", peek_text(self.pid, regs.rsi)));
        let disk = match regs.orig_rax.cast_signed() {
            libc::SYS_write => on_fd("write"),
            libc::SYS_pwrite64 => on_fd("pwrite64"),
            libc::SYS_fdatasync => on_fd("fdatasync"),
            libc::SYS_fsync => on_fd("fsync"),
            libc::SYS_syncfs => on_fd("syncfs"),
            libc::SYS_ftruncate => on_fd("ftruncate"),
            libc::SYS_fallocate => on_fd("fallocate"),
            libc::SYS_renameat2 | libc::SYS_renameat => below("renameat2"),
            libc::SYS_mkdirat => below("mkdirat"),
            libc::SYS_unlinkat => below("unlinkat"),
            libc::SYS_openat if regs.rdx & O_CREAT != 0 => below("openat"),
            libc::SYS_openat2 if peek(tid, regs.rdx).unwrap_or(0) & O_CREAT != 0 => below("openat2"),
            _ => None,
        };
        if disk.is_some() || self.points == Points::Disk {
            return disk;
        }
        match regs.orig_rax.cast_signed() {
            libc::SYS_flock => on_fd("flock"),
            libc::SYS_write if regs.rdi == 1 || regs.rdi == 2 => Some(format!("write to {}", regs.rdi)),
            libc::SYS_clone3 | libc::SYS_clone | libc::SYS_vfork | libc::SYS_fork => Some("clone".to_owned()),
            libc::SYS_exit_group => Some("exit_group".to_owned()),
            _ => None,
        }
    }
}

#[allow(clippy::cast_sign_loss)]
const O_CREAT: u64 = libc::O_CREAT as u64;

#[allow(unsafe_code)]
fn registers(tid: libc::pid_t) -> Option<libc::user_regs_struct> {
    // SAFETY: plain numbers; the kernel fills them for a stopped thread.
    unsafe {
        let mut regs: libc::user_regs_struct = mem::zeroed();
        (libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut regs) == 0).then_some(regs)
    }
}

#[allow(unsafe_code)]
fn set_registers(tid: libc::pid_t, regs: &libc::user_regs_struct) {
    // SAFETY: `regs` came from the same stopped thread.
    unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0, regs) };
}

#[allow(unsafe_code, clippy::cast_sign_loss)]
fn peek(tid: libc::pid_t, address: u64) -> Option<u64> {
    // SAFETY: reads the traced program's memory, not ours.
    unsafe {
        *libc::__errno_location() = 0;
        let word = libc::ptrace(libc::PTRACE_PEEKDATA, tid, address, 0);
        (*libc::__errno_location() == 0).then_some(word as u64)
    }
}

fn peek_text(pid: libc::pid_t, address: u64) -> String {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = [0; 128];
    let len = File::open(format!("/proc/{pid}/mem"))
        .and_then(|memory| memory.read_at(&mut bytes, address))
        .unwrap_or(0);
    let end = bytes[..len].iter().position(|b| *b == 0).unwrap_or(len);
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
