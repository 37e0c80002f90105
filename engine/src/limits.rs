//! Maximums of the stored format. Mirrors `format-spec/limits.md`.

use std::time::Duration;

use crate::fulltext::{ROW_TERMS_MAX, SEGMENT_POSTINGS_MAX};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of an item's text.
    pub const TEXT_BYTES_MAX: usize = 1 << 20;
    /// Bytes of a title.
    pub const TITLE_BYTES_MAX: usize = 4 << 10;
    /// Bytes of an item's attributes.
    pub const ATTRIBUTE_BYTES_MAX: usize = 96 << 10;
    /// Bytes of a kind, modality, tag, gate, relation or principal.
    pub const NAME_BYTES_MAX: usize = 256;
    /// Bytes of a caller's own id (ref).
    pub const REF_BYTES_MAX: usize = 1 << 10;
    /// Bytes of a source's uri.
    pub const URI_BYTES_MAX: usize = 8 << 10;
    /// Tags or gates of one item.
    pub const LIST_MAX: usize = 256;
    /// Items that one item supersedes: a document may supersede all chunks of its last version.
    pub const SUPERSEDES_MAX: usize = 32_768;
    /// Records of one batch.
    pub const BATCH_RECORDS_MAX: usize = 1 << 16;
    /// Bytes of one batch in the log.
    pub const FRAME_BYTES_MAX: usize = 64 << 20;
    /// Rows of one table in one segment.
    pub const SEGMENT_ROWS_MAX: usize = 1 << 31;
    /// Segments that a manifest lists.
    pub const SEGMENTS_MAX: usize = 4096;
    /// Components of an embedding.
    pub const DIMENSIONS_MAX: u32 = 4096;
    /// Heap bytes of the tail at which it is sealed.
    pub const TAIL_BYTES_SEAL: usize = 32 << 20;
    /// In-memory segments of the tail that a query scans.
    pub const TAIL_PARTS_MAX: usize = 64;
    /// Bytes of the tail and the neighbouring segments that one seal merges; larger segments are left to compaction.
    pub const MERGE_BYTES_MAX: usize = 64 << 20;
    /// Bytes of the largest segment that compaction writes.
    pub const COMPACT_BYTES_MAX: usize = 512 << 20;
    /// Fewest segments that one compaction merges.
    pub const COMPACT_RUN_MIN: usize = 4;
    /// Number of segments above which compaction merges any two neighbours that fit.
    pub const SEGMENTS_MANY: usize = 64;
    /// Disk bytes that compaction and re-embedding leave free, which suffice for a full tail and its logs.
    pub const COMPACT_FREE_BYTES_MIN: u64 = 512 << 20;
    /// Items per call of the encoder in a re-embedding, between two throttle checks.
    pub const REEMBED_BATCH_MAX: usize = 64;
    /// Items that are re-embedded while writers are blocked.
    pub const REEMBED_LAST_MAX: u64 = 64;
    /// Rounds of re-embedding newly written items before writers are slowed down.
    pub const REEMBED_ROUNDS_MAX: usize = 16;
    /// Segments that a re-embedding rewrites again because an erasure replaced them, before erasures have to wait until
    /// its round ends.
    pub const REEMBED_TAKEN_BACK_MAX: u64 = 64;
    /// Embeddings per segment below which an index gains nothing.
    pub const INDEX_ROWS_MIN: u32 = 8 << 10;
    /// Lists of an index.
    pub const INDEX_LISTS_MAX: u32 = 16 << 10;
    /// Lists of an index per unit of the square root of its rows.
    pub const INDEX_LISTS_PER_ROOT: usize = 8;
    /// Sampled rows per list from which centroids are computed.
    pub const INDEX_SAMPLE: usize = 16;
    /// Rounds of k-means.
    pub const INDEX_ROUNDS: usize = 6;
    /// Sample queries that choose the margins of an index; as many others measure the recall.
    pub const INDEX_QUESTIONS: usize = 512;
    /// Rows that a sample query is made of.
    pub const INDEX_QUESTION_ROWS_MAX: usize = 4;
    /// Exact neighbours per thousand that an index must find for sample queries that had no part in choosing the
    /// margins. If the recall is lower, the segment is scanned.
    pub const INDEX_RECALL_MIN_PERMILLE: u64 = 990;
    /// Largest limit of a search through indexes; a search for more items scans every row.
    pub const INDEX_LIMIT_MAX: usize = 1000;
    /// Embeddings of a store below which a vector search in `auto` mode is exact.
    pub const APPROXIMATE_ROWS_MIN: u64 = 300_000;
    /// In `auto` mode, a search uses indexes only if at most one in this many embeddings is unindexed.
    pub const UNINDEXED_SHARE_MAX: u64 = 4;
    /// Logs that a manifest lists. Each opening for writing creates a log.
    pub const LOGS_MAX: usize = 64;
    /// Ids in a manifest whose bytes are still to be erased. Half of them may be requested, as each request may also
    /// erase the item's source.
    pub const ERASURES_PENDING_MAX: usize = 65_536;
    /// Bytes of a manifest: 4,096 segments at less than 1 KiB, 65,536 erasures at 35 bytes, 64 logs at
    /// 20 bytes, and less than 1 KiB for the rest.
    pub const MANIFEST_BYTES_MAX: u64 = 8 << 20;
    /// Bytes of all logs at which the tail is sealed, however small its heap is. A name used repeatedly is stored once
    /// in a segment, but each time in a log.
    pub const LOG_BYTES_SEAL: u64 = 128 << 20;
    /// Bytes of all logs of unsealed commits.
    pub const LOG_BYTES_MAX: u64 = 256 << 20;
    /// Log space is reserved in steps of this many bytes, enough for a thousand small commits.
    pub const LOG_RESERVE_STEP: u64 = 1 << 20;
    /// Bytes fetched per request for a lazy file if few of its pages are needed.
    pub const FILL_BYTES: usize = 1 << 20;
    /// Bytes fetched per request for a lazy file if more than [`FILL_BYTES`] are needed.
    pub const FILL_WIDE_BYTES: usize = 4 << 20;
    /// Threads that fetch for one read that needs more than [`FILL_WIDE_BYTES`].
    pub const FILL_THREADS_MAX: usize = 4;
    /// Time that a read of a lazy file waits for missing pages before the caller is asked to retry.
    pub const FILL_WAIT_MAX: Duration = Duration::from_secs(10);
}

