//! Files and locks: the one place that knows how a store looks on disk.
//!
//! Knows nothing of commands, processes or signals. `load_` and `read_` functions take no lock and change
//! nothing; whatever changes state asks for a [`lock::StoreLock`] or owns a slot.

pub mod atomic;
pub mod disk;
pub mod due;
pub mod journal;
pub mod layout;
pub mod lock;
pub mod receipts;
mod record;
pub mod runs;
pub mod schedules;
pub mod settings;
pub mod slots;
pub mod snapshots;
pub mod watch;

use std::{
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use disk::{Disk, Kind, RealDisk};
use lock::{LockFile, Patience, StoreLock};
use settings::Settings;

/// Why the store could not do what was asked. Nothing that was durable before is lost by any of these.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried, as a verb.
        what: &'static str,
        /// On what, below the store or absolute.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A file's content breaks its own rules.
    #[error("{path} is corrupt: {why}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Which rule.
        why: String,
    },
    /// A pinned workflow cannot be used.
    #[error("the pinned workflow {path} cannot be used: {why}")]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// There is no store.
    #[error("there is no store at {path}")]
    NoStore {
        /// Where.
        path: PathBuf,
    },
    /// A folder that cannot be made a store.
    #[error("{path} {why}")]
    NotAStore {
        /// Where.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The store is not the caller's alone.
    #[error("the store {path} {why}")]
    NotPrivate {
        /// Where.
        path: PathBuf,
        /// Which rule.
        why: String,
    },
    /// The store is on a file system where locks are not inherited.
    #[error(
        "the store {path} is on a network file system ({fs}), where the locks of running steps do not hold"
    )]
    NetworkFs {
        /// Where.
        path: PathBuf,
        /// The file system.
        fs: &'static str,
    },
    /// The store was written by a newer program.
    #[error("the store has format {found}, and this program knows formats up to {known}")]
    Format {
        /// The store's.
        found: u32,
        /// The program's.
        known: u32,
    },
    /// The settings cannot be used.
    #[error("wfctl.toml cannot be used: {why}")]
    Settings {
        /// Why.
        why: String,
    },
    /// Somebody else holds the store lock.
    #[error("the store lock is held by {holder}")]
    LockBusy {
        /// Who.
        holder: String,
    },
    /// A signal came while waiting.
    #[error("interrupted while waiting for the store lock")]
    Aborted,
    /// A broken promise of the program itself.
    #[error("internal error: {0}")]
    Bug(String),
}

impl StoreError {
    /// An error of the operating system.
    pub fn io(what: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { what, path: path.into(), source }
    }

    /// Names paths of the store in full.
    #[must_use]
    pub fn below(self, root: &Path) -> Self {
        let full =
            |path: PathBuf| if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) };
        match self {
            Self::Io { what, path, source } => Self::Io { what, path: full(path), source },
            Self::Corrupt { path, why } => Self::Corrupt { path: full(path), why },
            Self::Snapshot { path, why } => Self::Snapshot { path: full(path), why },
            other => other,
        }
    }
}

/// An open store.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    settings: Settings,
    command: String,
    lock: OnceLock<LockFile>,
}

