//! A disk that remembers what was synced, and can show what a power cut leaves of the rest.
//!
//! Every effect goes to a real folder at once, as a file system shows it, and is written down. What a cut
//! leaves is then any subset of what no sync has covered: entries of folders that were not synced, the ends of files
//! that were not (lost, cut in half, or as zeros). This is harsher than any journalling file system.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use wfctl::store::disk::{Create, Disk, DiskFile, Entry, Kind, Open, RealDisk, Replace, Tail};

type Ino = u64;

/// One effect.
#[derive(Debug, Clone)]
pub enum Op {
    Link { dir: Ino, name: String, child: Ino, is_dir: bool },
    Unlink { dir: Ino, name: String },
    Move { from: (Ino, String), to: (Ino, String), child: Ino },
    Append { file: Ino, bytes: Vec<u8> },
    Truncate { file: Ino, len: u64 },
    SyncFile { file: Ino },
    SyncDir { dir: Ino },
    SyncAll,
}

/// An effect, and how much of the world outside a step had changed by then.
#[derive(Debug, Clone)]
pub struct Logged {
    pub op: Op,
    pub effects: u64,
}

#[derive(Debug, Clone)]
enum Node {
    Folder(BTreeMap<String, Ino>),
    File(Vec<u8>),
}

/// What was on the disk in the beginning.
#[derive(Debug, Clone)]
pub struct Image {
    root: Ino,
    nodes: BTreeMap<Ino, Node>,
}

impl Image {
    pub fn of(root: &Path) -> Self {
        let mut nodes = BTreeMap::new();
        scan(root, &mut nodes);
        Self { root: fs::metadata(root).unwrap().ino(), nodes }
    }

    /// What a cut behind the first `count` effects leaves; `chance` decides about what was not synced.
    pub fn after_cut(&self, log: &[Logged], count: usize, chance: &mut dyn FnMut(u64) -> u64) -> Self {
        let log = &log[..count];
        let kept = durable(log);
        let mut image = self.clone();
        // Nothing can be in a folder that was never there: file systems keep that order.
        let mut lost: BTreeSet<Ino> = BTreeSet::new();
        for (index, Logged { op, .. }) in log.iter().enumerate() {
            if let Op::Link { child, is_dir, .. } = op {
                let empty = if *is_dir { Node::Folder(BTreeMap::new()) } else { Node::File(Vec::new()) };
                image.nodes.entry(*child).or_insert(empty);
            }
            let into_lost = match op {
                Op::Link { dir, .. } => lost.contains(dir),
                Op::Move { to, .. } => lost.contains(&to.0),
                _ => false,
            };
            let is_data = matches!(op, Op::Append { .. } | Op::Truncate { .. });
            if into_lost || !kept.contains(&index) && !is_data && chance(2) == 0 {
                if let Op::Link { child, is_dir: true, .. } = op {
                    lost.insert(*child);
                }
                continue;
            }
            image.apply(op);
        }
        // The content of each file: what was synced, then some of what was not.
        let mut unsynced: BTreeMap<Ino, Vec<usize>> = BTreeMap::new();
        for (index, Logged { op, .. }) in log.iter().enumerate() {
            if let Op::Append { file, .. } | Op::Truncate { file, .. } = op {
                if kept.contains(&index) {
                    image.write(op);
                } else {
                    unsynced.entry(*file).or_default().push(index);
                }
            }
        }
        for indexes in unsynced.values() {
            let so_many = usize::try_from(chance(indexes.len() as u64 + 1)).unwrap();
            for (nth, index) in indexes[..so_many].iter().enumerate() {
                let mut op = log[*index].op.clone();
                if let (Op::Append { bytes, .. }, true) = (&mut op, nth + 1 == so_many) {
                    let half = bytes.len() / 2;
                    match chance(4) {
                        0 => bytes.truncate(half),
                        1 => bytes[half..].fill(0),
                        2 => bytes.fill(0),
                        _ => {}
                    }
                }
                image.write(&op);
            }
        }
        image
    }

