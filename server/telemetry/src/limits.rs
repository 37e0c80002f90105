//! Caps and timeouts of this crate, each with the reason for its size.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Log lines that wait to be written; one more is dropped and counted. Some hundred bytes each.
    pub const LOG_QUEUE_MAX: usize = 4_096;
}
