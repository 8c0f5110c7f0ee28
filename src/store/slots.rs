//! Slots: the units of a store's capacity, held by kernel locks.
//!
//! A slot is taken while anything of its execution lives: the process that claimed it holds one open
//! file description locked shared, and each step inherits another, so neither the death of `wfctl`
//! nor a step that closes or unlocks what it inherited makes a live run look dead. A claim or a probe
//! asks for the lock exclusively. [`SlotGuard`] dropped without [`SlotGuard::release`] leaves its content
//! behind as evidence. The files need no sync: after a power loss the journals tell.

use std::{fs::File, io, os::unix::fs::FileExt as _, path::PathBuf, sync::Arc, thread, time::Duration};

use chrono::{DateTime, Utc};
use fs4::{FileExt, TryLockError};
use serde::{Deserialize, Serialize};

use super::{
    StoreError,
    disk::{Create, Disk, Kind},
    layout,
    lock::StoreLock,
};
use crate::domain::{
    event::AttemptNo,
    ids::{RunId, SlotIndex},
    time,
};

/// How often a taken slot is asked again before that is believed; readers hold a lock for an instant.
const ASK_AGAIN: u32 = 4;
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// A slot file holds one short line; more is garbage and is not read.
const LONGEST: usize = 4096;

/// Who holds a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The run.
    pub run: RunId,
    /// Its attempt.
    pub attempt: AttemptNo,
    /// The process of `wfctl`.
    pub pid: u32,
    /// When that process started, in clock ticks since boot, so that a reused pid is told apart.
    pub pid_start: Option<u64>,
    /// The host of that process.
    pub host: String,
    /// When the slot was claimed.
    pub at: DateTime<Utc>,
}

#[derive(Serialize, Deserialize)]
struct HolderFile {
    run: String,
    attempt: u32,
    pid: u32,
    host: String,
    at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid_start: Option<u64>,
}

/// What a probe of a slot found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotState {
    /// Nobody holds it.
    Free,
    /// Something of an execution lives. No holder: it is being claimed or released right now.
    Live(Option<Holder>),
    /// Nobody holds the lock, and nobody released it. No holder: the content is garbage.
    Abandoned(Option<Holder>),
}

/// A claimed slot.
#[derive(Debug)]
pub struct SlotGuard {
    disk: Arc<dyn Disk>,
    index: SlotIndex,
    holder: Holder,
    own: File,
}

/// The indexes of all slot files, whatever the capacity is now.
///
/// # Errors
/// When the folder cannot be read.
pub fn list(disk: &dyn Disk) -> Result<Vec<SlotIndex>, StoreError> {
    let entries = disk.list(layout::SLOTS.as_ref()).map_err(|e| StoreError::io("list", layout::SLOTS, e))?;
    let mut slots: Vec<_> = entries.iter().filter_map(|entry| parse_index(&entry.name)).collect();
    slots.sort_unstable();
    Ok(slots)
}

fn parse_index(name: &str) -> Option<SlotIndex> {
    let index: u32 = name.parse().ok()?;
    (index.to_string() == name).then_some(SlotIndex(index))
}

/// Looks at a slot without changing it. Works on a read-only store.
///
/// # Errors
/// When the file cannot be read.
pub fn probe(disk: &dyn Disk, index: SlotIndex) -> Result<SlotState, StoreError> {
    let path = layout::slot(index);
    let io = |e| StoreError::io("probe", &path, e);
    let file = match open(disk, index, Create::Never) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(SlotState::Live(None)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(SlotState::Free),
        Err(e) => return Err(io(e)),
    };
    let taken = !try_exclusive(&file).map_err(io)?;
    let content = read_holder(&file).map_err(io)?;
    if !taken {
        let _ = FileExt::unlock(&file);
    }
    Ok(match (taken, content) {
        (false, Content::Empty) => SlotState::Free,
        (false, Content::Garbage) => SlotState::Abandoned(None),
        (false, Content::Holder(holder)) => SlotState::Abandoned(Some(holder)),
        (true, Content::Empty | Content::Garbage) => SlotState::Live(None),
        (true, Content::Holder(holder)) => SlotState::Live(Some(holder)),
    })
}

