//! Every maximum of the stored format. Mirror of `format-spec/limits.md`.

/// Bytes of an item's text.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Bytes of a title.
pub const TITLE_BYTES_MAX: usize = 4 << 10;
/// Bytes of an item's attributes.
pub const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;
/// Bytes of a kind, modality, tag, gate, relation or principal.
pub const NAME_BYTES_MAX: usize = 256;
/// Bytes of a caller's own id.
pub const REF_BYTES_MAX: usize = 1 << 10;
/// Bytes of a source's uri.
pub const URI_BYTES_MAX: usize = 8 << 10;
/// Tags or gates of one item.
pub const LIST_MAX: usize = 256;
/// Items that one item replaces: a document may replace all pieces of its last version.
pub const SUPERSEDES_MAX: usize = 32_768;
/// Records of one batch.
pub const BATCH_RECORDS_MAX: usize = 1 << 16;
/// Bytes of one batch in the log.
pub const FRAME_BYTES_MAX: usize = 64 << 20;
/// Rows of one table of one segment.
pub const SEGMENT_ROWS_MAX: usize = 1 << 31;
/// Segments that a manifest lists.
pub const SEGMENTS_MAX: usize = 4096;
/// Width of an embedding.
pub const DIMENSIONS_MAX: u32 = 4096;
/// Heap bytes of unsealed rows at which they are sealed.
pub const TAIL_BYTES_SEAL: usize = 32 << 20;
/// Parts of the unsealed tail that a query looks through.
pub const TAIL_PARTS_MAX: usize = 64;
/// Bytes of the segments that sealing merges with the tail; larger ones are left to compaction.
pub const MERGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of a manifest: 4,096 segments at less than 1 KiB each.
pub const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// Bytes of all logs at which the tail is sealed, however little heap it takes: names used again
/// and again are stored once in a segment, but each time in a log.
pub const LOG_BYTES_SEAL: u64 = 128 << 20;
/// Bytes of all logs of unsealed commits.
pub const LOG_BYTES_MAX: u64 = 256 << 20;

const _: () = assert!(TEXT_BYTES_MAX < FRAME_BYTES_MAX);
// One frame may follow just below the bound at which the tail is sealed.
const _: () = assert!(FRAME_BYTES_MAX as u64 + LOG_BYTES_SEAL < LOG_BYTES_MAX);
// Replay makes one segment of one log, and a posting takes at least a byte of it.
const _: () = assert!(LOG_BYTES_MAX <= crate::words::SEGMENT_POSTINGS_MAX as u64);
// A posting takes a byte of text and one between words at the least, and compounds at most double
// their number, so what one batch adds to a tail that is about to be sealed fits one segment.
const _: () = assert!(FRAME_BYTES_MAX + 2 * TAIL_BYTES_SEAL < crate::words::SEGMENT_POSTINGS_MAX);
