//! Determines the protocol style of a request from header and body alone: the handshake revisions, or the stateless
//! revision 2026-07-28 with its per-request envelope.

use serde_json::Value;

use super::fault::Fault;
use super::message;

/// Revisions that begin with `initialize`, oldest first.
pub const HANDSHAKE_REVISIONS: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Offered to a client that requests an unsupported revision.
pub const HANDSHAKE_LATEST: &str = "2025-11-25";
/// The only revision with batches.
pub(super) const BATCH_REVISION: &str = "2025-03-26";
/// The revisions of the per-request era.
pub const MODERN_REVISIONS: &[&str] = &["2026-07-28"];

/// Keys of the envelope in `params._meta`.
pub(super) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(super) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
pub(super) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Protocol style of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// 2024-11-05 to 2025-11-25.
    Handshake,
    /// 2026-07-28.
    PerRequest,
}

/// The metadata that a request of revision 2026-07-28 carries.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Envelope<'a> {
    /// The revision, supported or not.
    pub version: &'a str,
    /// The client's capabilities.
    pub capabilities: &'a Value,
}

/// Returns the envelope of a message's parameters, if complete.
pub(super) fn envelope(params: &Value) -> Option<Envelope<'_>> {
    let meta = params.get("_meta")?;
    let version = meta.get(META_VERSION)?.as_str()?;
    let capabilities = meta.get(META_CAPABILITIES).filter(|given| given.is_object())?;
    Some(Envelope { version, capabilities })
}

/// Returns true if a message has an envelope, complete or not.
fn claims(message: &Value) -> bool {
    message["params"]["_meta"].get(META_VERSION).is_some()
}

/// Returns the protocol style of a body with an `MCP-Protocol-Version` header.
pub(super) fn era(header: Option<&str>, body: &Value) -> Result<Era, Fault> {
    let is_modern_header = header.is_some_and(|version| MODERN_REVISIONS.contains(&version));
    if body.is_array() {
        if is_modern_header || message::all(body).iter().any(claims) {
            return Err(Fault::invalid_request("revision 2026-07-28 has no batches"));
        }
        return Ok(Era::Handshake);
    }
    if envelope(&body["params"]).is_some() {
        return Ok(Era::PerRequest);
    }
    let is_initialize = body["method"] == "initialize";
    if is_modern_header && is_initialize {
        let why = "MCP-Protocol-Version names a revision without initialize";
        return Err(Fault::header_mismatch(why));
    }
    let is_request = body.get("id").is_some() && body.get("method").is_some();
    if is_request && !is_initialize && (is_modern_header || claims(body)) {
        let why = format!("params._meta must have `{META_VERSION}` and `{META_CAPABILITIES}`");
        return Err(Fault::envelope(&why));
    }
    Ok(if is_modern_header { Era::PerRequest } else { Era::Handshake })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MODERN: Option<&str> = Some("2026-07-28");
    const OLD: Option<&str> = Some("2025-11-25");

    fn whole(method: &str, version: &str) -> Value {
        let meta = json!({META_VERSION: version, META_CAPABILITIES: {}});
        json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": {"_meta": meta}})
    }

    fn plain(method: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": {}})
    }

    #[test]
    fn the_table_of_eras() {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled"});
        for (header, body, era_of) in [
            (MODERN, whole("tools/list", "2026-07-28"), Era::PerRequest),
            (None, whole("tools/list", "2026-07-28"), Era::PerRequest),
            (OLD, whole("tools/list", "2026-07-28"), Era::PerRequest),
            (MODERN, whole("tools/list", "v999"), Era::PerRequest),
            (MODERN, whole("initialize", "2026-07-28"), Era::PerRequest),
            (None, plain("initialize"), Era::Handshake),
            (OLD, plain("initialize"), Era::Handshake),
            (None, plain("tools/list"), Era::Handshake),
            (OLD, plain("tools/list"), Era::Handshake),
            (Some("1999-01-01"), plain("tools/list"), Era::Handshake),
            (None, json!([plain("ping")]), Era::Handshake),
            (MODERN, note.clone(), Era::PerRequest),
            (None, note, Era::Handshake),
        ] {
            assert_eq!(era(header, &body), Ok(era_of), "{header:?} {body}");
        }
    }

    #[test]
    fn the_table_of_refusals() {
        let mut half = whole("tools/list", "2026-07-28");
        half["params"]["_meta"].as_object_mut().unwrap().remove(META_CAPABILITIES);
        let mut wrong = whole("tools/list", "2026-07-28");
        wrong["params"]["_meta"][META_CAPABILITIES] = json!([]);
        for (header, body, code) in [
            (MODERN, plain("initialize"), -32020),
            (MODERN, plain("tools/list"), -32602),
            (MODERN, half.clone(), -32602),
            (None, half, -32602),
            (MODERN, wrong, -32602),
            (None, json!([plain("ping"), whole("tools/list", "2026-07-28")]), -32600),
            (MODERN, json!([plain("ping")]), -32600),
        ] {
            let fault = era(header, &body).unwrap_err();
            assert_eq!((fault.status(), &fault.to_json()["code"]), (400, &json!(code)), "{body}");
        }
    }
}
