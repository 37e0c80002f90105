//! Limits and timeouts of this crate, each with its reason.

limit_table::limits! {
    pub(crate) const LIMITS = [];
}

/// Maximum growth of one byte of text inside a JSON string: a control character becomes `\u00XX`.
pub const JSON_ESCAPE_GROWTH_MAX: usize = 6;
