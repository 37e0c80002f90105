//! Contents of a manifest, and the checks of their consistency.

use std::collections::{BTreeSet, HashSet};

use crate::error::{CorruptionError, WriteError};
use crate::ids::{Seq, StoreId};
use crate::layout::{self, FileKind};
use crate::limits::{DIMENSIONS_MAX, ERASURES_PENDING_MAX, LOGS_MAX, SEGMENTS_MAX};
use crate::os::clock::Micros;
use crate::segment::SegmentHeader;

/// Minimum reader version of the logs, manifests and states that this build writes; also the newest version that this
/// build reads.
pub(crate) const READ_VERSION: u16 = 2;
/// Minimum version of a build that may write to a store beside these files.
pub(crate) const WRITE_VERSION: u16 = 2;

/// Largest allowed number in a manifest, so that neither a number plus 1 nor a sum of two overflows.
pub(super) const NUMBER_MAX: u64 = i64::MAX as u64;

/// Encoder of a store's embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Hash over everything that affects the encoder's output.
    pub fingerprint: [u8; 32],
    /// Number of dimensions of an embedding.
    pub dimensions: u32,
}

impl Model {
    /// Rejects a number of dimensions that no store supports.
    pub(crate) fn check(&self) -> Result<(), WriteError> {
        if (1..=DIMENSIONS_MAX).contains(&self.dimensions) {
            return Ok(());
        }
        let why = format!("{} wide; 1 to {DIMENSIONS_MAX} is allowed", self.dimensions);
        Err(WriteError::refused("model", why))
    }
}

/// Manifest entry of a state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateEntry {
    pub(crate) generation: u64,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

/// Manifest entry of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentEntry {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
    pub(crate) items: u32,
    pub(crate) sources: u32,
    pub(crate) edges: u32,
    pub(crate) tombstones: u32,
    pub(crate) vectors: u32,
    /// Dimensions of the embeddings; 0 if there are none.
    pub(crate) dimensions: u32,
    pub(crate) first_seq: Seq,
    pub(crate) last_seq: Seq,
    pub(crate) state: Option<StateEntry>,
}

impl SegmentEntry {
    /// Builds the entry of a segment file without a state.
    pub(crate) fn new(number: u64, bytes: u64, sha256: [u8; 32], header: &SegmentHeader) -> Self {
        Self {
            number,
            bytes,
            sha256,
            items: header.items,
            sources: header.sources,
            edges: header.edges,
            tombstones: header.tombstones,
            vectors: header.vectors,
            dimensions: if header.vectors == 0 { 0 } else { header.dimensions },
            first_seq: header.first_seq,
            last_seq: header.last_seq,
            state: None,
        }
    }

    fn state_name(&self, state: &StateEntry) -> String {
        layout::state_name(self.number, state.generation)
    }
}

/// File listed in a manifest with its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// File name.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Minimum version of a build that can read the store; files are written with this build's version.
    pub(crate) read_version: u16,
    /// Minimum version of a build that may write to the store.
    pub(crate) write_version: u16,
    pub(crate) number: u64,
    pub(crate) store: StoreId,
    pub(crate) created_at: Micros,
    pub(crate) last_seq: Seq,
    /// Newest commit known to be on disk, in segments or logs.
    pub(crate) synced_seq: Seq,
    pub(crate) log_floor: u64,
    pub(crate) next_file: u64,
    pub(crate) model: Option<Model>,
    pub(crate) segments: Vec<SegmentEntry>,
    /// Numbers of the logs that must exist, ascending.
    pub(crate) logs: Vec<u64>,
    /// Ids pending erasure.
    pub(crate) erasures: BTreeSet<u128>,
}

impl Manifest {
    /// Initial manifest of an empty store.
    pub(crate) fn initial(store: StoreId, created_at: Micros) -> Self {
        Self {
            read_version: READ_VERSION,
            write_version: WRITE_VERSION,
            number: 1,
            store,
            created_at,
            last_seq: 0,
            synced_seq: 0,
            log_floor: 1,
            next_file: 1,
            model: None,
            segments: Vec::new(),
            logs: Vec::new(),
            erasures: BTreeSet::new(),
        }
    }

    /// Listed segments and states, in commit order.
    pub(crate) fn listed_files(&self) -> impl Iterator<Item = ListedFile> {
        self.segments.iter().flat_map(|entry| {
            let name = layout::file_name(FileKind::Segment, entry.number);
            let segment = ListedFile { name, bytes: entry.bytes, sha256: entry.sha256 };
            let state = entry.state.as_ref().map(|state| ListedFile {
                name: entry.state_name(state),
                bytes: state.bytes,
                sha256: state.sha256,
            });
            std::iter::once(segment).chain(state)
        })
    }

