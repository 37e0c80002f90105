//! Reading a ledger while it is being written: a fixed end, and entries up to it.

use std::path::{Path, PathBuf};

use super::entry::{Entry, Hash, ReceiptId};
use super::error::ReadError;
use super::layout::HEADER_BYTES;
use super::walk::{Step, Volume, Walk, volumes};

/// A ledger as far as it went when the reader was made. Holds no file open and takes no lock.
#[derive(Debug, Clone)]
pub struct Reader {
    volumes: Vec<Volume>,
}

impl Reader {
    /// Everything in `folder` as it is now. A writer in the middle of an append looks like a torn
    /// tail; beside a writer of the same process, use [`super::Ledger::reader`].
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        Ok(Self { volumes: volumes(folder)? })
    }

    /// The same, but the volume at `last` ends at `bytes`.
    pub(super) fn up_to(folder: &Path, last: &PathBuf, bytes: u64) -> Result<Self, ReadError> {
        let mut volumes = volumes(folder)?;
        volumes.retain(|volume| volume.path <= *last);
        if let Some(volume) = volumes.last_mut() {
            volume.bytes = volume.bytes.min(bytes);
        }
        Ok(Self { volumes })
    }

    /// The files that hold it, oldest first, and how many bytes of each: what a copy takes.
    pub fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.volumes().map(|(_, path, bytes)| (path, bytes))
    }

    /// The same files, each with its first entry.
    pub fn volumes(&self) -> impl Iterator<Item = (u64, &Path, u64)> {
        self.volumes.iter().map(|volume| (volume.first_seq, volume.path.as_path(), volume.bytes))
    }

    /// The entries from `from_seq` on, oldest first, each checked against the one before. Ends
    /// before a torn tail; stops at the first damage, with an error.
    pub fn entries(&self, from_seq: u64) -> Result<Entries, ReadError> {
        Ok(Entries { walk: Some(self.walk_from(from_seq)?), from_seq })
    }

    /// Whether nothing was written to it yet: all that there is of it is the header of its first volume.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let is_blank =
            |volume: &Volume| volume.first_seq == 1 && volume.bytes <= HEADER_BYTES as u64;
        self.volumes.iter().all(is_blank)
    }

    /// The hash of its first entry, which tells one ledger from another; `None` where it has no entry.
    ///
    /// # Errors
    /// It cannot be read, or its beginning is damaged.
    pub fn first_hash(&self) -> Result<Option<Hash>, ReadError> {
        let mut walk = self.walk_from(1)?;
        loop {
            match walk.step()? {
                Step::Entry(_) => return Ok(walk.volume().map(|volume| volume.chain.head)),
                Step::Checkpoint(_) => {}
                Step::End | Step::Torn { .. } => return Ok(None),
            }
        }
    }

    /// The entry with this receipt. Reads the ledger from its start: rare enough a
    /// question that there is no index to keep true.
    pub fn find(&self, receipt: &ReceiptId) -> Result<Option<Entry>, ReadError> {
        self.entries(1)?
            .find(|entry| entry.as_ref().map_or(true, |entry| entry.receipt == *receipt))
            .transpose()
    }

    /// A walk that starts with the volume that holds `from_seq`.
    pub(super) fn walk_from(&self, from_seq: u64) -> Result<Walk, ReadError> {
        let after = self.volumes.partition_point(|volume| volume.first_seq <= from_seq);
        Walk::open(self.volumes.get(after.saturating_sub(1)..).unwrap_or_default().to_vec())
    }
}

/// Entries in order; see [`Reader::entries`].
#[derive(Debug)]
pub struct Entries {
    walk: Option<Walk>,
    from_seq: u64,
}

impl Iterator for Entries {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.walk.as_mut()?.step() {
                Ok(Step::Entry(entry)) if entry.seq >= self.from_seq => return Some(Ok(entry)),
                Ok(Step::Entry(_) | Step::Checkpoint(_)) => {}
                Ok(Step::End | Step::Torn { .. }) => self.walk = None,
                Err(error) => {
                    self.walk = None;
                    return Some(Err(error));
                }
            }
        }
    }
}
