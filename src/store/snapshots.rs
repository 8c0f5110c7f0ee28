//! Pinned workflows, named by the SHA-256 of their bytes and checked against it whenever they are read.

use std::{io, path::Path};

use super::{StoreError, atomic, disk::Disk, layout, lock::StoreLock};
use crate::domain::ids::Digest;

/// Pins the bytes of a workflow file. Pinning the same bytes again changes nothing, and puts a missing or
/// altered snapshot right.
///
/// # Errors
/// When it cannot be written.
pub fn pin(lock: &StoreLock<'_>, disk: &dyn Disk, text: &[u8]) -> Result<Digest, StoreError> {
    let digest = Digest::of(text);
    let path = layout::workflow(&digest);
    if disk.read(&path).is_ok_and(|found| found == text) {
        // A command may have died between the rename and its sync.
        let folder = Path::new(layout::WORKFLOWS);
        disk.sync_dir(folder).map_err(|e| StoreError::io("sync", folder, e))?;
        return Ok(digest);
    }
    atomic::write(lock, disk, &path, text)?;
    Ok(digest)
}

/// The bytes of a pinned workflow.
///
/// # Errors
/// [`StoreError::Snapshot`] when it is missing or altered.
pub fn load(disk: &dyn Disk, digest: &Digest) -> Result<String, StoreError> {
    let path = layout::workflow(digest);
    let bytes = match disk.read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::Snapshot { path, why: "it is missing".to_owned() });
        }
        Err(e) => return Err(StoreError::Snapshot { path, why: format!("it cannot be read: {e}") }),
    };
    if Digest::of(&bytes) != *digest {
        return Err(StoreError::Snapshot { path, why: "its content was altered".to_owned() });
    }
    String::from_utf8(bytes).map_err(|_| StoreError::Snapshot { path, why: "it is not UTF-8".to_owned() })
}