impl Store {
    /// Opens the store at `root`, an absolute path; `command` names the caller to whoever waits for its lock.
    ///
    /// # Errors
    /// When there is none, when it is not the caller's alone, when its file system or format does not do.
    pub fn open(root: &Path, command: &str) -> Result<Self, StoreError> {
        let disk = match RealDisk::open(root) {
            Ok(disk) => disk,
            Err(e) if is_absent(&e) => return Err(StoreError::NoStore { path: root.to_owned() }),
            Err(e) => return Err(StoreError::io("open", root, e)),
        };
        let stat = rustix::fs::fstat(disk.root()).map_err(|e| StoreError::io("look at", root, e.into()))?;
        check_private(root, stat.st_uid, stat.st_mode)?;
        match disk.kind(Path::new(layout::SETTINGS)) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(StoreError::NoStore { path: root.to_owned() }),
            Err(e) => return Err(StoreError::io("look for", root.join(layout::SETTINGS), e)),
        }
        let settings = settings::load(&disk).map_err(|e| e.below(root))?;
        if !settings.allow_network_fs {
            check_file_system(root, &disk)?;
        }
        Ok(Self::with_disk(root, Arc::new(disk), settings, command))
    }

    /// A store on any disk.
    pub fn with_disk(root: &Path, disk: Arc<dyn Disk>, settings: Settings, command: &str) -> Self {
        Self { root: root.to_owned(), disk, settings, command: command.to_owned(), lock: OnceLock::new() }
    }

    /// Creates a store at `root`. False where there was one already. A folder that holds other things is
    /// not made a store.
    ///
    /// # Errors
    /// When it cannot be created, or the place does not do.
    pub fn create(root: &Path, capacity: Option<u32>) -> Result<bool, StoreError> {
        let io = |e| StoreError::io("create", root, e);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(root).map_err(io)?;
        let metadata = std::fs::metadata(root).map_err(io)?;
        check_private(root, metadata.uid(), metadata.mode())?;
        let disk = RealDisk::open(root).map_err(io)?;
        let is_store = || Ok(disk.kind(Path::new(layout::SETTINGS)).map_err(io)?.is_some());
        let existed = is_store()?;
        if !existed || !settings::load(&disk).map_err(|e| e.below(root))?.allow_network_fs {
            check_file_system(root, &disk)?;
        }
        if !existed {
            refuse_foreign_content(root, &disk)?;
        }
        // Two creators at once: the lock decides who writes the settings, which make it a store.
        let lock_file = LockFile::open(&disk, "init").map_err(|e| e.below(root))?;
        let patience = Patience { timeout: std::time::Duration::from_secs(10), abort: None };
        let lock = lock_file.acquire(patience).map_err(|e| e.below(root))?;
        for folder in layout::FOLDERS {
            match disk.create_dir(Path::new(folder)) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(StoreError::io("create", root.join(folder), e)),
            }
        }
        if is_store()? {
            return Ok(false);
        }
        disk.sync_dir(Path::new(layout::RUNS)).map_err(io)?;
        settings::save(&lock, &disk, &settings::initial(capacity)).map_err(|e| e.below(root))?;
        if let Some(parent) = root.parent() {
            let _ = std::fs::File::open(parent).and_then(|parent| parent.sync_all());
        }
        Ok(true)
    }

    /// Takes the store lock.
    ///
    /// # Errors
    /// When it is busy for too long, or cannot be opened.
    pub fn lock(&self, patience: Patience<'_>) -> Result<StoreLock<'_>, StoreError> {
        let file = match self.lock.get() {
            Some(file) => file,
            None => {
                let file = LockFile::open(&*self.disk, &self.command)?;
                self.lock.get_or_init(|| file)
            }
        };
        file.acquire(patience)
    }

    /// The store's folder, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The disk below the store's folder.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The settings as they were when the store was opened.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the store is draining.
    ///
    /// # Errors
    /// When that cannot be seen.
    pub fn is_draining(&self) -> Result<bool, StoreError> {
        let path = Path::new(layout::DRAINING);
        Ok(self.disk.kind(path).map_err(|e| StoreError::io("look for", path, e))?.is_some())
    }

    /// Starts or ends draining. False where it was so already.
    ///
    /// # Errors
    /// When the marker cannot be written or removed.
    pub fn set_draining(&self, lock: &StoreLock<'_>, draining: bool) -> Result<bool, StoreError> {
        let path = Path::new(layout::DRAINING);
        let was = self.disk.kind(path).map_err(|e| StoreError::io("look for", path, e))?;
        if was.is_some() == draining {
            // A command may have died between the change and its sync.
            self.disk.sync_dir(Path::new("")).map_err(|e| StoreError::io("sync", "", e))?;
            return Ok(false);
        }
        if draining {
            atomic::write(lock, &*self.disk, path, b"")?;
        } else {
            self.disk.remove_file(path).map_err(|e| StoreError::io("remove", path, e))?;
            self.disk.sync_dir(Path::new("")).map_err(|e| StoreError::io("sync", "", e))?;
        }
        Ok(true)
    }
}

/// A folder that holds other things is not made a store by mistake.
fn refuse_foreign_content(root: &Path, disk: &RealDisk) -> Result<(), StoreError> {
    let entries = disk.list(Path::new("")).map_err(|e| StoreError::io("list", root, e))?;
    let is_ours = |name: &str| {
        layout::FOLDERS.contains(&name) || name == layout::LOCK || name.starts_with(layout::TEMP_PREFIX)
    };
    match entries.iter().find(|entry| !is_ours(&entry.name)) {
        Some(entry) => Err(StoreError::NotAStore {
            path: root.to_owned(),
            why: format!("holds {:?} and is no store", entry.name),
        }),
        None => Ok(()),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn check_private(root: &Path, owner: u32, mode: u32) -> Result<(), StoreError> {
    let me = rustix::process::geteuid().as_raw();
    let refuse = |why| Err(StoreError::NotPrivate { path: root.to_owned(), why });
    if owner != me {
        return refuse(format!("belongs to user {owner}, and this is user {me}"));
    }
    if mode & 0o022 != 0 {
        return refuse(format!("is writable by group or others (mode {:03o})", mode & 0o777));
    }
    Ok(())
}

/// File systems where `flock` is emulated or per client. Magic numbers: statfs(2).
const NETWORK_FILE_SYSTEMS: [(u32, &str); 10] = [
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFE53_4D42, "SMB2"),
    (0xFF53_4D42, "CIFS"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE"),
    (0x5346_414F, "AFS"),
    (0x7375_7245, "Coda"),
    (0x00C3_6400, "Ceph"),
    (0x0BD0_0BD0, "Lustre"),
];

fn check_file_system(root: &Path, disk: &RealDisk) -> Result<(), StoreError> {
    let stat = rustix::fs::fstatfs(disk.root()).map_err(|e| StoreError::io("look at", root, e.into()))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "magic numbers are 32 bits")]
    let magic = stat.f_type as u32;
    match NETWORK_FILE_SYSTEMS.iter().find(|(known, _)| *known == magic) {
        Some((_, fs)) => Err(StoreError::NetworkFs { path: root.to_owned(), fs }),
        None => Ok(()),
    }
}

/// Whether `path` below the store is a folder.
pub fn is_folder(disk: &dyn Disk, path: &Path) -> bool {
    matches!(disk.kind(path), Ok(Some(Kind::Folder)))
}
