//! What one node says to another of the control store: signed by the secret that both have.
//!
//! Owns the form of these messages (format-spec/nodes.md, Between nodes). Must not know how they are sent.

use engine::hex;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::auth::{ClusterSecret, bytes_of_hex};

/// The path where one node asks another.
pub const PATH: &str = "/nodes/control";
/// The field of a message that says when it was signed, and by whom it can only be.
pub(super) const SIGNED: &str = "recalld-signed";
/// Bytes of a message or of its answer: as many settlements as a flush has.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Settlements of one message.
pub(super) const SETTLEMENTS_MAX: usize = 4096;
/// How long ago a message may have been signed, or how far ahead the other clock may be, in seconds.
const SIGNED_SECONDS_MAX: u64 = 60;

/// What the key of signatures is derived under.
const KEY: &[u8] = b"recalld nodes 1\0";

/// What is asked of the node that writes the control store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Asked {
    /// Part of a workspace's quota.
    TakeBlock { slug: String, month: String, wanted: u32, quota: Option<u64> },
    /// What was used of such parts.
    Settle { settlements: Vec<Settled> },
    /// The last checkpoint of a ledger of the node that asks.
    Anchor { slug: String, node: String, seq: u64, head: String, at: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settled {
    pub(super) slug: String,
    pub(super) month: String,
    pub(super) block: u64,
    pub(super) used: u32,
    pub(super) keep: bool,
}

/// What is answered to [`Asked::TakeBlock`]; nothing where nothing is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) block: Option<GivenBlock>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GivenBlock {
    pub(super) id: u64,
    pub(super) calls: u32,
    /// In seconds since 1970.
    pub(super) expires_at: u64,
}

/// The value of the field of a message: when, and the signature of that and of its bytes.
pub(super) fn signed(secret: &ClusterSecret, now: u64, body: &[u8]) -> String {
    format!("{now}.{}", hex(&signature(secret, now, body)))
}

/// Whether a message was signed by a node that has the secret, a moment ago.
pub(super) fn is_signed(secret: &ClusterSecret, field: &str, now: u64, body: &[u8]) -> bool {
    let Some((at, shown)) = field.split_once('.') else { return false };
    let (Ok(at), Some(shown)) = (at.parse::<u64>(), bytes_of_hex(shown)) else { return false };
    let is_right: bool = signature(secret, at, body).ct_eq(&shown).into();
    is_right && at.abs_diff(now) <= SIGNED_SECONDS_MAX
}

fn signature(secret: &ClusterSecret, at: u64, body: &[u8]) -> [u8; 32] {
    let said = [&at.to_le_bytes()[..], body].concat();
    *secret.derive(KEY, &said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_secret_signs_and_only_for_a_while() {
        let (ours, theirs) = (ClusterSecret::of([1; 32]), ClusterSecret::of([2; 32]));
        let field = signed(&ours, 1_000, b"body");
        assert!(is_signed(&ours, &field, 1_000, b"body"));
        assert!(is_signed(&ours, &field, 1_060, b"body") && is_signed(&ours, &field, 940, b"body"));
        assert!(
            !is_signed(&ours, &field, 1_061, b"body") && !is_signed(&ours, &field, 939, b"body")
        );
        assert!(!is_signed(&theirs, &field, 1_000, b"body"));
        assert!(!is_signed(&ours, &field, 1_000, b"bodY"));
        assert!(!is_signed(&ours, &field.replacen("1000", "1001", 1), 1_000, b"body"));
        for wrong in ["", ".", "1000", "1000.00", "x.y"] {
            assert!(!is_signed(&ours, wrong, 1_000, b"body"), "{wrong:?}");
        }
    }
}
