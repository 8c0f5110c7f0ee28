//! Which processes belong to a step: its process group, and whatever has the slot's inherited
//! descriptor open.
//!
//! Reads `/proc` and signals nothing. A zombie does not count, for it holds nothing and only
//! waits for its parent; as PID 1 of a container `wfctl` may well be that parent. `wfctl` itself
//! is never a member.
//!
//! A holder counts only if its descriptor's open file description holds the slot's lock *shared*.
//! Readers of a store open slot files too, and ask for the lock exclusively for an instant; they
//! must never be taken for a part of a step.
//!
//! What cannot be seen: the descriptors of processes that belong to another user or have made
//! themselves undumpable. They are found as members of the group; one that has left the group
//! too is known only by the lock that it still holds, which whoever releases the slot checks.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::sys;

/// Set in the flags of kernel threads, which have no descriptors.
const PF_KTHREAD: u64 = 0x0020_0000;

/// A slot file, whatever paths lead to it. Lock files are never unlinked or replaced, so this
/// stays true for the life of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotIdentity {
    device: u64,
    inode: u64,
    /// Spares a stat of nearly all descriptors of the machine, some of which may hang.
    name: Vec<u8>,
}

impl SlotIdentity {
    /// Of an open file.
    pub fn of(slot: &File) -> io::Result<Self> {
        let path = fs::read_link(format!("/proc/self/fd/{}", slot.as_fd().as_raw_fd()))?;
        Ok(Self::new(&slot.metadata()?, &path))
    }

    /// Of the file at a path, without opening it.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::new(&fs::metadata(path)?, &fs::canonicalize(path)?))
    }

    fn new(metadata: &fs::Metadata, path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().as_bytes().to_owned();
        Self { device: metadata.dev(), inode: metadata.ino(), name }
    }
}

/// What makes a process belong to the step.
#[derive(Debug, Default)]
pub(super) struct Membership<'a> {
    /// A child of this process that is not reaped; it leads the group of the step, and belongs
    /// to the step whatever it did to its group and descriptors.
    pub(super) child: Option<Pid>,
    /// Whose holders belong to the step.
    pub(super) slot: Option<SlotIdentity>,
    /// Processes that are not touched even so.
    pub(super) spare: &'a [Pid],
}

/// A living process that belongs to the step.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    /// Clock ticks since boot. With the pid it names one process.
    pub(super) born: u64,
    /// In the group of the step.
    pub(super) in_group: bool,
    /// The name of its program, for messages.
    pub(super) name: String,
}

/// What a look at a process has shown.
enum Look<T> {
    Member(T),
    Stranger,
    /// It has ended; nobody can say any more what it was.
    Gone,
}

impl Membership<'_> {
    /// All members, each with a handle that a reused number cannot fool; none only if that is
    /// sure.
    ///
    /// One look is no proof that nobody is left: a member that was alive when `/proc` was listed
    /// can fork and end before it is its turn, and its child is not in the list. So the list is
    /// read again, and only what is new in it is looked at, until nothing new has already ended.
    pub(super) fn scan(&self) -> io::Result<Vec<Member>> {
        let _guard = sys::no_spawn_under_way();
        let mut seen = HashSet::new();
        let mut members = Vec::new();
        loop {
            let mut unsure = seen.is_empty();
            for pid in all_processes()? {
                if !seen.insert(pid) {
                    continue;
                }
                match self.hold(pid)? {
                    Look::Member(member) => members.push(member),
                    Look::Gone => unsure = true,
                    Look::Stranger => {}
                }
            }
            if !unsure || !members.is_empty() {
                return Ok(members);
            }
        }
    }

    /// Opens a handle of a member, then looks again: only now is it sure whose handle it is.
    fn hold(&self, pid: Pid) -> io::Result<Look<Member>> {
        match self.inspect(pid) {
            Look::Member(_) => {}
            Look::Stranger => return Ok(Look::Stranger),
            Look::Gone => return Ok(Look::Gone),
        }
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            // Gone, or the number is only that of a thread by now.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => return Ok(Look::Gone),
            Err(errno) => return Err(errno.into()),
        };
        Ok(match self.inspect(pid) {
            Look::Member(stat) => {
                let in_group = self.is_in_group(&stat);
                Look::Member(Member { pid, pidfd, born: stat.born, in_group, name: stat.name })
            }
            Look::Stranger => Look::Stranger,
            Look::Gone => Look::Gone,
        })
    }

    fn inspect(&self, pid: Pid) -> Look<Stat> {
        if pid == getpid() || self.spare.contains(&pid) {
            return Look::Stranger;
        }
        let Some(stat) = Stat::load(pid).filter(Stat::is_alive) else { return Look::Gone };
        if self.child == Some(pid) || self.is_in_group(&stat) || self.is_holder(pid, &stat) {
            return Look::Member(stat);
        }
        Look::Stranger
    }

    fn is_in_group(&self, stat: &Stat) -> bool {
        self.child.is_some_and(|child| child.as_raw_nonzero().get() == stat.group)
    }

    fn is_holder(&self, pid: Pid, stat: &Stat) -> bool {
        let Some(slot) = &self.slot else { return false };
        if stat.flags & PF_KTHREAD != 0 {
            return false;
        }
        let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        if stat.leader_is_alive() {
            return holds(&process, slot);
        }
        // The first thread is gone, and its view of the descriptors with it.
        let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
        threads.into_iter().any(|thread| holds(&thread.path(), slot))
    }
}

