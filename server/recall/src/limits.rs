//! Caps and timeouts of this crate, each with the reason for its size.

limit_table::limits! {
    pub const LIMITS = [
        crate::abstain, crate::answers, crate::arbitrate, crate::conflicts, crate::dated,
        crate::fuse, crate::graph_shape, crate::hidden, crate::lanes, crate::likeness,
        crate::located, crate::looks, crate::masks, crate::near, crate::passes, crate::place,
        crate::route, crate::standing, crate::time, crate::why, crate::wording,
    ];

    /// Answers to questions by meaning that are kept for whoever asks the same again, until the next
    /// write.
    pub const ANSWERS_MAX: usize = 1024;

    /// Bytes that these take, with the tables that they lie in.
    pub const ANSWERS_BYTES_MAX: usize = 1024 * 1024;
}
