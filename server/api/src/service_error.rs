//! The renderers of a failure: one for HTTP, one for MCP.
//!
//! Owns the status, the headers and the facts of both, side by side. What a failure is, and its words, are
//! [`ServiceError`]'s.

use serde_json::{Value, json};

use recalld_cluster::NotHere;
use recalld_common::age::seconds;
use recalld_http_server::Response;
use recalld_http_server::limits::RETRY_AFTER_SECONDS;
use recalld_http_server::refusal::Refusal;
use recalld_mcp_protocol::Fault;
use recalld_tool_framework::ServiceError;

/// As an answer over HTTP.
pub(crate) fn over_http(error: impl Into<ServiceError>) -> Refusal {
    let error = &error.into();
    let mut body = json!({"detail": error.to_string()});
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

/// As an error of MCP; `None` where the caller can mend it, which a tool's result says instead.
pub(crate) fn over_mcp(error: &ServiceError) -> Option<Fault> {
    let plain = || Fault::server(error.reason(), error.to_string());
    match error {
        ServiceError::TimedOut { limit } => Some(Fault::timed_out(*limit)),
        ServiceError::Panicked => Some(Fault::internal()),
        // With status 200: it is for the client's people, and nothing is wrong with what stands between.
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

/// As an error of MCP, of a call that has no result which could say it.
pub(crate) fn as_fault(error: &ServiceError) -> Fault {
    over_mcp(error).unwrap_or_else(|| Fault::server(error.reason(), error.to_string()))
}

/// The answer to a request over HTTP, or to a message of MCP, which has an id; null where the message has none.
pub(crate) fn answer(message: Option<&Value>, error: impl Into<ServiceError>) -> Response {
    match message {
        None => over_http(error).into(),
        Some(id) => recalld_mcp_protocol::refusal(id, &as_fault(&error.into())),
    }
}

fn http_status(error: &ServiceError) -> u16 {
    match error {
        ServiceError::Argument { .. } => 422,
        ServiceError::Missing { .. } | ServiceError::Denied { .. } => 404,
        ServiceError::Unverified | ServiceError::Unidentified(_) => 403,
        ServiceError::QuotaExceeded { .. } => 429,
        // Of a request that came to a server which will not answer it, and another will: a proxy or a client that
        // tries again here, as after 503, would never come to an end.
        ServiceError::NotHere(NotHere::WrittenBy(_)) => 421,
        // Not 503: whoever tries again by himself may have it done twice.
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

/// Where the workspace is written, if that is what it says.
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
