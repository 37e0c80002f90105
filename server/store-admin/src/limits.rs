//! Limits and timeouts of this crate, each with its reason.

use std::time::Duration;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Interval between two checks for a due backup.
    pub const BACKUP_SCHEDULE_EVERY: Duration = Duration::from_secs(20);

    /// Delay after a failed scheduled backup until the next attempt.
    pub const BACKUP_RETRY_AFTER: Duration = Duration::from_secs(600);

    /// Delay after a scheduled time until a missing backup is reported as overdue.
    pub const BACKUP_OVERDUE_AFTER: Duration = Duration::from_secs(3600);

    /// Items erased by one request, including chains and chunks. A request body can list this many ids.
    pub const ERASE_ITEMS_MAX: usize = 16_384;
}
