//! Every maximum of the stored format. Mirror of `format-spec/limits.md`.

use std::time::Duration;

use crate::words::{ROW_TERMS_MAX, SEGMENT_POSTINGS_MAX};

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
    /// Bytes of the largest segment that compaction makes.
    pub const COMPACT_BYTES_MAX: usize = 512 << 20;
    /// Segments that compaction merges at the least.
    pub const COMPACT_RUN_MIN: usize = 4;
    /// Segments above which compaction merges any two neighbours that fit.
    pub const SEGMENTS_MANY: usize = 64;
    /// Bytes that compaction and a move to another model leave free on the disk: room for a full tail
    /// and its logs.
    pub const COMPACT_FREE_BYTES_MIN: u64 = 512 << 20;
    /// Items that are re-embedded at once, between two looks at the pace.
    pub const REEMBED_BATCH_MAX: usize = 64;
    /// Items that are re-embedded while nobody can write.
    pub const REEMBED_LAST_MAX: u64 = 64;
    /// Rounds of re-embedding what was written meanwhile, before writers are held back.
    pub const REEMBED_ROUNDS_MAX: usize = 16;
    /// Segments that a move writes again because an erasure took them back, before it lets nothing pass
    /// until its round ends.
    pub const REEMBED_TAKEN_BACK_MAX: u64 = 64;
    /// Embeddings of a segment below which an index gains nothing.
    pub const INDEX_ROWS_MIN: u32 = 8 << 10;
    /// Lists of an index.
    pub const INDEX_LISTS_MAX: u32 = 16 << 10;
    /// Lists of an index for each of the square root of its rows.
    pub const INDEX_LISTS_PER_ROOT: usize = 8;
    /// Rows for each list that centroids are made of.
    pub const INDEX_SAMPLE: usize = 16;
    /// Times that centroids are made anew.
    pub const INDEX_ROUNDS: usize = 6;
    /// Questions that choose the margins of an index, and as many that measure it.
    pub const INDEX_QUESTIONS: usize = 512;
    /// Rows that such a question is made of.
    pub const INDEX_QUESTION_ROWS_MAX: usize = 4;
    /// Of a thousand near rows, how many must be found by questions that had no part in choosing the margins;
    /// else the segment is scanned.
    pub const INDEX_RECALL_MIN_PERMILLE: u64 = 990;
    /// Items that a search through indexes is asked for; one for more looks through every row.
    pub const INDEX_LIMIT_MAX: usize = 1000;
    /// Embeddings of a store up to which a search by meaning is exact.
    pub const APPROXIMATE_ROWS_MIN: u64 = 300_000;
    /// One in so many embeddings may be in no index where a search goes through indexes by itself.
    pub const UNINDEXED_SHARE_MAX: u64 = 4;
    /// Logs that a manifest names. Each opening that writes makes one.
    pub const LOGS_MAX: usize = 64;
    /// Ids in a manifest whose bytes are still to be removed; half of them may be asked for, since the
    /// source of each may have to go with it.
    pub const ERASURES_PENDING_MAX: usize = 65_536;
    /// Bytes of a manifest: 4,096 segments at less than 1 KiB, 65,536 erasures at 35 bytes, 64 logs at
    /// 20 bytes, and less than 1 KiB for the rest.
    pub const MANIFEST_BYTES_MAX: u64 = 8 << 20;
    /// Bytes of all logs at which the tail is sealed, however little heap it takes: names used again
    /// and again are stored once in a segment, but each time in a log.
    pub const LOG_BYTES_SEAL: u64 = 128 << 20;
    /// Bytes of all logs of unsealed commits.
    pub const LOG_BYTES_MAX: u64 = 256 << 20;
    /// Room in a log is reserved in steps of this many bytes: a thousand small commits.
    pub const LOG_RESERVE_STEP: u64 = 1 << 20;
    /// Bytes of a file that is filling that are fetched together where little of it is wanted.
    pub const FILL_BYTES: usize = 1 << 20;
    /// The same where more than that is wanted.
    pub const FILL_WIDE_BYTES: usize = 4 << 20;
    /// Threads that fetch for one that wants so much.
    pub const FILL_THREADS_MAX: usize = 4;
    /// How long what is read of a file that is filling is waited for, before the reader is told to ask again.
    pub const FILL_WAIT_MAX: Duration = Duration::from_secs(10);
}

const _: () = assert!(TEXT_BYTES_MAX < FRAME_BYTES_MAX);
// A full tail, and the logs that hold it, fit into what compaction leaves.
const _: () = assert!(COMPACT_FREE_BYTES_MIN > 2 * TAIL_BYTES_SEAL as u64 + LOG_BYTES_MAX);
// What is reserved for the last frame does not pass the bound either.
const _: () = assert!(LOG_BYTES_MAX.is_multiple_of(LOG_RESERVE_STEP));

/// Bytes of one entry of a manifest: a segment with its state, an erasure, a log.
const MANIFEST_ENTRY_BYTES_MAX: [u64; 3] = [1024, 35, 20];
const _: () = assert!(
    MANIFEST_BYTES_MAX
        > SEGMENTS_MAX as u64 * MANIFEST_ENTRY_BYTES_MAX[0]
            + ERASURES_PENDING_MAX as u64 * MANIFEST_ENTRY_BYTES_MAX[1]
            + LOGS_MAX as u64 * MANIFEST_ENTRY_BYTES_MAX[2]
            + 1024
);

// A segment's words are refused once fewer postings are left than one row may need, two for each
// of its words: `POSTINGS_USABLE` is what can be counted on.
const ROW_POSTINGS_MAX: usize = 2 * ROW_TERMS_MAX;
const POSTINGS_USABLE: usize = SEGMENT_POSTINGS_MAX - ROW_POSTINGS_MAX;
/// Bytes of an item's record in a log besides its texts: lengths, ids, times.
pub(crate) const RECORD_BYTES_MIN: usize = 100;
// Replay makes one segment of one log. A posting takes at least a byte of it, and so many postings
// need so many rows that what these take besides makes up for the postings held back.
const _: () = assert!(
    LOG_BYTES_MAX
        <= (POSTINGS_USABLE + SEGMENT_POSTINGS_MAX / ROW_POSTINGS_MAX * RECORD_BYTES_MIN) as u64
);
// A posting takes a byte of text and one between words at the least, and compounds at most double
// their number, so what one batch adds to a tail that is about to be sealed fits one segment.
const _: () = assert!(FRAME_BYTES_MAX + 2 * TAIL_BYTES_SEAL < POSTINGS_USABLE);
