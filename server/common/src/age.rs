//! Staleness of a response, in whole seconds.

use std::time::Duration;

/// Header with the maximum staleness of a follower's response, in seconds.
pub const STALE_SECONDS: &str = "stale-seconds";

/// Key of the staleness in the `_meta` of an MCP result.
pub const STALE_SECONDS_META: &str = "recalld/stale-seconds";

/// Rounds an age or a wait up to whole seconds. A staleness must never be understated: everything acknowledged before
/// must be in the response.
pub fn seconds(age: Duration) -> u64 {
    age.as_secs() + u64::from(age.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_never_told_as_less_than_it_is() {
        for (nanos, wanted) in
            [(0, 0), (1, 1), (999_999_999, 1), (1_000_000_000, 1), (1_000_000_001, 2)]
        {
            assert_eq!(seconds(Duration::from_nanos(nanos)), wanted, "{nanos} ns");
        }
    }
}
