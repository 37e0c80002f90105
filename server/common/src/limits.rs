//! Limits and timeouts of this crate, with the reason for each value.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum length of a client's request id in bytes; generated ids are shorter.
    pub const REQUEST_ID_BYTES_MAX: usize = 64;

    /// Characters of an unknown name (of an argument or a tool) that are compared and shown. The longest known name has
    /// 60.
    pub const MISSPELT_CHARS_MAX: usize = 64;
}
