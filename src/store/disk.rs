//! The only place that touches the file system of a store.
//!
//! [`Disk`] is the small set of effects that durability is made of; [`RealDisk`] is the operating
//! system. Paths are relative to the store and are resolved beneath it without following any
//! symbolic link, so nothing inside a store can lead out of it. Whatever is opened as a file must be a
//! regular file: a FIFO or a device in its place is an error, never a hang.
//! Deliberately not here: what the files mean, and locks (see [`super::lock`]).

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::layout;

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Anything else: link, FIFO, socket, device.
    Other,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name; names that are no UTF-8 are shown with replacement characters.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// How a file is opened for appending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// It must exist.
    Existing,
    /// It must not exist.
    New,
}

/// The effects on a store's files. Every error is the operating system's; nothing is retried.
pub trait Disk: fmt::Debug + Send + Sync {
    /// The whole content of a regular file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Up to `len` bytes from `offset` of a regular file, and its size.
    fn read_at(&self, path: &Path, offset: u64, len: usize) -> io::Result<(Vec<u8>, u64)>;
    /// Opens a regular file for reading and appending.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;
    /// Creates a folder, exclusively.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// The entries of a folder, in no order.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;
    /// What is at `path`; none where there is nothing. Links are not followed.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// The permission bits of a file or folder. Links are not followed.
    fn mode(&self, path: &Path) -> io::Result<u32>;
    /// Words that change whenever an entry of a folder is added or removed; none where that cannot be told.
    fn stamp(&self, _folder: &Path) -> io::Result<Option<String>> {
        Ok(None)
    }
    /// Renames within the store; `replace` says whether an existing target file may be replaced.
    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a folder durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Makes everything that was written to the store's file system durable, in one go.
    fn sync_all(&self) -> io::Result<()>;
    /// A file to be used as a lock, created where it is missing and `create` says so. Its content
    /// needs no durability.
    fn lock_file(&self, path: &Path, create: Create) -> io::Result<File>;
    /// Writes a file that only a step reads and that needs no durability.
    fn write_scratch(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// A new file that a child process appends to.
    fn create_log(&self, path: &Path) -> io::Result<File>;
}

/// Whether a rename may replace its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// Yes.
    Allowed,
    /// No: the target must not exist.
    Refused,
}

/// Whether a missing lock file is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// Yes; needs a writable store.
    IfMissing,
    /// No; opened for reading only.
    Never,
}

/// The end of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// Its last bytes.
    pub text: Vec<u8>,
    /// The size of the whole file.
    pub size: u64,
}

/// An open file of a store.
pub trait DiskFile: fmt::Debug + Send {
    /// Everything from the start.
    fn read_all(&mut self) -> io::Result<Vec<u8>>;
    /// Up to `len` bytes of the end, and the size.
    fn read_tail(&mut self, len: usize) -> io::Result<Tail>;
    /// Writes all of `bytes` at the end; a short write is an error and may leave a part behind.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// Makes content and size durable (fdatasync).
    fn sync(&mut self) -> io::Result<()>;
    /// Sets blocks aside so that appending up to `len` bytes in all cannot run out of space. The
    /// size stays. Best effort: where the file system cannot, nothing happens.
    fn reserve(&mut self, len: u64) -> io::Result<()>;
}

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const DIR_MODE: Mode = Mode::from_raw_mode(0o700);
const NO_LINKS: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// No file of a store grows beyond this, in bytes; a larger one is damage, and reading it would take the
/// memory of everybody else.
pub const LARGEST_FILE: u64 = 256 << 20;

fn refuse_too_large(file: &File) -> io::Result<()> {
    if file.metadata()?.len() > LARGEST_FILE {
        return Err(io::Error::other("it is larger than any file of a store can be (256 MiB)"));
    }
    Ok(())
}

/// The file system below one folder.
#[derive(Debug)]
pub struct RealDisk {
    root: OwnedFd,
    /// The folder of unfinished runs, once it was needed: nothing renames or removes it.
    active: OnceLock<OwnedFd>,
}

/// An open folder.
enum Folder<'d> {
    Kept(&'d OwnedFd),
    Opened(OwnedFd),
}

impl AsFd for Folder<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Kept(fd) => fd.as_fd(),
            Self::Opened(fd) => fd.as_fd(),
        }
    }
}

impl RealDisk {
    /// The disk whose paths start at `root`, a folder that exists. The root itself may be reached
    /// through links; nothing below it may.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(root, flags, Mode::empty())?, active: OnceLock::new() })
    }

    /// The open root folder.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    fn open_at(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        loop {
            match rustix::fs::openat2(&self.root, path, flags, mode, NO_LINKS) {
                Ok(fd) => return Ok(fd),
                // The kernel asks for another try when a rename raced with the walk.
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::NOSYS | Errno::PERM) => return self.walk(path, flags, mode),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The same for kernels and sandboxes without `openat2`: one component at a time.
    fn walk(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let dir_flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut dir = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        let mut components = path.components().peekable();
        while let Some(component) = components.next() {
            let name = component.as_os_str();
            if components.peek().is_none() {
                return Ok(rustix::fs::openat(&dir, name, flags, mode)?);
            }
            dir = rustix::fs::openat(&dir, name, dir_flags, Mode::empty())?;
        }
        Ok(dir)
    }

    fn open_regular(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
        let fd = self.open_at(path, flags | OFlags::NONBLOCK, mode)?;
        let file_type = FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode);
        if file_type != FileType::RegularFile {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(File::from(fd))
    }

    fn open_folder(&self, path: &Path) -> io::Result<OwnedFd> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }

    /// The folder that an entry is in, and its name there.
    fn split<'p>(&self, path: &'p Path) -> io::Result<(Folder<'_>, &'p OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().unwrap_or(Path::new(""));
        let folder = if parent.as_os_str().is_empty() {
            Folder::Kept(&self.root)
        } else if parent == Path::new(layout::ACTIVE) {
            Folder::Kept(match self.active.get() {
                Some(kept) => kept,
                None => {
                    let opened = self.open_folder(parent)?;
                    self.active.get_or_init(|| opened)
                }
            })
        } else {
            Folder::Opened(self.open_folder(parent)?)
        };
        Ok((folder, name))
    }
}

