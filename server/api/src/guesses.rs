//! Guesses at credentials, counted for whoever makes them.

use std::time::Instant;

use crate::app_state::AppState;
use crate::forwarded::asks_from;
use recalld_http_server::Call;
use recalld_http_server::refusal::Refusal;

/// The answer to a wrong credential. Whoever guesses too often is told to wait, and not whether this guess was wrong.
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
