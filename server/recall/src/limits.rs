//! Size limits of the result cache.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Entries of the result cache, which the next write invalidates.
    pub const ANSWERS_MAX: usize = 1024;

    /// Bytes of these entries, including their tables.
    pub const ANSWERS_BYTES_MAX: usize = 1024 * 1024;
}
