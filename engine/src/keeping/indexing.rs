//! Indexing: one sealed segment after another gets an index, while others read and write.
//!
//! Owns when the file of an index is written and how it takes its place; which rows stand in it is
//! `index/`'s. An index that is lost costs time only, so nothing here stops the writer.

use kernels::Kernels;

use crate::error::{Damage, DiskError, OpenError, WriteError};
use crate::index::{self, IndexOf, Lists};
use crate::layout::UNFINISHED;
use crate::os::disk::Disk;
use crate::pace::Pace;
use crate::store::Store;

/// What one step of indexing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexed {
    /// A segment got an index over so many rows.
    Made {
        /// Embeddings.
        rows: u32,
    },
    /// Each segment that gains by an index has one, or none is wanted.
    Nothing,
    /// The pace ended it, or the segment went meanwhile.
    Cancelled,
}

impl Store {
    /// Makes an index for one sealed segment that has none, if the store is searched through them
    /// ([`crate::Searching`]). Readers and writers go on meanwhile; a crash at any moment leaves the segment
    /// with an index or without.
    ///
    /// # Errors
    /// Damage of the segment, or a file that could not be written; neither stops the writer.
    pub fn index(&self, pace: &dyn Pace) -> Result<Indexed, WriteError> {
        let Some((of, part)) = self.writer()?.to_index() else { return Ok(Indexed::Nothing) };
        let made = index::make(Kernels::detect(), &part.segment, &of, pace)?;
        let Some(bytes) = made else { return Ok(Indexed::Cancelled) };
        // An erasure holds this for as long as it runs: what it removes cannot come back meanwhile.
        let _alone = self.compacting.take();
        if !self.put_index(&of, &bytes)? {
            return Ok(Indexed::Cancelled);
        }
        let disk = &*self.ground.disk;
        let lists = Lists::open(disk, &of).map_err(|error| match error {
            OpenError::Disk(error) => WriteError::postponed(&error),
            other => Damage::new("IDX-07", other.to_string()).into(),
        })?;
        let Some(lists) = lists else { return Ok(Indexed::Cancelled) };
        part.segment.take_index(lists);
        self.count_bytes();
        Ok(Indexed::Made { rows: of.rows })
    }

    /// Writes the file; gives whether its segment was still there. The caller has the turn.
    fn put_index(&self, of: &IndexOf, bytes: &[u8]) -> Result<bool, WriteError> {
        let disk = &*self.ground.disk;
        let written = write(disk, of, bytes);
        let mut writer = self.writer()?;
        if let Err(error) = written {
            writer.abandon_index(disk, of);
            return Err(WriteError::postponed(&error));
        }
        writer.install_index(disk, of).map_err(|error| WriteError::postponed(&error))
    }
}

/// Brings an index to disk under the name of a file that is being written. Its own name need not
/// survive a power cut, so names are not synced.
fn write(disk: &dyn Disk, of: &IndexOf, bytes: &[u8]) -> Result<(), DiskError> {
    let file = disk.create(&format!("{}{UNFINISHED}", of.name()))?;
    file.append(bytes)?;
    file.sync()
}
