//! Caps and timeouts of this crate, each with the reason for its size.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Longest request id that is taken from a client; ours are shorter.
    pub const REQUEST_ID_BYTES_MAX: usize = 64;

    /// Characters of an unknown name (an argument's, a tool's) that are looked at and shown: the longest
    /// name of ours has 60.
    pub const MISSPELT_CHARS_MAX: usize = 64;
}