impl Disk for RealDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = self.open_regular(path, OFlags::RDONLY, Mode::empty())?;
        refuse_too_large(&file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&self, path: &Path, offset: u64, len: usize) -> io::Result<(Vec<u8>, u64)> {
        let file = self.open_regular(path, OFlags::RDONLY, Mode::empty())?;
        let size = file.metadata()?.len();
        Ok((read_exactly_at(&file, offset, len)?, size))
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let flags = OFlags::RDWR | OFlags::APPEND;
        let file = match how {
            Open::Existing => self.open_regular(path, flags, Mode::empty())?,
            Open::New => self.open_regular(path, flags | OFlags::CREATE | OFlags::EXCL, FILE_MODE)?,
        };
        Ok(Box::new(RealFile { file }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.split(path)?;
        Ok(rustix::fs::mkdirat(&dir, name, DIR_MODE)?)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let dir = self.open_folder(path)?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::new(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                // Some file systems do not say; a look settles it.
                FileType::Unknown => self.kind(&path.join(&name))?.unwrap_or(Kind::Other),
                _ => Kind::Other,
            };
            entries.push(Entry { name, kind });
        }
        Ok(entries)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let (dir, name) = match self.split(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                _ => Kind::Other,
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        let stat = if path.file_name().is_some() {
            let (dir, name) = self.split(path)?;
            rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?
        } else {
            rustix::fs::fstat(&self.root)?
        };
        Ok(stat.st_mode & 0o7777)
    }

    fn stamp(&self, folder: &Path) -> io::Result<Option<String>> {
        let stat = rustix::fs::fstat(self.open_folder(folder)?)?;
        Ok(Some(format!("{}:{} at {}.{:09}", stat.st_dev, stat.st_ino, stat.st_mtime, stat.st_mtime_nsec)))
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        let (from_dir, from_name) = self.split(from)?;
        let (to_dir, to_name) = self.split(to)?;
        let flags = match replace {
            Replace::Allowed => RenameFlags::empty(),
            Replace::Refused => RenameFlags::NOREPLACE,
        };
        rustix::fs::renameat_with(&from_dir, from_name, &to_dir, to_name, flags)?;
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.split(path)?;
        Ok(rustix::fs::unlinkat(&dir, name, AtFlags::empty())?)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.split(path)?;
        Ok(rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.open_folder(path)?)?)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }

    fn lock_file(&self, path: &Path, create: Create) -> io::Result<File> {
        match create {
            Create::IfMissing => self.open_regular(path, OFlags::RDWR | OFlags::CREATE, FILE_MODE),
            Create::Never => self.open_regular(path, OFlags::RDONLY, Mode::empty()),
        }
    }

    fn write_scratch(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.open_regular(path, flags, FILE_MODE)?.write_all(bytes)
    }

    fn create_log(&self, path: &Path) -> io::Result<File> {
        self.open_regular(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL, FILE_MODE)
    }
}

/// `len` bytes from `offset`, or fewer where the file ends.
fn read_exactly_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[derive(Debug)]
struct RealFile {
    file: File,
}

impl DiskFile for RealFile {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        refuse_too_large(&self.file)?;
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_tail(&mut self, len: usize) -> io::Result<Tail> {
        let size = self.file.metadata()?.len();
        let text = read_exactly_at(&self.file, size.saturating_sub(len as u64), len)?;
        Ok(Tail { text, size })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn reserve(&mut self, len: u64) -> io::Result<()> {
        use rustix::fs::FallocateFlags;
        match rustix::fs::fallocate(self.file.as_fd(), FallocateFlags::KEEP_SIZE, 0, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The absolute form of `path`, without looking at the file system beyond the working folder.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}

/// Up to `limit` bytes of a file outside of the store, which may be anything that can be read.
pub fn read_outside(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file without a name that holds `bytes` and is read from its start.
pub fn memory_file(name: &str, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// The path without links, of something outside of the store that exists.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// A folder outside of the store, with all that lead to it.
pub fn create_folder_outside(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Replaces a file outside of the store as a whole, readable for all: other programs collect it. What is no
/// regular file, such as a device or a pipe, is written to instead.
pub fn write_outside(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => {
            return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
        }
        Ok(_) | Err(_) => {}
    }
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_string_lossy();
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A collector takes files by their ending, and must not find this one.
    let temp = folder.join(format!(".{name}.{}.tmp", std::process::id()));
    let _ = std::fs::remove_file(&temp);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o644);
    let written = options.open(&temp).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    let done = written.and_then(|()| std::fs::rename(&temp, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&temp);
    }
    done
}
