//! Rendering of errors: one renderer for HTTP, one for MCP.
//!
//! Defines status, headers and facts of both protocols side by side. [`ServiceError`] defines the errors and their
//! messages.

use serde_json::{Value, json};

use recalld_cluster::NotHere;
use recalld_common::age::seconds;
use recalld_http_server::Response;
use recalld_http_server::limits::RETRY_AFTER_SECONDS;
use recalld_http_server::refusal::Refusal;
use recalld_mcp_protocol::Fault;
use recalld_tool_framework::ServiceError;

/// Renders an error as an HTTP response.
pub(crate) fn over_http(error: impl Into<ServiceError>) -> Refusal {
    let error = error.into();
    let detail = error.to_string();
    over_http_saying(error, &detail)
}

/// As [`over_http`], with a text of the caller's.
pub(crate) fn over_http_saying(error: impl Into<ServiceError>, detail: &str) -> Refusal {
    let error = &error.into();
    let mut body = json!({"detail": detail});
    if let Some(url) = writer(error) {
        body["writer"] = url.into();
    }
    let status = http_status(error);
    let refusal = Refusal::of(status, &body);
    let wait = match error {
        ServiceError::QuotaExceeded { wait, .. } => Some(seconds(*wait)),
        _ if status == 503 => Some(RETRY_AFTER_SECONDS.into()),
        _ => None,
    };
    match wait {
        Some(wait) => refusal.with("Retry-After", wait.to_string()),
        None => refusal,
    }
}

/// Renders an error as an MCP error. Returns `None` if the caller can correct the call; then the tool's result reports
/// the error.
pub(crate) fn over_mcp(error: &ServiceError) -> Option<Fault> {
    let plain = || Fault::server(error.reason(), error.to_string());
    match error {
        ServiceError::TimedOut { limit } => Some(Fault::timed_out(*limit)),
        ServiceError::Panicked => Some(Fault::internal()),
        // Status 200: the message is for the client's user, and nothing between client and server is at fault.
        ServiceError::NotHere(NotHere::WrittenBy(_)) => Some(match writer(error) {
            Some(url) => plain().with_fact("writer", url.into()),
            None => plain(),
        }),
        ServiceError::NotHere(why) => {
            let fault = plain().with_status(http_status(error));
            Some(match why {
                NotHere::Behind { age: Some(age), .. } => {
                    fault.with_fact("stale_seconds", seconds(*age).into())
                }
                _ => fault,
            })
        }
        ServiceError::Unsure(_) => Some(plain().with_status(http_status(error))),
        error if error.is_ours() => Some(Fault::unavailable(error.reason(), error.to_string())),
        _ => None,
    }
}

/// Renders an error as an MCP error for a method without a result that could report it.
pub(crate) fn as_fault(error: &ServiceError) -> Fault {
    over_mcp(error).unwrap_or_else(|| Fault::server(error.reason(), error.to_string()))
}

/// Renders an error for HTTP, or for an MCP message with an id; null if the message has no id.
pub(crate) fn answer(message: Option<&Value>, error: impl Into<ServiceError>) -> Response {
    match message {
        None => over_http(error).into(),
        Some(id) => recalld_mcp_protocol::refusal(id, &as_fault(&error.into())),
    }
}

/// Maps variants, not remedies: 403, 404 and 422 all mean "correct the request", and 429 and 503 "retry later".
fn http_status(error: &ServiceError) -> u16 {
    match error {
        ServiceError::Argument { .. } => 422,
        ServiceError::Missing { .. } | ServiceError::Denied { .. } => 404,
        ServiceError::Unverified | ServiceError::Unidentified(_) => 403,
        ServiceError::QuotaExceeded { .. } => 429,
        // 421 Misdirected Request: another server will answer. With 503, a proxy or client would retry here without
        // end.
        ServiceError::NotHere(NotHere::WrittenBy(_)) => 421,
        // Not 503: an automatic retry could repeat an action that was already done.
        ServiceError::Unsure(_) | ServiceError::NotHere(NotHere::Lost(_)) => 502,
        ServiceError::NotHere(_)
        | ServiceError::Unaudited(_)
        | ServiceError::Unwritable(_)
        | ServiceError::Closed(_)
        | ServiceError::Unmetered(_)
        | ServiceError::TimedOut { .. }
        | ServiceError::Cancelled => 503,
        _ => 500,
    }
}

/// Returns the leader's URL if the error names the leader.
fn writer(error: &ServiceError) -> Option<&str> {
    match error {
        ServiceError::NotHere(NotHere::WrittenBy(peer)) => peer.url.as_deref(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use engine::Micros;
    use recalld_cluster::Peer;

    use super::*;

    fn told(error: impl Into<ServiceError>) -> (u16, Value, Option<String>) {
        let Response { head, body } = over_http(error).into();
        let retry = head.headers.iter().find(|(name, _)| name == "Retry-After");
        let retry = retry.map(|(_, value)| value.to_string());
        (head.status, serde_json::from_slice(&body).unwrap(), retry)
    }

    #[test]
    fn each_reason_has_its_status_and_says_when_to_come_again() {
        let peer = |url: Option<&str>| Peer { node: "b".into(), url: url.map(str::to_owned) };
        let at = peer(Some("https://b.example"));
        let behind = |age| NotHere::Behind { age, most: Duration::from_secs(30) };
        let (status, body, retry) = told(behind(Some(Duration::from_millis(31_001))));
        assert_eq!((status, retry.as_deref()), (503, Some("1")));
        assert_eq!(body["detail"], "This replica is 32 s behind; at most 30 s are allowed");
        assert_eq!(told(behind(None)).0, 503);
        let (status, body, retry) = told(NotHere::WrittenBy(at.clone()));
        assert_eq!((status, retry), (421, None), "who tries again here is told the same for ever");
        assert_eq!(body["writer"], "https://b.example");
        let (_, body, _) = told(NotHere::WrittenBy(peer(None)));
        assert_eq!(body.get("writer"), None);
        assert_eq!(told(NotHere::Unreached(at.clone())).0, 503);
        let (status, _, retry) = told(NotHere::Lost(at));
        assert_eq!(
            (status, retry),
            (502, None),
            "it may have been done: not to be repeated blindly"
        );
        assert_eq!(told(NotHere::Busy).2.as_deref(), Some("1"));
    }

    #[test]
    fn what_a_caller_can_mend_is_no_fault_of_the_protocol() {
        let wait = Duration::from_millis(1_500);
        let used_up = ServiceError::QuotaExceeded { resets_at: Micros(0), wait };
        assert_eq!(over_mcp(&used_up), None);
        let (status, _, retry) = told(used_up);
        assert_eq!((status, retry.as_deref()), (429, Some("2")), "no second too few");
        let fault = |error: &ServiceError| Fault::server(error.reason(), error.to_string());
        let unsure = ServiceError::Unsure("the disk".to_owned());
        assert_eq!(over_mcp(&unsure), Some(fault(&unsure).with_status(502)));
        let (status, _, retry) = told(unsure);
        assert_eq!((status, retry), (502, None));
        let full = ServiceError::Unwritable("no room".to_owned());
        assert_eq!(over_mcp(&full), Some(fault(&full).with_status(503)));
        assert_eq!(told(full).2.as_deref(), Some("1"));
        assert_eq!(over_mcp(&ServiceError::Panicked), Some(Fault::internal()));
        let (status, body, _) = told(ServiceError::Panicked);
        assert_eq!((status, body), (500, json!({"detail": "Internal error"})));
    }
}
