//! Limits and timeouts of this crate, with the reason for each value.

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of queued log lines of some hundred bytes each. Further lines are dropped and counted.
    pub const LOG_QUEUE_MAX: usize = 4_096;
}