    fn folder(&mut self, ino: Ino) -> Option<&mut BTreeMap<String, Ino>> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Folder(entries)) => Some(entries),
            _ => None,
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Link { dir, name, child, .. } => {
                if let Some(folder) = self.folder(*dir) {
                    folder.insert(name.clone(), *child);
                }
            }
            Op::Unlink { dir, name } => {
                if let Some(folder) = self.folder(*dir) {
                    folder.remove(name);
                }
            }
            Op::Move { from, to, child } => {
                if let Some(folder) = self.folder(from.0) {
                    folder.remove(&from.1);
                }
                if let Some(folder) = self.folder(to.0) {
                    folder.insert(to.1.clone(), *child);
                }
            }
            Op::Append { .. }
            | Op::Truncate { .. }
            | Op::SyncFile { .. }
            | Op::SyncDir { .. }
            | Op::SyncAll => {}
        }
    }

    fn write(&mut self, op: &Op) {
        match op {
            Op::Append { file, bytes } => {
                if let Some(Node::File(content)) = self.nodes.get_mut(file) {
                    content.extend(bytes);
                }
            }
            Op::Truncate { file, len } => {
                if let Some(Node::File(content)) = self.nodes.get_mut(file) {
                    content.truncate(usize::try_from(*len).unwrap());
                }
            }
            _ => {}
        }
    }

    /// Writes it all to a real folder.
    pub fn write_to(&self, path: &Path) {
        self.write_node(self.root, path);
    }

    fn write_node(&self, ino: Ino, path: &Path) {
        match &self.nodes[&ino] {
            Node::Folder(entries) => {
                fs::DirBuilder::new().mode(0o700).create(path).unwrap();
                for (name, child) in entries {
                    self.write_node(*child, &path.join(name));
                }
            }
            Node::File(bytes) => {
                let mut file = File::options().write(true).create_new(true).mode(0o600).open(path).unwrap();
                io::Write::write_all(&mut file, bytes).unwrap();
            }
        }
    }
}

fn scan(path: &Path, nodes: &mut BTreeMap<Ino, Node>) -> Ino {
    let ino = fs::metadata(path).unwrap().ino();
    let node = if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), scan(&entry.path(), nodes))
        });
        Node::Folder(entries.collect())
    } else {
        Node::File(fs::read(path).unwrap())
    };
    nodes.insert(ino, node);
    ino
}

/// Which effects a later sync covers.
fn durable(log: &[Logged]) -> BTreeSet<usize> {
    let mut kept = BTreeSet::new();
    for (index, Logged { op, .. }) in log.iter().enumerate() {
        let is_covered = log[index + 1..].iter().any(|later| match (op, &later.op) {
            (_, Op::SyncAll) => true,
            (Op::Link { dir, .. } | Op::Unlink { dir, .. }, Op::SyncDir { dir: synced }) => dir == synced,
            (Op::Move { to, .. }, Op::SyncDir { dir }) => to.0 == *dir,
            (Op::Append { file, .. } | Op::Truncate { file, .. }, Op::SyncFile { file: synced }) => {
                file == synced
            }
            _ => false,
        });
        if is_covered {
            kept.insert(index);
        }
    }
    kept
}

/// The disk itself.
#[derive(Debug)]
pub struct SimDisk {
    real: RealDisk,
    root: PathBuf,
    effects: PathBuf,
    log: Arc<Mutex<Vec<Logged>>>,
}

impl SimDisk {
    pub fn new(root: &Path, effects: &Path) -> Self {
        Self {
            real: RealDisk::open(root).unwrap(),
            root: root.to_owned(),
            effects: effects.to_owned(),
            log: Arc::default(),
        }
    }

    pub fn log(&self) -> Vec<Logged> {
        self.log.lock().unwrap().clone()
    }

    fn ino(&self, path: &Path) -> Ino {
        fs::symlink_metadata(self.root.join(path)).unwrap().ino()
    }

    fn place(&self, path: &Path) -> (Ino, String) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (self.ino(path.parent().unwrap()), name)
    }

    /// Does an effect and writes it down, as one.
    fn logged<T>(&self, act: impl FnOnce() -> io::Result<(T, Vec<Op>)>) -> io::Result<T> {
        note(&self.log, &self.effects, act)
    }

    fn link(&self, path: &Path, is_dir: bool) -> Op {
        let (dir, name) = self.place(path);
        Op::Link { dir, name, child: self.ino(path), is_dir }
    }
}