const _: () = assert!(TEXT_BYTES_MAX < FRAME_BYTES_MAX);
// The free space that compaction leaves fits a full tail and the logs that cover it.
const _: () = assert!(COMPACT_FREE_BYTES_MIN > 2 * TAIL_BYTES_SEAL as u64 + LOG_BYTES_MAX);
// The log space reserved for the last frame stays within the bound, too.
const _: () = assert!(LOG_BYTES_MAX.is_multiple_of(LOG_RESERVE_STEP));

/// Bytes of a manifest entry: a segment with its row state, an erasure, a log.
const MANIFEST_ENTRY_BYTES_MAX: [u64; 3] = [1024, 35, 20];
const _: () = assert!(
    MANIFEST_BYTES_MAX
        > SEGMENTS_MAX as u64 * MANIFEST_ENTRY_BYTES_MAX[0]
            + ERASURES_PENDING_MAX as u64 * MANIFEST_ENTRY_BYTES_MAX[1]
            + LOGS_MAX as u64 * MANIFEST_ENTRY_BYTES_MAX[2]
            + 1024
);

// A segment accepts no more words once fewer postings are left than one row may need, two for each of its words. So
// only `POSTINGS_USABLE` postings are guaranteed.
const ROW_POSTINGS_MAX: usize = 2 * ROW_TERMS_MAX;
const POSTINGS_USABLE: usize = SEGMENT_POSTINGS_MAX - ROW_POSTINGS_MAX;
/// Bytes of an item's record in a log besides its strings: lengths, ids, times.
pub(crate) const RECORD_BYTES_MIN: usize = 100;
// Replay makes one segment of one log. A posting takes at least a byte of the log, and the rows that this many postings
// need take enough other bytes to make up for the postings held back.
const _: () = assert!(
    LOG_BYTES_MAX
        <= (POSTINGS_USABLE + SEGMENT_POSTINGS_MAX / ROW_POSTINGS_MAX * RECORD_BYTES_MIN) as u64
);
// A posting takes at least a byte of text and a separator, and compounds at most double the number of postings. So the
// postings of one batch and of a tail that is about to be sealed fit one segment.
const _: () = assert!(FRAME_BYTES_MAX + 2 * TAIL_BYTES_SEAL < POSTINGS_USABLE);
