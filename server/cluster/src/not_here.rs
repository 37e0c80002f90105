//! Why a call is not answered by this node, as it is told over HTTP and over MCP.
//!
//! Owns the status, the reason and the words of each. Must not know how it was found out.

use std::fmt;
use std::time::Duration;

use serde_json::json;

use super::whereabouts::Peer;
use crate::limits::RELAYS_MAX;
use recalld_common::age::seconds;
use recalld_http_server::Response;
use recalld_http_server::limits::RETRY_AFTER_SECONDS;
use recalld_http_server::refusal::Refusal;
use recalld_mcp_protocol::Fault;

/// Why a call is not answered here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotHere {
    /// What is here is too old.
    Behind {
        /// How old, where anybody can tell.
        age: Option<Duration>,
        /// How old it may be.
        most: Duration,
    },
    /// Another node writes the workspace.
    WrittenBy(Peer),
    /// Nobody is known who has it, and this node does not.
    Nowhere(String),
    /// The node that writes it cannot be reached; it was not asked.
    Unreached(Peer),
    /// It was asked, and its answer did not come.
    Lost(Peer),
    /// Too many calls are passed on already.
    Busy,
    /// A part of the workspace that the question needs is not on this machine yet. Holds why.
    Filling(String),
}

impl NotHere {
    /// For programs, in `snake_case`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Behind { .. } => "replica_behind",
            Self::WrittenBy(_) => "written_elsewhere",
            Self::Nowhere(_) => "workspace_unavailable",
            Self::Unreached(_) => "writer_unreachable",
            Self::Lost(_) => "answer_lost",
            Self::Busy => "too_many_requests",
            Self::Filling(_) => "replica_filling",
        }
    }

    /// The status of an answer over HTTP. 421 is of a request that came to a server which will not answer it, and
    /// another will: a proxy or a client that tries again here, as after 503, would never come to an end.
    fn status(&self) -> u16 {
        match self {
            Self::WrittenBy(_) => 421,
            Self::Lost(_) => 502,
            Self::Behind { .. } | Self::Nowhere(_) | Self::Unreached(_) => 503,
            Self::Busy | Self::Filling(_) => 503,
        }
    }

    /// Where the workspace is written, if that is what it says.
    fn writer(&self) -> Option<&str> {
        match self {
            Self::WrittenBy(peer) => peer.url.as_deref(),
            _ => None,
        }
    }

    /// As an answer over HTTP.
    pub fn refusal(&self) -> Refusal {
        let mut body = json!({"detail": self.to_string()});
        if let Some(url) = self.writer() {
            body["writer"] = url.into();
        }
        let refusal = Refusal::of(self.status(), &body);
        match self.status() {
            503 => refusal.with("Retry-After", RETRY_AFTER_SECONDS.to_string()),
            _ => refusal,
        }
    }

    /// As an error of MCP. That another node writes a workspace is told with status 200: it is for the client's people,
    /// and nothing is wrong with what stands between.
    pub fn fault(&self) -> Fault {
        let fault = Fault::server(self.reason(), self.to_string());
        match self {
            Self::WrittenBy(peer) => match &peer.url {
                Some(url) => fault.with_fact("writer", url.as_str().into()),
                None => fault,
            },
            Self::Behind { age: Some(age), .. } => {
                fault.with_fact("stale_seconds", seconds(*age).into()).with_status(self.status())
            }
            _ => fault.with_status(self.status()),
        }
    }
}

impl fmt::Display for NotHere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind { age: Some(age), most } => {
                let (behind, most) = (seconds(*age), most.as_secs());
                write!(f, "This replica is {behind} s behind; at most {most} s are allowed")
            }
            Self::Behind { age: None, .. } => {
                f.write_str("How far this replica is behind is not known yet")
            }
            Self::WrittenBy(Peer { node, url: Some(url) }) => {
                write!(f, "This workspace is written by node {node}, at {url}; ask there")
            }
            Self::WrittenBy(Peer { node, url: None }) => write!(
                f,
                "This workspace is written by node {node}, which does not say where it is (`remote.node_url`)"
            ),
            Self::Nowhere(why) => f.write_str(why),
            Self::Filling(why) => {
                write!(f, "A part of this workspace is not on this node yet; ask again ({why})")
            }
            Self::Unreached(Peer { node, .. }) => {
                write!(f, "Node {node}, which writes this workspace, cannot be reached now")
            }
            Self::Lost(Peer { node, .. }) => write!(
                f,
                "Node {node}, which writes this workspace, was asked, and its answer did not come; what was \
                 asked may have been done"
            ),
            Self::Busy => {
                write!(
                    f,
                    "{RELAYS_MAX} calls are passed on to other nodes already; try again later"
                )
            }
        }
    }
}

impl From<NotHere> for Response {
    fn from(why: NotHere) -> Self {
        why.refusal().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(why: &NotHere) -> (u16, serde_json::Value, Option<String>) {
        let Response { head, body } = why.refusal().into();
        let retry = head.headers.iter().find(|(name, _)| name == "Retry-After");
        let retry = retry.map(|(_, value)| value.to_string());
        (head.status, serde_json::from_slice(&body).unwrap(), retry)
    }

    #[test]
    fn each_reason_has_its_status_and_says_when_to_come_again() {
        let peer = |url: Option<&str>| Peer { node: "b".into(), url: url.map(str::to_owned) };
        let at = peer(Some("https://b.example"));
        let behind = |age| NotHere::Behind { age, most: Duration::from_secs(30) };
        let late = behind(Some(Duration::from_millis(31_001)));
        let (status, body, retry) = told(&late);
        assert_eq!((status, retry.as_deref()), (503, Some("1")));
        assert_eq!(body["detail"], "This replica is 32 s behind; at most 30 s are allowed");
        assert_eq!(told(&behind(None)).0, 503);
        let (status, body, retry) = told(&NotHere::WrittenBy(at.clone()));
        assert_eq!((status, retry), (421, None), "who tries again here is told the same for ever");
        assert_eq!(body["writer"], "https://b.example");
        let (_, body, _) = told(&NotHere::WrittenBy(peer(None)));
        assert_eq!(body.get("writer"), None);
        assert_eq!(told(&NotHere::Unreached(at.clone())).0, 503);
        let (status, _, retry) = told(&NotHere::Lost(at));
        assert_eq!(
            (status, retry),
            (502, None),
            "it may have been done: not to be repeated blindly"
        );
        assert_eq!(told(&NotHere::Busy).2.as_deref(), Some("1"));
    }
}
