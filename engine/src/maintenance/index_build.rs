//! Indexing: builds an IVF index for one sealed segment after another, beside readers and writers.
//!
//! Decides when an index file is written and how it is installed; the index contents come from `index/`. A lost index
//! costs only time, so no failure here stops the writer.

use kernels::Kernels;

use crate::error::{CorruptionError, DiskError, OpenError, WriteError};
use crate::layout::UNFINISHED_SUFFIX;
use crate::limits::COMPACT_FREE_BYTES_MIN;
use crate::os::disk::Disk;
use crate::os::mmap::HUGE_PAGE_BYTES;
use crate::segment_snapshot::SegmentSnapshot;
use crate::store::Store;
use crate::throttle::Throttle;
use crate::vector_index::{self, IndexKey, IvfIndex};

/// Result of one indexing step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexOutcome {
    /// A segment got an index.
    Built {
        /// Indexed embeddings.
        rows: u32,
    },
    /// Every segment that benefits from an index has one, or the store does not search through indexes.
    NothingToDo,
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
    /// ([`crate::AnnPolicy`]). Readers and writers continue meanwhile. After a crash the segment has an index or none.
    /// If a complete index file exists already, it is installed as is. No index is built that would leave less than
    /// [`COMPACT_FREE_BYTES_MIN`] free.
    ///
    /// # Errors
    /// Corruption of the segment, which then gets no index until the store is reopened, or a failed write of the file.
    /// No such error stops the writer.
    pub fn build_next_index(&self, pace: &dyn Throttle) -> Result<IndexOutcome, WriteError> {
        let Some((of, part)) = self.writer()?.next_to_index() else {
            return Ok(IndexOutcome::NothingToDo);
        };
        let done = self.build_index(&of, &part, pace);
        if let Err(WriteError::Damaged(_)) = done {
            self.writer()?.mark_unindexable(&of);
        }
        done
    }

    fn build_index(
        &self,
        of: &IndexKey,
        part: &SegmentSnapshot,
        pace: &dyn Throttle,
    ) -> Result<IndexOutcome, WriteError> {
        let disk = &*self.env.disk;
        if let Ok(Some(lists)) = IvfIndex::open(disk, of) {
            return Ok(self.install_index(of, part, lists));
        }
        let too_long = || CorruptionError::new("IDX-06", "an index of it would not fit memory");
        let wanted = vector_index::file_bytes(of).ok_or_else(too_long)? + COMPACT_FREE_BYTES_MIN;
        let free = disk.free_bytes().map_err(|error| WriteError::postponed(&error))?;
        if free < wanted {
            return Ok(IndexOutcome::NoRoom { wanted, free });
        }
        part.segment.ensure_complete()?;
        let made = vector_index::build(Kernels::detect(), &part.segment, of, pace)?;
        let Some(bytes) = made else { return Ok(IndexOutcome::Cancelled) };
        // An erasure holds this lock for its whole run, so erased bytes cannot come back through this index.
        let _alone = self.rewriting.lock();
        if !self.write_index(of, &bytes)? {
            return Ok(IndexOutcome::Cancelled);
        }
        let lists = IvfIndex::open(disk, of).map_err(|error| match error {
            OpenError::Disk(error) => WriteError::postponed(&error),
            OpenError::Damaged(damage) => damage.into(),
            other => CorruptionError::new("IDX-07", other.to_string()).into(),
        })?;
        Ok(lists.map_or(IndexOutcome::Cancelled, |lists| self.install_index(of, part, lists)))
    }

    /// Installs the index: searches of the segment use it from now on.
    fn install_index(
        &self,
        of: &IndexKey,
        part: &SegmentSnapshot,
        lists: IvfIndex,
    ) -> IndexOutcome {
        part.segment.install_index(lists);
        self.refresh_bytes_on_disk();
        IndexOutcome::Built { rows: of.rows }
    }

    /// Writes the index file; returns false if its segment was replaced meanwhile. The caller holds the `rewriting`
    /// lock.
    fn write_index(&self, of: &IndexKey, bytes: &[u8]) -> Result<bool, WriteError> {
        let disk = &*self.env.disk;
        let written = write_index_file(disk, of, bytes);
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
fn write_index_file(disk: &dyn Disk, of: &IndexKey, bytes: &[u8]) -> Result<(), DiskError> {
    let file = disk.create(&format!("{}{UNFINISHED_SUFFIX}", of.file_name()))?;
    bytes.chunks(HUGE_PAGE_BYTES).try_for_each(|piece| file.append(piece))?;
    file.sync()
}
