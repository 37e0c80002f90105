//! Row state of a sealed segment: its tombstoned and superseded rows (`format-spec/log.md`, State file).
//!
//! Segments never change, so the state is stored beside them. A state is copied for every write that retires a row; its
//! bits are in shared chunks, so a copy costs one pointer per 4,096 rows.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::byte_reader::{ByteReader, ByteWriter};
use crate::error::{CorruptionError, OpenError};
use crate::fulltext::RowSet;
use crate::ids::Row;
use crate::layout;
use crate::manifest::{READ_VERSION, StateEntry, WRITE_VERSION};

const CHUNK_WORDS: usize = 64;
const CHUNK_ROWS: usize = CHUNK_WORDS * 64;
const HEADER_BYTES: usize = 64;
/// Offset of `header_crc`, in every version.
const HEADER_CRC: usize = 60;

type Chunk = [u64; CHUNK_WORDS];

/// Set of rows. A clone shares all chunks; setting a bit copies one chunk.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowBitmap {
    chunks: Vec<Option<Arc<Chunk>>>,
    cardinality: u32,
}

impl RowBitmap {
    pub(crate) fn empty(rows: usize) -> Self {
        Self { chunks: vec![None; rows.div_ceil(CHUNK_ROWS)], cardinality: 0 }
    }

    pub(crate) fn contains(&self, row: Row) -> bool {
        let row = row as usize;
        match self.chunks.get(row / CHUNK_ROWS) {
            Some(Some(chunk)) => chunk[row % CHUNK_ROWS / 64] >> (row % 64) & 1 == 1,
            _ => false,
        }
    }

    /// Adds `row`; returns `false` if it was in the set already.
    pub(crate) fn insert(&mut self, row: Row) -> bool {
        if self.contains(row) {
            return false;
        }
        let at = row as usize;
        make_mut(&mut self.chunks[at / CHUNK_ROWS])[at % CHUNK_ROWS / 64] |= 1 << (at % 64);
        self.cardinality += 1;
        true
    }

    pub(crate) fn count(&self) -> u32 {
        self.cardinality
    }

    /// Number of rows that are not in `other`.
    pub(crate) fn difference_count(&self, other: &Self) -> u32 {
        let alone = |(chunk, at): (&Arc<Chunk>, usize)| match other.chunks.get(at) {
            Some(Some(theirs)) => {
                chunk.iter().zip(theirs.iter()).map(|(a, b)| (a & !b).count_ones()).sum()
            }
            _ => chunk.iter().map(|word| word.count_ones()).sum::<u32>(),
        };
        let there = self.chunks.iter().enumerate();
        there.filter_map(|(at, chunk)| Some((chunk.as_ref()?, at))).map(alone).sum()
    }

    /// First row of the set at or after `row`.
    pub(crate) fn next_set(&self, row: Row) -> Option<Row> {
        let mut at = row as usize;
        while let Some(chunk) = self.chunks.get(at / CHUNK_ROWS) {
            let end = (at / CHUNK_ROWS + 1) * CHUNK_ROWS;
            let Some(chunk) = chunk else {
                at = end;
                continue;
            };
            while at < end {
                let rest = chunk[at % CHUNK_ROWS / 64] >> (at % 64);
                if rest != 0 {
                    return Row::try_from(at + rest.trailing_zeros() as usize).ok();
                }
                at = (at / 64 + 1) * 64;
            }
        }
        None
    }

    fn words(rows: usize) -> usize {
        rows.div_ceil(64)
    }

    fn write(&self, rows: usize, out: &mut Vec<u8>) {
        for word in 0..Self::words(rows) {
            let chunk = &self.chunks[word / CHUNK_WORDS];
            let bits = chunk.as_ref().map_or(0, |chunk| chunk[word % CHUNK_WORDS]);
            out.put(&bits.to_le_bytes());
        }
    }

    fn read(rows: usize, cursor: &mut ByteReader<'_>) -> Result<Self, CorruptionError> {
        let mut bits = Self::empty(rows);
        for word in 0..Self::words(rows) {
            let value = cursor.u64()?;
            let in_word = (rows - word * 64).min(64);
            if in_word < 64 && value >> in_word != 0 {
                return Err(cursor.damage("a padding bit is set"));
            }
            if value != 0 {
                make_mut(&mut bits.chunks[word / CHUNK_WORDS])[word % CHUNK_WORDS] = value;
                bits.cardinality += value.count_ones();
            }
        }
        Ok(bits)
    }
}

impl RowSet for RowBitmap {
    fn has_row(&self, row: Row) -> bool {
        self.contains(row)
    }

    fn next_row_from(&self, row: Row) -> Option<Row> {
        self.next_set(row)
    }
}

