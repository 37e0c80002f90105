//! Caps and timeouts of this crate, each with the reason for its size.

limit_table::limits! {
    pub(crate) const LIMITS = [];
}

/// Largest growth of one byte of text inside a JSON string: a control character becomes `\u00XX`.
pub const JSON_ESCAPE_GROWTH_MAX: usize = 6;
