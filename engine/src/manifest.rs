//! Manifest: the atomic list of live files (`format-spec/log.md`, Manifest).
//!
//! Finds, reads and replaces manifests; the listed files are opened elsewhere.

mod contents;
mod json;
#[cfg(test)]
mod tests;
mod view;

use std::io;

use crate::error::{CorruptionError, DiskError, OpenError};
use crate::layout::{self, FileKind};
use crate::limits::MANIFEST_BYTES_MAX;
use crate::os::disk::{self, Disk};
pub use contents::{ListedFile, Model};
pub(crate) use contents::{Manifest, READ_VERSION, SegmentEntry, StateEntry, WRITE_VERSION};
pub use json::hex;
pub use view::ManifestView;

impl Manifest {
    /// Reads the newest manifest among `names`; returns the manifest and its length, or `None` if there is no manifest.
    pub(crate) fn newest(
        disk: &dyn Disk,
        names: &[String],
    ) -> Result<Option<(Self, u64)>, OpenError> {
        Self::newest_number(names).map(|number| Self::read(disk, number)).transpose()
    }

    /// Number of the newest manifest among `names`.
    pub(crate) fn newest_number(names: &[String]) -> Option<u64> {
        names.iter().filter_map(|name| layout::file_number(FileKind::Manifest, name)).max()
    }

    /// Reads manifest `number`; returns the manifest and its length.
    pub(crate) fn read(disk: &dyn Disk, number: u64) -> Result<(Self, u64), OpenError> {
        let name = layout::file_name(FileKind::Manifest, number);
        let bytes = disk.read(&name, MANIFEST_BYTES_MAX)?;
        let manifest = json::decode(&name, &bytes)?;
        if manifest.number != number {
            let detail = format!("it says that it is number {}", manifest.number);
            return Err(CorruptionError::new("MAN-02", detail).in_file(&name).into());
        }
        Ok((manifest, bytes.len() as u64))
    }

    /// Writes this manifest, which is then the current one, and returns the file's bytes. A manifest that could not be
    /// read back is rejected before the write.
    pub(crate) fn install(&self, disk: &dyn Disk) -> Result<Vec<u8>, DiskError> {
        let name = layout::file_name(FileKind::Manifest, self.number);
        let refuse = |why: String| DiskError::new("write", &name, io::Error::other(why));
        if !self.can_write() {
            return Err(refuse(format!("the store needs version {}", self.write_version)));
        }
        self.check().map_err(|damage| refuse(damage.to_string()))?;
        let bytes = self.encode();
        disk::write_atomically(disk, &name, &bytes)?;
        Ok(bytes)
    }
}
