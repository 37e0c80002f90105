//! Indexing: one sealed segment after another gets an index, while others read and write.
//!
//! Owns when the file of an index is written and how it takes its place; which rows stand in it is
//! `index/`'s. An index that is lost costs time only, so nothing here stops the writer.

use kernels::Kernels;

use crate::error::{Damage, DiskError, OpenError, WriteError};
use crate::index::{self, IndexOf, Lists};
use crate::layout::UNFINISHED;
use crate::limits::COMPACT_FREE_BYTES_MIN;
use crate::os::disk::Disk;
use crate::os::mmap::HUGE_PAGE_BYTES;
use crate::pace::Pace;
use crate::part::Part;
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
    /// A segment is to get one, but the disk has too little room for it.
    NoRoom {
        /// Bytes that must be free.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The pace ended it, or the segment went meanwhile.
    Cancelled,
}

impl Store {
    /// Makes an index for one sealed segment that has none, if the store is searched through them
    /// ([`crate::Searching`]). Readers and writers go on meanwhile; a crash at any moment leaves the segment
    /// with an index or without. A whole file that lies there already is taken as it is. Nothing is begun
    /// that would leave less than [`COMPACT_FREE_BYTES_MIN`] free.
    ///
    /// # Errors
    /// Damage of the segment, which gets no index then until the store is opened again, or a file that
    /// could not be written; neither stops the writer.
    pub fn index(&self, pace: &dyn Pace) -> Result<Indexed, WriteError> {
        let Some((of, part)) = self.writer()?.to_index() else { return Ok(Indexed::Nothing) };
        let done = self.index_of(&of, &part, pace);
        if let Err(WriteError::Damaged(_)) = done {
            self.writer()?.give_up_index(&of);
        }
        done
    }

    fn index_of(&self, of: &IndexOf, part: &Part, pace: &dyn Pace) -> Result<Indexed, WriteError> {
        let disk = &*self.ground.disk;
        if let Ok(Some(lists)) = Lists::open(disk, of) {
            return Ok(self.take_lists(of, part, lists));
        }
        let too_long = || Damage::new("IDX-06", "an index of it would not fit memory");
        let wanted = index::file_bytes(of).ok_or_else(too_long)? + COMPACT_FREE_BYTES_MIN;
        let free = disk.free_bytes().map_err(|error| WriteError::postponed(&error))?;
        if free < wanted {
            return Ok(Indexed::NoRoom { wanted, free });
        }
        part.segment.whole()?;
        let made = index::make(Kernels::detect(), &part.segment, of, pace)?;
        let Some(bytes) = made else { return Ok(Indexed::Cancelled) };
        // An erasure holds this for as long as it runs: what it removes cannot come back meanwhile.
        let _alone = self.compacting.take();
        if !self.put_index(of, &bytes)? {
            return Ok(Indexed::Cancelled);
        }
        let lists = Lists::open(disk, of).map_err(|error| match error {
            OpenError::Disk(error) => WriteError::postponed(&error),
            OpenError::Damaged(damage) => damage.into(),
            other => Damage::new("IDX-07", other.to_string()).into(),
        })?;
        Ok(lists.map_or(Indexed::Cancelled, |lists| self.take_lists(of, part, lists)))
    }

    /// Has the segment searched through them.
    fn take_lists(&self, of: &IndexOf, part: &Part, lists: Lists) -> Indexed {
        part.segment.take_index(lists);
        self.count_bytes();
        Indexed::Made { rows: of.rows }
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
    bytes.chunks(HUGE_PAGE_BYTES).try_for_each(|piece| file.append(piece))?;
    file.sync()
}
