//! Counts failed credentials by client address.

use std::time::Instant;

use crate::app_state::AppState;
use crate::forwarded::asks_from;
use recalld_http_server::Call;
use recalld_http_server::refusal::Refusal;

/// Returns the response to a wrong credential. After too many failures, the response only asks the client to wait, and
/// does not reveal that this credential was wrong.
pub(crate) fn wrong_credential(
    parts: &AppState,
    call: &Call,
    refusal: impl FnOnce() -> Refusal,
) -> Refusal {
    let (peer, now) = (asks_from(parts, call), Instant::now());
    let budget = parts.guesses.check(peer, None, now);
    parts.guesses.failed(peer, None, now);
    match budget {
        Ok(()) => refusal(),
        Err(wait) => Refusal::too_many(wait.seconds),
    }
}
