//! Heartbeat of a node (`format-spec/remote.md`, Heartbeats and leases).

use serde::{Deserialize, Serialize};

use crate::fault::Damage;
use crate::hex::Nonce;
use crate::limits::{BEAT_BYTES_MAX, URL_BYTES_MAX};
use crate::names::NodeId;

/// Heartbeat, published every fifth of the lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// Node name.
    pub node: NodeId,
    /// Process of the node, drawn at random at its start.
    pub run: Nonce,
    /// Counter that rises with each heartbeat of a process.
    pub count: u64,
    /// Address for forwarded clients; empty if not published.
    pub url: String,
    /// Lease of a heartbeat, in seconds.
    pub lease_s: u32,
}

impl Beat {
    /// Encodes the heartbeat as one JSON object.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers are JSON")
    }

    /// Decodes a heartbeat.
    ///
    /// # Errors
    /// REM-40.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let wrong = |why: String| Damage::new("REM-40", why);
        if bytes.len() > BEAT_BYTES_MAX {
            return Err(wrong(format!("{} bytes; {BEAT_BYTES_MAX} are allowed", bytes.len())));
        }
        let beat: Self = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if beat.url.len() > URL_BYTES_MAX {
            return Err(wrong(format!("`url` is longer than {URL_BYTES_MAX} bytes")));
        }
        Ok(beat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_is_read_as_it_is_written() {
        let beat = Beat {
            node: NodeId::new("box-1").unwrap(),
            run: Nonce::NONE,
            count: 9,
            url: "http://127.0.0.1:7070".into(),
            lease_s: 15,
        };
        assert_eq!(Beat::decode(&beat.encode()), Ok(beat.clone()));
        let long = Beat { url: "x".repeat(URL_BYTES_MAX + 1), ..beat };
        for wrong in [&b""[..], b"{}", &long.encode(), &[b' '; BEAT_BYTES_MAX + 1]] {
            assert_eq!(Beat::decode(wrong).unwrap_err().rule, "REM-40");
        }
    }
}