fn note<T>(
    log: &Mutex<Vec<Logged>>,
    effects: &Path,
    act: impl FnOnce() -> io::Result<(T, Vec<Op>)>,
) -> io::Result<T> {
    let mut log = log.lock().unwrap();
    let (done, ops) = act()?;
    let effects = fs::metadata(effects).map_or(0, |metadata| metadata.len());
    log.extend(ops.into_iter().map(|op| Logged { op, effects }));
    Ok(done)
}

impl Disk for SimDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.real.read(path)
    }

    fn read_at(&self, path: &Path, offset: u64, len: usize) -> io::Result<(Vec<u8>, u64)> {
        self.real.read_at(path, offset, len)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let file = self.logged(|| {
            let file = self.real.open(path, how)?;
            Ok((file, if how == Open::New { vec![self.link(path, false)] } else { Vec::new() }))
        })?;
        let (log, effects) = (Arc::clone(&self.log), self.effects.clone());
        Ok(Box::new(SimFile { file, ino: self.ino(path), log, effects }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.logged(|| Ok((self.real.create_dir(path)?, vec![self.link(path, true)])))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.real.list(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.real.kind(path)
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        self.real.mode(path)
    }

    fn rename(&self, from: &Path, to: &Path, replace: Replace) -> io::Result<()> {
        self.logged(|| {
            self.real.rename(from, to, replace)?;
            Ok(((), vec![Op::Move { from: self.place(from), to: self.place(to), child: self.ino(to) }]))
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.logged(|| {
            self.real.remove_file(path)?;
            let (dir, name) = self.place(path);
            Ok(((), vec![Op::Unlink { dir, name }]))
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.logged(|| {
            self.real.remove_dir(path)?;
            let (dir, name) = self.place(path);
            Ok(((), vec![Op::Unlink { dir, name }]))
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.logged(|| Ok(((), vec![Op::SyncDir { dir: self.ino(path) }])))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.logged(|| Ok(((), vec![Op::SyncAll])))
    }

    fn lock_file(&self, path: &Path, create: Create) -> io::Result<File> {
        self.logged(|| {
            let is_new = create == Create::IfMissing && self.real.kind(path)?.is_none();
            let file = self.real.lock_file(path, create)?;
            Ok((file, if is_new { vec![self.link(path, false)] } else { Vec::new() }))
        })
    }

    fn write_scratch(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.logged(|| {
            self.real.write_scratch(path, bytes)?;
            let append = Op::Append { file: self.ino(path), bytes: bytes.to_vec() };
            Ok(((), vec![self.link(path, false), append]))
        })
    }

    fn create_log(&self, path: &Path) -> io::Result<File> {
        self.logged(|| Ok((self.real.create_log(path)?, vec![self.link(path, false)])))
    }
}

#[derive(Debug)]
struct SimFile {
    file: Box<dyn DiskFile>,
    ino: Ino,
    log: Arc<Mutex<Vec<Logged>>>,
    effects: PathBuf,
}

impl DiskFile for SimFile {
    fn read_all(&mut self) -> io::Result<Vec<u8>> {
        self.file.read_all()
    }

    fn read_tail(&mut self, len: usize) -> io::Result<Tail> {
        self.file.read_tail(len)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let op = Op::Append { file: self.ino, bytes: bytes.to_vec() };
        note(&self.log, &self.effects, || Ok((self.file.append(bytes)?, vec![op])))
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let op = Op::Truncate { file: self.ino, len };
        note(&self.log, &self.effects, || Ok((self.file.truncate(len)?, vec![op])))
    }

    fn sync(&mut self) -> io::Result<()> {
        note(&self.log, &self.effects, || Ok(((), vec![Op::SyncFile { file: self.ino }])))
    }

    fn reserve(&mut self, _len: u64) -> io::Result<()> {
        Ok(())
    }
}
