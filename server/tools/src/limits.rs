//! Limits and timeouts of this crate, each with the reason for its size.

use engine::limits as stored;

use recalld_http_server::limits::BODY_BYTES_MAX;
use recalld_http_server::limits::STREAM_MESSAGE_BYTES_MAX;
use recalld_interchange::limits::JSON_ESCAPE_GROWTH_MAX;
use recalld_mcp_protocol::limits::ANSWER_BYTES_MAX;

/// Maximum bytes of an item's text in UTF-8.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

const _: () = assert!(TEXT_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX + 2 * 1024 * 1024 <= BODY_BYTES_MAX);

const _: () = {
    let text = TEXT_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX;
    let tags_and_gates =
        2 * stored::LIST_MAX * (stored::NAME_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX + 3);
    // An id; for an erased item, the id a second time and the erasure time.
    let replaced = stored::SUPERSEDES_MAX * 128;
    let titles_and_names = 1024 * 1024;
    assert!(text + tags_and_gates + replaced + titles_and_names <= ANSWER_BYTES_MAX);
    assert!(ANSWER_BYTES_MAX + 2 * 1024 * 1024 <= STREAM_MESSAGE_BYTES_MAX);
};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum kinds, and maximum modalities, that statistics count by name: the most frequent. An installation has a
    /// few dozen. The bound stops a client that invents names from growing `GET /stats`.
    pub const NAMES_COUNTED_MAX: usize = 256;
}
