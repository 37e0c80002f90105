//! Caps and timeouts of this crate, each with the reason for its size.

use std::time::Duration;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Between two looks whether a backup is due.
    pub const BACKUP_SCHEDULE_EVERY: Duration = Duration::from_secs(20);

    /// From a backup on schedule that failed to the next attempt.
    pub const BACKUP_RETRY_AFTER: Duration = Duration::from_secs(600);

    /// From the time at which a backup on schedule was due to when it is told as overdue.
    pub const BACKUP_OVERDUE_AFTER: Duration = Duration::from_secs(3600);

    /// Items that one request erases, chains and chunks included. Their ids fit a request's body.
    pub const ERASE_ITEMS_MAX: usize = 16_384;
}
