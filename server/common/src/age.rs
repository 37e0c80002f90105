//! How old an answer is, as it is told.

use std::time::Duration;

/// The header that says how old the answer of a node that follows may be.
pub const STALE_SECONDS: &str = "stale-seconds";

/// The same in the `_meta` of a result of MCP.
pub const STALE_SECONDS_META: &str = "recalld/stale-seconds";

/// An age, or a wait, in whole seconds. Never less than it is: all that was acknowledged longer ago than is told has
/// to be in the answer.
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