/// Returns a chunk for writing, created if missing and copied if shared.
fn make_mut(chunk: &mut Option<Arc<Chunk>>) -> &mut Chunk {
    Arc::make_mut(chunk.get_or_insert_with(|| Arc::new([0; CHUNK_WORDS])))
}

/// Bitmaps of one segment's superseded and tombstoned rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowState {
    pub(crate) tombstoned: RowBitmap,
    pub(crate) superseded: RowBitmap,
    pub(crate) edges_tombstoned: RowBitmap,
}

impl RowState {
    pub(crate) fn empty(items: usize, edges: usize) -> Self {
        Self {
            tombstoned: RowBitmap::empty(items),
            superseded: RowBitmap::empty(items),
            edges_tombstoned: RowBitmap::empty(edges),
        }
    }

    /// Returns true if no row is superseded or tombstoned.
    pub(crate) fn is_empty(&self) -> bool {
        [&self.tombstoned, &self.superseded, &self.edges_tombstoned].iter().all(|b| b.count() == 0)
    }
}

/// Segment and generation of a state file, with the row counts of the segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StateKey {
    pub(crate) segment: u64,
    pub(crate) generation: u64,
    pub(crate) items: u32,
    pub(crate) edges: u32,
}

/// Encoded state file, ready to write.
#[derive(Debug)]
pub(crate) struct StateFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// Manifest entry of the file.
    pub(crate) entry: StateEntry,
}

impl StateFile {
    pub(crate) fn encode(of: StateKey, state: &RowState) -> Self {
        let bytes = encode(of, state);
        let entry = StateEntry {
            generation: of.generation,
            bytes: bytes.len() as u64,
            sha256: Sha256::digest(&bytes).into(),
        };
        Self { name: layout::state_name(of.segment, of.generation), bytes, entry }
    }
}

/// Length of a state file for these row counts.
pub(crate) fn state_file_bytes(items: Row, edges: Row) -> u64 {
    let words = 2 * RowBitmap::words(items as usize) + RowBitmap::words(edges as usize);
    (HEADER_BYTES + words * size_of::<u64>()) as u64
}

/// Encodes a state file.
fn encode(of: StateKey, state: &RowState) -> Vec<u8> {
    let mut body = Vec::new();
    state.tombstoned.write(of.items as usize, &mut body);
    state.superseded.write(of.items as usize, &mut body);
    state.edges_tombstoned.write(of.edges as usize, &mut body);
    let mut file = encode_header(of, &body, (READ_VERSION, WRITE_VERSION)).to_vec();
    file.put(&body);
    file
}

