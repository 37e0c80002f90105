//! Limits of lines, each with its reason.

use engine::limits::{
    ATTRIBUTE_BYTES_MAX, LIST_MAX, NAME_BYTES_MAX, REF_BYTES_MAX, SUPERSEDES_MAX, TEXT_BYTES_MAX,
    TITLE_BYTES_MAX, URI_BYTES_MAX,
};

use crate::limits::JSON_ESCAPE_GROWTH_MAX;
use recalld_http_server::limits::STREAM_MESSAGE_BYTES_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of one line.
    pub const LINE_BYTES_MAX: usize = 12 << 20;
}

/// Bytes of whole lines that are passed on together, once reached.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Bytes of an item's texts before escaping: items make the longest lines.
const TEXTS_BYTES_MAX: usize = TEXT_BYTES_MAX
    + ATTRIBUTE_BYTES_MAX
    + 2 * TITLE_BYTES_MAX
    + REF_BYTES_MAX
    + URI_BYTES_MAX
    + (2 * LIST_MAX + 8) * NAME_BYTES_MAX;
/// Bytes of an id with its quotes and comma.
const ID_BYTES: usize = 33;
/// Bytes of keys, times, numbers and punctuation.
const FRAME_BYTES: usize = 8 << 10;

const _: () = assert!(
    TEXTS_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX + SUPERSEDES_MAX * ID_BYTES + FRAME_BYTES
        <= LINE_BYTES_MAX
);
const _: () = assert!(LINE_BYTES_MAX + 2 * CHUNK_BYTES < STREAM_MESSAGE_BYTES_MAX);