    /// Returns the names of store files that the manifest does not need. Unfinished files are not included.
    pub(crate) fn obsolete_files<'a>(&self, names: &'a [String]) -> Vec<&'a str> {
        let indexes = self.segments.iter().map(|it| layout::file_name(FileKind::Index, it.number));
        let needed: HashSet<String> =
            self.listed_files().map(|file| file.name).chain(indexes).collect();
        let below =
            |kind, name: &str, bound| layout::file_number(kind, name).is_some_and(|n| n < bound);
        let is_left = |name: &&str| {
            below(FileKind::Log, name, self.log_floor)
                || below(FileKind::Manifest, name, self.number)
                || layout::is_segment_data(name) && !needed.contains(*name)
        };
        names.iter().map(String::as_str).filter(is_left).collect()
    }

    /// Returns true if this build may write to the store, not only read it.
    pub(crate) fn can_write(&self) -> bool {
        self.write_version <= WRITE_VERSION
    }

    /// Checks lengths of lists (MAN-02), the order of segments (MAN-04) and consistency (MAN-06).
    pub(super) fn check(&self) -> Result<(), CorruptionError> {
        check_at_most("segments", self.segments.len(), SEGMENTS_MAX)?;
        check_at_most("logs", self.logs.len(), LOGS_MAX)?;
        check_at_most("erasures", self.erasures.len(), ERASURES_PENDING_MAX)?;
        self.check_order()?;
        self.check_sizes()?;
        self.check_numbers()?;
        if self.erasures.contains(&0) {
            return Err(inconsistent("an erasure is 0"));
        }
        self.segments.iter().try_for_each(|entry| self.check_dimensions(entry))
    }

    /// Checks that segments are in commit order, and that `last_seq` and `synced_seq` cover them.
    fn check_order(&self) -> Result<(), CorruptionError> {
        let mut last = 0;
        for entry in &self.segments {
            if entry.first_seq <= last || entry.last_seq < entry.first_seq {
                let detail = format!("segment {} is out of commit order", entry.number);
                return Err(CorruptionError::new("MAN-04", detail));
            }
            last = entry.last_seq;
        }
        if self.last_seq < last {
            let detail = format!("last_seq is {}, a segment has commit {last}", self.last_seq);
            return Err(inconsistent(detail));
        }
        if self.synced_seq < self.last_seq {
            let detail = format!("synced_seq {} is below last_seq", self.synced_seq);
            return Err(inconsistent(detail));
        }
        Ok(())
    }

    /// Checks that all numbers are small enough to increment without overflow.
    fn check_sizes(&self) -> Result<(), CorruptionError> {
        let states = self.segments.iter().filter_map(|entry| entry.state.as_ref());
        let largest = [self.number, self.synced_seq, self.next_file];
        let generations = states.clone().map(|state| state.generation);
        if let Some(number) = largest.into_iter().chain(generations).find(|&n| n > NUMBER_MAX) {
            return Err(inconsistent(format!("{number} is above {NUMBER_MAX}")));
        }
        let lengths = self.segments.iter().map(|entry| entry.bytes);
        let mut lengths = lengths.chain(states.map(|state| state.bytes));
        let sum = lengths.try_fold(0u64, u64::checked_add);
        if sum.is_none_or(|sum| sum > NUMBER_MAX) {
            return Err(inconsistent(format!(
                "the files together are longer than {NUMBER_MAX} bytes"
            )));
        }
        Ok(())
    }

    /// Checks that file numbers are unique and below `next_file`.
    fn check_numbers(&self) -> Result<(), CorruptionError> {
        if self.log_floor > self.next_file {
            let detail = format!("log_floor {} is above next_file", self.log_floor);
            return Err(inconsistent(detail));
        }
        if !self.logs.is_sorted_by(|one, next| one < next) {
            return Err(inconsistent("logs do not ascend"));
        }
        if self.logs.first().is_some_and(|&first| first < self.log_floor) {
            return Err(inconsistent(format!("a log is below log_floor {}", self.log_floor)));
        }
        let mut taken = BTreeSet::new();
        let segments = self.segments.iter().map(|entry| entry.number);
        for number in segments.chain(self.logs.iter().copied()) {
            if number >= self.next_file {
                let detail = format!("file {number} is not below next_file {}", self.next_file);
                return Err(inconsistent(detail));
            }
            if !taken.insert(number) {
                return Err(inconsistent(format!("two files have number {number}")));
            }
        }
        Ok(())
    }

    fn check_dimensions(&self, entry: &SegmentEntry) -> Result<(), CorruptionError> {
        let wanted = match (entry.vectors, self.model) {
            (0, _) => 0,
            (_, Some(model)) => model.dimensions,
            (_, None) => {
                let detail =
                    format!("segment {} has embeddings, but no model made them", entry.number);
                return Err(inconsistent(detail));
            }
        };
        if entry.dimensions != wanted {
            let detail = format!(
                "embeddings of segment {} are {} wide, {wanted} is right",
                entry.number, entry.dimensions
            );
            return Err(inconsistent(detail));
        }
        Ok(())
    }
}

pub(super) fn check_at_most(
    what: &str,
    found: usize,
    allowed: usize,
) -> Result<(), CorruptionError> {
    if found <= allowed {
        return Ok(());
    }
    Err(CorruptionError::new("MAN-02", format!("{found} {what}, at most {allowed} are allowed")))
}

pub(super) fn inconsistent(detail: impl Into<String>) -> CorruptionError {
    CorruptionError::new("MAN-06", detail)
}