/// Decodes and checks the output of [`encode`] (STA-01).
pub(crate) fn decode(of: StateKey, bytes: &[u8]) -> Result<RowState, OpenError> {
    let name = layout::state_name(of.segment, of.generation);
    let wrong = |what: &str| CorruptionError::new("STA-01", what).in_file(&name);
    let Some((found, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(wrong("shorter than its header").into());
    };
    let mut fields = ByteReader::new(found, "STA-01");
    if &fields.array::<8>()? != layout::STATE_MAGIC {
        return Err(wrong("the magic is missing").into());
    }
    // Checks the checksum before the version, as a flipped version bit must not be reported as a newer format.
    if found[HEADER_CRC..] != crc32c::crc32c(&found[..HEADER_CRC]).to_le_bytes() {
        return Err(wrong("the header's checksum is wrong").into());
    }
    let versions = (fields.u16()?, fields.u16()?);
    if versions.0 > READ_VERSION {
        return Err(OpenError::TooNew { file: name, version: versions.0 });
    }
    if versions.0 == 0 {
        return Err(wrong("there is no version 0").into());
    }
    if encode_header(of, body, versions) != *found {
        return Err(wrong("header or checksum is not that of this segment's state").into());
    }
    let mut cursor = ByteReader::new(body, "STA-01");
    let state = RowState {
        tombstoned: RowBitmap::read(of.items as usize, &mut cursor)?,
        superseded: RowBitmap::read(of.items as usize, &mut cursor)?,
        edges_tombstoned: RowBitmap::read(of.edges as usize, &mut cursor)?,
    };
    cursor.expect_end()?;
    Ok(state)
}

fn encode_header(of: StateKey, body: &[u8], versions: (u16, u16)) -> [u8; HEADER_BYTES] {
    let mut head = Vec::with_capacity(HEADER_BYTES);
    head.put(layout::STATE_MAGIC);
    head.put(&versions.0.to_le_bytes());
    head.put(&versions.1.to_le_bytes());
    head.put(&of.items.to_le_bytes());
    head.put(&of.segment.to_le_bytes());
    head.put(&of.generation.to_le_bytes());
    head.put(&of.edges.to_le_bytes());
    head.put(&[0; 20]);
    head.put(&crc32c::crc32c(body).to_le_bytes());
    head.put(&crc32c::crc32c(&head).to_le_bytes());
    head.try_into().expect("the fields above are 64 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::disk::{Disk, FsDisk, write_all_atomically};

    const OF: StateKey = StateKey { segment: 7, generation: 3, items: 5000, edges: 3 };

    fn sample() -> RowState {
        let mut state = RowState::empty(5000, 3);
        for row in [0, 63, 64, 4095, 4096, 4999] {
            assert!(state.tombstoned.insert(row));
            assert!(!state.tombstoned.insert(row));
        }
        state.superseded.insert(17);
        state.edges_tombstoned.insert(2);
        state
    }

    #[test]
    fn state_file_bits_roundtrip() {
        let state = decode(OF, &encode(OF, &sample())).unwrap();
        assert_eq!(state.tombstoned.count(), 6);
        assert!(state.tombstoned.contains(4096) && !state.tombstoned.contains(4097));
        assert!(state.superseded.contains(17) && !state.superseded.contains(16));
        assert_eq!(state.tombstoned.difference_count(&state.superseded), 6);
        assert_eq!(state.tombstoned.difference_count(&state.tombstoned), 0);
        assert!(state.edges_tombstoned.contains(2));
    }

    #[test]
    fn bitmap_iteration_finds_every_set_bit_in_order() {
        let bits = sample().tombstoned;
        let mut found = Vec::new();
        let mut at = bits.next_set(0);
        while let Some(row) = at {
            found.push(row);
            at = bits.next_set(row + 1);
        }
        assert_eq!(found, [0, 63, 64, 4095, 4096, 4999]);
        assert_eq!((bits.next_set(65), bits.next_set(5000)), (Some(4095), None));
        let mut far = RowBitmap::empty(20_000);
        far.insert(19_999);
        assert_eq!((far.next_set(0), RowBitmap::empty(9).next_set(3)), (Some(19_999), None));
    }

    /// Encodes a state file with other versions in its header, under valid checksums.
    fn of_versions(read: u16, write: u16) -> Vec<u8> {
        let file = encode(OF, &sample());
        let body = &file[HEADER_BYTES..];
        [&encode_header(OF, body, (read, write))[..], body].concat()
    }

    #[test]
    fn state_versions_1_and_2_are_read_and_newer_are_rejected() {
        assert_eq!(of_versions(READ_VERSION, WRITE_VERSION), encode(OF, &sample()));
        for versions in [(1, 1), (2, 2), (2, 3), (1, 9)] {
            let state = decode(OF, &of_versions(versions.0, versions.1)).unwrap();
            assert_eq!(state.tombstoned.count(), 6, "{versions:?}");
        }
        let newer = decode(OF, &of_versions(3, 3)).unwrap_err();
        assert!(matches!(newer, OpenError::TooNew { version: 3, .. }), "{newer}");
        assert!(matches!(decode(OF, &of_versions(0, 2)), Err(OpenError::Damaged(_))));
        // A flipped version bit is corruption, not a newer format.
        let mut flipped = encode(OF, &sample());
        flipped[8] ^= 0x40;
        assert!(matches!(decode(OF, &flipped), Err(OpenError::Damaged(_))));
    }

    #[test]
    fn batch_of_state_files_is_written_atomically_per_file() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FsDisk::open(folder.path()).unwrap();
        let of = |segment| StateKey { segment, ..OF };
        let files: Vec<_> = (1..4).map(|n| StateFile::encode(of(n), &sample())).collect();
        let pairs = files.iter().map(|file| (file.name.clone(), file.bytes.clone()));
        write_all_atomically(&disk, pairs).unwrap();
        assert_eq!(disk.names().unwrap().len(), 3);
        for (n, file) in (1..).zip(&files) {
            assert_eq!(file.entry.bytes, file.bytes.len() as u64);
            let bytes = disk.read(&file.name, file.entry.bytes).unwrap();
            assert_eq!(Sha256::digest(&bytes)[..], file.entry.sha256);
            decode(of(n), &bytes).unwrap();
        }
        write_all_atomically(&disk, []).unwrap();
    }

    #[test]
    fn cloned_bitmap_does_not_see_later_inserts() {
        let first = sample();
        let mut second = first.clone();
        second.superseded.insert(18);
        assert!(!first.superseded.contains(18) && second.superseded.contains(18));
    }

    #[test]
    fn state_file_flips_and_truncations_are_detected() {
        let file = encode(OF, &sample());
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 0x10;
            assert!(decode(OF, &bad).is_err(), "byte {at}");
            assert!(decode(OF, &file[..at]).is_err(), "cut at {at}");
        }
    }
}
