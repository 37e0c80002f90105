//! Indexing: builds an IVF index for one sealed segment after another, beside readers and writers.
//!
//! Decides when an index file is written and how it is installed; the index contents come from `index/`. A lost index
//! costs only time, so no failure here stops the writer.

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

/// Result of one indexing step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Indexed {
    /// A segment got an index.
    Made {
        /// Indexed embeddings.
        rows: u32,
    },
    /// Every segment that benefits from an index has one, or the store does not search through indexes.
    Nothing,
    /// A segment needs an index, but the disk has too little free space.
    NoRoom {
        /// Bytes that must be free.
        wanted: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The throttle cancelled the step, or the segment was replaced meanwhile.
    Cancelled,
}

impl Store {
    /// Builds an index for one sealed segment without one, if the store searches through indexes
    /// ([`crate::Searching`]). Readers and writers continue meanwhile. After a crash the segment has an index or none.
    /// If a complete index file exists already, it is installed as is. No index is built that would leave less than
    /// [`COMPACT_FREE_BYTES_MIN`] free.
    ///
    /// # Errors
    /// Corruption of the segment, which then gets no index until the store is reopened, or a failed write of the file.
    /// No such error stops the writer.
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
        // An erasure holds this lock for its whole run, so erased bytes cannot come back through this index.
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

    /// Installs the index: searches of the segment use it from now on.
    fn take_lists(&self, of: &IndexOf, part: &Part, lists: Lists) -> Indexed {
        part.segment.take_index(lists);
        self.count_bytes();
        Indexed::Made { rows: of.rows }
    }

    /// Writes the index file; returns false if its segment was replaced meanwhile. The caller holds the `compacting`
    /// lock.
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

/// Writes and syncs an index under its unfinished name. The final name need not survive a power cut, so names are not
/// synced.
fn write(disk: &dyn Disk, of: &IndexOf, bytes: &[u8]) -> Result<(), DiskError> {
    let file = disk.create(&format!("{}{UNFINISHED}", of.name()))?;
    bytes.chunks(HUGE_PAGE_BYTES).try_for_each(|piece| file.append(piece))?;
    file.sync()
}