/// The same, but a taken slot is asked again for some milliseconds before that is believed.
///
/// # Errors
/// When the file cannot be read.
pub fn probe_twice(disk: &dyn Disk, index: SlotIndex) -> Result<SlotState, StoreError> {
    for _ in 0..ASK_AGAIN {
        match probe(disk, index)? {
            SlotState::Live(_) => thread::sleep(ASK_AGAIN_AFTER),
            settled @ (SlotState::Free | SlotState::Abandoned(_)) => return Ok(settled),
        }
    }
    probe(disk, index)
}

/// The state of a slot as far as it concerns `run`: what names another run is not asked twice.
///
/// # Errors
/// When the file cannot be read.
pub fn probe_named(disk: &dyn Disk, index: SlotIndex, run: &RunId) -> Result<SlotState, StoreError> {
    match probe(disk, index)? {
        SlotState::Live(Some(holder)) if holder.run != *run => Ok(SlotState::Live(Some(holder))),
        SlotState::Live(_) => probe_twice(disk, index),
        settled @ (SlotState::Free | SlotState::Abandoned(_)) => Ok(settled),
    }
}

/// Whether something alive holds a slot that names `run`.
///
/// # Errors
/// When a file cannot be read.
pub fn is_held_for(disk: &dyn Disk, run: &RunId) -> Result<bool, StoreError> {
    for index in list(disk)? {
        if matches!(probe_named(disk, index, run)?, SlotState::Live(Some(holder)) if holder.run == *run) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether any slot file names `run`, live or not.
///
/// # Errors
/// When a file cannot be read.
pub fn is_named(disk: &dyn Disk, run: &RunId) -> Result<bool, StoreError> {
    for index in list(disk)? {
        let path = layout::slot(index);
        let io = |e| StoreError::io("read", &path, e);
        let Some(file) = open(disk, index, Create::Never).map_err(io)? else { continue };
        if matches!(read_holder(&file).map_err(io)?, Content::Holder(holder) if holder.run == *run) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// All slots and what they are, in order, at least as many as the capacity.
///
/// # Errors
/// When a file cannot be read.
pub fn probe_all(disk: &dyn Disk, capacity: u32) -> Result<Vec<(SlotIndex, SlotState)>, StoreError> {
    let mut slots = list(disk)?;
    slots.extend((0..capacity).map(SlotIndex));
    slots.sort_unstable();
    slots.dedup();
    let mut found = Vec::with_capacity(slots.len());
    for index in slots {
        found.push((index, probe(disk, index)?));
    }
    if found.iter().any(|(_, state)| matches!(state, SlotState::Live(_))) {
        // Another reader's probe looks like life for an instant.
        thread::sleep(ASK_AGAIN_AFTER);
        for (index, state) in &mut found {
            if matches!(state, SlotState::Live(_)) {
                *state = probe(disk, *index)?;
            }
        }
    }
    Ok(found)
}

/// Claims a free slot for an attempt; none where the store is full. Slots beyond the capacity that are
/// still taken count, so that a lowered capacity is honoured at once.
///
/// # Errors
/// When a slot file cannot be read or written.
pub fn claim(
    lock: &StoreLock<'_>,
    disk: &Arc<dyn Disk>,
    capacity: u32,
    holder: &Holder,
) -> Result<Option<SlotGuard>, StoreError> {
    claim_near(lock, disk, capacity, SlotIndex(0), holder)
}

/// The same, beginning with the slot that the caller has just given back.
///
/// # Errors
/// When a slot file cannot be read or written.
pub fn claim_near(
    _lock: &StoreLock<'_>,
    disk: &Arc<dyn Disk>,
    capacity: u32,
    first: SlotIndex,
    holder: &Holder,
) -> Result<Option<SlotGuard>, StoreError> {
    for round in 0..ASK_AGAIN {
        if round > 0 {
            thread::sleep(ASK_AGAIN_AFTER);
        }
        if let Some(guard) = claim_once(disk, capacity, first, holder)? {
            return Ok(Some(guard));
        }
    }
    Ok(None)
}

fn claim_once(
    disk: &Arc<dyn Disk>,
    capacity: u32,
    first: SlotIndex,
    holder: &Holder,
) -> Result<Option<SlotGuard>, StoreError> {
    let mut taken = 0;
    for index in list(&**disk)?.into_iter().filter(|index| index.0 >= capacity) {
        taken += u32::from(probe(&**disk, index)? != SlotState::Free);
    }
    let is_lowered = taken > 0;
    let first = first.0.min(capacity);
    let mut free = None;
    for index in (first..capacity).chain(0..first).map(SlotIndex) {
        if free.is_some() && !is_lowered {
            break; // a free slot and none beyond the capacity: fewer than the capacity are taken
        }
        if free.is_none() {
            free = try_take(disk, index)?;
            taken += u32::from(free.is_none());
        } else {
            taken += u32::from(probe(&**disk, index)? != SlotState::Free);
        }
    }
    let Some((index, own)) = free.filter(|_| taken < capacity) else { return Ok(None) };
    let guard = SlotGuard { disk: Arc::clone(disk), index, holder: holder.clone(), own };
    guard.occupy().map_err(|e| StoreError::io("claim", layout::slot(index), e))?;
    Ok(Some(guard))
}

/// The lock of a free slot, held exclusively.
fn try_take(disk: &Arc<dyn Disk>, index: SlotIndex) -> Result<Option<(SlotIndex, File)>, StoreError> {
    let path = layout::slot(index);
    let io = |e| StoreError::io("claim", &path, e);
    let Some(file) = open(&**disk, index, Create::IfMissing).map_err(io)? else { return Ok(None) };
    if !try_exclusive(&file).map_err(io)? {
        return Ok(None);
    }
    match read_holder(&file).map_err(io)? {
        Content::Empty => Ok(Some((index, file))),
        Content::Garbage | Content::Holder(_) => Ok(None),
    }
}

/// Opens a slot; none where something that is no file is in its place. Nobody can tell whether that is
/// free, so it counts as taken, and the other slots go on.
fn open(disk: &dyn Disk, index: SlotIndex, create: Create) -> io::Result<Option<File>> {
    let path = layout::slot(index);
    match disk.lock_file(&path, create) {
        Ok(file) => Ok(Some(file)),
        Err(_) if matches!(disk.kind(&path), Ok(Some(Kind::Folder | Kind::Other))) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Empties an abandoned slot. False where it is not abandoned (any more) or names another attempt.
///
/// # Errors
/// When the file cannot be read or written.
pub fn release_abandoned(
    _lock: &StoreLock<'_>,
    disk: &dyn Disk,
    index: SlotIndex,
    expected: Option<&Holder>,
) -> Result<bool, StoreError> {
    let path = layout::slot(index);
    let io = |e| StoreError::io("release", &path, e);
    let file = disk.lock_file(&path, Create::IfMissing).map_err(io)?;
    if !try_exclusive(&file).map_err(io)? {
        return Ok(false);
    }
    let same = match (read_holder(&file).map_err(io)?, expected) {
        (Content::Holder(found), Some(expected)) => found == *expected,
        (Content::Garbage, None) => true,
        (Content::Empty | Content::Garbage | Content::Holder(_), _) => false,
    };
    if same {
        file.set_len(0).map_err(io)?;
    }
    let _ = FileExt::unlock(&file);
    Ok(same)
}

impl SlotGuard {
    /// Which slot it is.
    pub fn index(&self) -> SlotIndex {
        self.index
    }

    /// What the slot file says.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Names another run: the slot was claimed before the run's id was certain.
    ///
    /// # Errors
    /// When the file cannot be written; the slot is then given back.
    pub fn rename(self, holder: Holder) -> Result<Self, StoreError> {
        if holder.run == self.holder.run {
            return Ok(self);
        }
        let renamed = Self { holder, ..self };
        let written = renamed.own.set_len(0).and_then(|()| renamed.occupy());
        match written {
            Ok(()) => Ok(renamed),
            Err(error) => {
                let path = renamed.path();
                renamed.release()?;
                Err(StoreError::io("claim", path, error))
            }
        }
    }

    /// Another open file description of the slot, locked shared, for one step to inherit.
    ///
    /// # Errors
    /// When the file cannot be opened or locked.
    pub fn inheritable(&self) -> Result<File, StoreError> {
        let path = layout::slot(self.index);
        let io = |e| StoreError::io("open", &path, e);
        let file = self.disk.lock_file(&path, Create::Never).map_err(io)?;
        lock_shared(&file).map_err(io)?;
        Ok(file)
    }

    /// Whether the slot file still says what this guard wrote there.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn is_owned(&self) -> Result<bool, StoreError> {
        let path = layout::slot(self.index);
        let io = |e| StoreError::io("read", &path, e);
        let now = self.disk.lock_file(&path, Create::Never).map_err(io)?;
        Ok(matches!(read_holder(&now).map_err(io)?, Content::Holder(found) if found == self.holder))
    }

    /// Where the slot file is, below the store.
    pub fn path(&self) -> PathBuf {
        layout::slot(self.index)
    }

    /// Empties the slot and unlocks it.
    ///
    /// # Errors
    /// When the file cannot be emptied; the slot then stays as it is, as evidence.
    pub fn release(self) -> Result<(), StoreError> {
        self.own.set_len(0).map_err(|e| StoreError::io("release", self.path(), e))?;
        let _ = FileExt::unlock(&self.own);
        Ok(())
    }

    fn occupy(&self) -> io::Result<()> {
        let content = HolderFile {
            run: self.holder.run.to_string(),
            attempt: self.holder.attempt,
            pid: self.holder.pid,
            host: self.holder.host.clone(),
            at: time::format_instant(self.holder.at),
            pid_start: self.holder.pid_start,
        };
        let mut text = serde_json::to_vec(&content)?;
        text.push(b'\n');
        if let Err(error) = self.own.write_all_at(&text, 0) {
            let _ = self.own.set_len(0);
            return Err(error);
        }
        lock_shared(&self.own)
    }
}

/// Unlocks what a step inherited, which also frees the slot from processes that escaped it.
pub fn unlock_inherited(file: &File) {
    let _ = FileExt::unlock(file);
}

/// Locks shared; a reader's probe may be in the way for an instant.
fn lock_shared(file: &File) -> io::Result<()> {
    for _ in 0..200 {
        match FileExt::try_lock_shared(file) {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => thread::sleep(ASK_AGAIN_AFTER),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::other("somebody else holds its lock"))
}

fn try_exclusive(file: &File) -> io::Result<bool> {
    match FileExt::try_lock(file) {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

enum Content {
    Empty,
    Garbage,
    Holder(Holder),
}

fn read_holder(file: &File) -> io::Result<Content> {
    let mut text = [0; LONGEST];
    // One read is all of it: whatever is that long is garbage.
    let len = loop {
        match file.read_at(&mut text, 0) {
            Ok(len) => break len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    if len == 0 {
        return Ok(Content::Empty);
    }
    Ok(parse_holder(&text[..len]).map_or(Content::Garbage, Content::Holder))
}

fn parse_holder(text: &[u8]) -> Option<Holder> {
    let file: HolderFile = serde_json::from_slice(text).ok()?;
    Some(Holder {
        run: file.run.parse().ok()?,
        attempt: file.attempt,
        pid: file.pid,
        pid_start: file.pid_start,
        host: file.host,
        at: time::parse_instant(&file.at)?,
    })
}
