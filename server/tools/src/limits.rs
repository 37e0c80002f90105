//! Caps and timeouts of this crate, each with the reason for its size.

use engine::limits as stored;

use recalld_http_server::limits::BODY_BYTES_MAX;
use recalld_http_server::limits::STREAM_MESSAGE_BYTES_MAX;
use recalld_interchange::limits::JSON_ESCAPE_GROWTH_MAX;
use recalld_mcp_protocol::limits::ANSWER_BYTES_MAX;

/// Longest text an item may carry, in UTF-8 bytes.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

const _: () = assert!(TEXT_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX + 2 * 1024 * 1024 <= BODY_BYTES_MAX);

const _: () = {
    let text = TEXT_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX;
    let tags_and_gates =
        2 * stored::LIST_MAX * (stored::NAME_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX + 3);
    // An id, and where that item was erased the id once more, with the time.
    let replaced = stored::SUPERSEDES_MAX * 128;
    let titles_and_names = 1024 * 1024;
    assert!(text + tags_and_gates + replaced + titles_and_names <= ANSWER_BYTES_MAX);
    assert!(ANSWER_BYTES_MAX + 2 * 1024 * 1024 <= STREAM_MESSAGE_BYTES_MAX);
};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Kinds, and modalities, that statistics count by name: the most frequent. An installation has some
    /// dozens; a client that makes up new ones all the time does not make `GET /stats` grow.
    pub const NAMES_COUNTED_MAX: usize = 256;
}
