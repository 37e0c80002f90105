//! Reading a ledger during writes: entries up to a fixed end.

use std::path::{Path, PathBuf};

use super::entry::{Entry, Hash, ReceiptId};
use super::error::ReadError;
use super::layout::HEADER_BYTES;
use super::scan::{LedgerScan, ScanStep, Volume, volumes};

/// Ledger up to the end that was current at the reader's creation. A reader keeps no file open and acquires no lock.
#[derive(Debug, Clone)]
pub struct LedgerReader {
    volumes: Vec<Volume>,
}

impl LedgerReader {
    /// Opens a reader of everything in `folder` at present. An append in progress looks like a torn tail: if the writer
    /// is in the same process, use [`super::Ledger::reader`].
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        Ok(Self { volumes: volumes(folder)? })
    }

    /// Opens a reader of everything in `folder` up to byte `bytes` of the volume at `last`.
    pub(super) fn open_up_to(folder: &Path, last: &PathBuf, bytes: u64) -> Result<Self, ReadError> {
        let mut volumes = volumes(folder)?;
        volumes.retain(|volume| volume.path <= *last);
        if let Some(volume) = volumes.last_mut() {
            volume.bytes = volume.bytes.min(bytes);
        }
        Ok(Self { volumes })
    }

    /// Files of the ledger, oldest first, each with the number of bytes to copy.
    pub fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.volumes().map(|(_, path, bytes)| (path, bytes))
    }

    /// Files of the ledger, oldest first: sequence number of the first entry, path and number of bytes.
    pub fn volumes(&self) -> impl Iterator<Item = (u64, &Path, u64)> {
        self.volumes.iter().map(|volume| (volume.first_seq, volume.path.as_path(), volume.bytes))
    }

    /// Returns the entries from `from_seq` on, oldest first, each verified against its predecessor. The iterator ends
    /// before a torn tail; at the first damage it returns an error and ends.
    pub fn entries(&self, from_seq: u64) -> Result<Entries, ReadError> {
        Ok(Entries { walk: Some(self.walk_from(from_seq)?), from_seq })
    }

    /// Returns true if the ledger has at most the header of its first volume.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_blank =
            |volume: &Volume| volume.first_seq == 1 && volume.bytes <= HEADER_BYTES as u64;
        self.volumes.iter().all(is_blank)
    }

    /// Returns the hash of the first entry, which identifies the ledger; `None` if there is no entry.
    ///
    /// # Errors
    /// The ledger cannot be read, or its beginning is damaged.
    pub fn first_hash(&self) -> Result<Option<Hash>, ReadError> {
        let mut walk = self.walk_from(1)?;
        loop {
            match walk.step()? {
                ScanStep::Entry(_) => return Ok(walk.volume().map(|volume| volume.chain.head)),
                ScanStep::Checkpoint(_) => {}
                ScanStep::End | ScanStep::Torn { .. } => return Ok(None),
            }
        }
    }

    /// Returns the entry with this receipt id. Scans the ledger from its start: the query is too rare to maintain an
    /// index.
    pub fn find(&self, receipt: &ReceiptId) -> Result<Option<Entry>, ReadError> {
        self.entries(1)?
            .find(|entry| entry.as_ref().map_or(true, |entry| entry.receipt == *receipt))
            .transpose()
    }

    /// Starts a scan at the volume that contains `from_seq`.
    pub(super) fn walk_from(&self, from_seq: u64) -> Result<LedgerScan, ReadError> {
        let after = self.volumes.partition_point(|volume| volume.first_seq <= from_seq);
        LedgerScan::open(self.volumes.get(after.saturating_sub(1)..).unwrap_or_default().to_vec())
    }
}

/// Iterator over entries in order; see [`LedgerReader::entries`].
#[derive(Debug)]
pub struct Entries {
    walk: Option<LedgerScan>,
    from_seq: u64,
}

impl Iterator for Entries {
    type Item = Result<Entry, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.walk.as_mut()?.step() {
                Ok(ScanStep::Entry(entry)) if entry.seq >= self.from_seq => return Some(Ok(entry)),
                Ok(ScanStep::Entry(_) | ScanStep::Checkpoint(_)) => {}
                Ok(ScanStep::End | ScanStep::Torn { .. }) => self.walk = None,
                Err(error) => {
                    self.walk = None;
                    return Some(Err(error));
                }
            }
        }
    }
}
