//! Caps and timeouts of this crate, each with the reason for its size.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Answers to questions by meaning that are kept for whoever asks the same again, until the next
    /// write.
    pub const ANSWERS_MAX: usize = 1024;

    /// Bytes that these take, with the tables that they lie in.
    pub const ANSWERS_BYTES_MAX: usize = 1024 * 1024;
}