/// When a process started, in clock ticks since boot, which tells it from a later one with the same
/// number; none where there is no such process or only its remains.
pub fn process_start(pid: u32) -> Option<u64> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    Stat::load(pid).filter(Stat::is_alive).map(|stat| stat.born)
}

fn all_processes() -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw));
    }
    Ok(pids)
}

/// True if this process or thread has a description of the slot open that is locked shared.
/// What cannot be read, because it is gone or not ours, is not held as far as we can see.
fn holds(process: &Path, slot: &SlotIdentity) -> bool {
    let links = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    links.into_iter().any(|link| {
        let path = link.path();
        let named = fs::read_link(&path).is_ok_and(|to| to.as_os_str().as_bytes().ends_with(&slot.name));
        let same =
            || fs::metadata(&path).is_ok_and(|file| file.dev() == slot.device && file.ino() == slot.inode);
        let locked = || {
            let info = process.join("fdinfo").join(link.file_name());
            fs::read_to_string(info).is_ok_and(|info| info.lines().any(is_shared_lock))
        };
        named && same() && locked()
    })
}

/// A line of fdinfo such as `lock: 1: FLOCK  ADVISORY  READ 42 00:2d:1234 0 EOF`.
fn is_shared_lock(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next() == Some("lock:") && words.nth(1) == Some("FLOCK") && words.nth(1) == Some("READ")
}

/// The few fields of `/proc/PID/stat` that matter here.
#[derive(Debug)]
struct Stat {
    name: String,
    state: char,
    group: i32,
    flags: u64,
    threads: u32,
    born: u64,
}

impl Stat {
    fn load(pid: Pid) -> Option<Self> {
        // The name may be any bytes.
        let bytes = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(line: &str) -> Option<Self> {
        // The name may contain blanks and parentheses; it ends at the last one.
        let (before, after) = line.rsplit_once(')')?;
        let fields: Vec<_> = after.split_whitespace().collect();
        Some(Self {
            name: before.split_once('(')?.1.to_owned(),
            state: fields.first()?.chars().next()?,
            group: fields.get(2)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            born: fields.get(19)?.parse().ok()?,
        })
    }

    fn leader_is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// A process whose first thread has ended looks like a zombie while other threads go on.
    fn is_alive(&self) -> bool {
        self.leader_is_alive() || self.threads > 1
    }
}

/// Now, in the clock ticks since boot that [`Member::born`] counts.
pub(super) fn ticks_now() -> io::Result<u64> {
    // Seconds with two decimals, and a tick is a hundredth of a second to user space.
    let uptime = fs::read_to_string("/proc/uptime")?;
    let digits: String =
        uptime.split(' ').next().unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    digits.parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_fields() {
        let line = "7 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 12345 99 1\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.group), ("a) b (c)", 'S', 42));
        assert_eq!((stat.threads, stat.born), (3, 12345));
        assert!(Stat::parse("7 (cut").is_none());
    }

    #[test]
    fn a_zombie_is_alive_only_while_other_threads_are() {
        let line = |threads| format!("7 (a) Z 1 42 42 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 12345 99 1");
        assert!(!Stat::parse(&line(1)).unwrap().is_alive());
        assert!(Stat::parse(&line(2)).unwrap().is_alive());
    }

    #[test]
    fn only_a_shared_flock_makes_a_holder() {
        assert!(is_shared_lock("lock:\t1: FLOCK  ADVISORY  READ 42 00:2d:1234 0 EOF"));
        assert!(!is_shared_lock("lock:\t1: FLOCK  ADVISORY  WRITE 42 00:2d:1234 0 EOF"));
        assert!(!is_shared_lock("lock:\t1: POSIX  ADVISORY  READ 42 00:2d:1234 0 EOF"));
        assert!(!is_shared_lock("pos:\t0"));
    }

    #[test]
    fn the_tick_clock_agrees_with_the_birth_of_this_process() {
        let born = Stat::load(getpid()).unwrap().born;
        let now = ticks_now().unwrap();
        assert!(born <= now && now - born < 100 * 3600, "{born} {now}");
    }
}
