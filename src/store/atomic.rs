//! Files that are replaced as a whole: temporary file, sync, rename, sync of the folder.
//!
//! Temporary files live in the store's own folder, so that one look there finds all that crashes left.

use std::path::{Path, PathBuf};

use super::{
    StoreError,
    disk::{Disk, Kind, Open, Replace},
    layout,
    lock::StoreLock,
};

/// Replaces the content of `path`. Afterwards it is durable; before, the old content stands.
///
/// # Errors
/// When any step fails; the temporary file is then removed as far as that is possible.
pub fn write(_lock: &StoreLock<'_>, disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    write_unlocked(disk, path, bytes)
}

/// The same for a store that is just being created, or for whoever made sure by other means that nobody
/// else writes the file.
pub(super) fn write_unlocked(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let temp = temp_name(path);
    let done = replace(disk, path, &temp, bytes);
    if done.is_err() {
        let _ = disk.remove_file(&temp);
    }
    done
}

fn replace(disk: &dyn Disk, path: &Path, temp: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let io = |what| move |e| StoreError::io(what, path, e);
    let _ = disk.remove_file(temp);
    let mut file = disk.open(temp, Open::New).map_err(io("write"))?;
    file.append(bytes).map_err(io("write"))?;
    file.sync().map_err(io("sync"))?;
    drop(file);
    disk.rename(temp, path, Replace::Allowed).map_err(io("replace"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    disk.sync_dir(folder).map_err(io("sync the folder of"))
}

fn temp_name(path: &Path) -> PathBuf {
    let flat: String = path.to_string_lossy().replace('/', "-");
    PathBuf::from(format!("{}{}-{flat}", layout::TEMP_PREFIX, std::process::id()))
}

/// Removes temporary files that crashes left. Whoever holds the store lock is the only writer.
///
/// # Errors
/// When the store's folder cannot be read or a file not be removed.
pub fn sweep(_lock: &StoreLock<'_>, disk: &dyn Disk) -> Result<(), StoreError> {
    let entries = disk.list(Path::new("")).map_err(|e| StoreError::io("list", "", e))?;
    for entry in entries {
        if entry.kind == Kind::File && entry.name.starts_with(layout::TEMP_PREFIX) {
            let path = Path::new(&entry.name);
            disk.remove_file(path).map_err(|e| StoreError::io("remove", path, e))?;
        }
    }
    Ok(())
}
