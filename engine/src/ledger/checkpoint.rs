//! Signed checkpoints: the body of a checkpoint and the message that is signed.
//!
//! Signing and verifying are traits of the caller, so this module has no keys.

use super::entry::Hash;
use super::layout::*;

/// First 8 bytes of the SHA-256 of an Ed25519 public key.
pub type KeyId = [u8; 8];
/// Ed25519 signature.
pub type Signature = [u8; 64];

/// Domain separator: a checkpoint's signature is never valid as another kind of signature.
const DOMAIN: &[u8] = b"ledger checkpoint v1\0";

/// Signs checkpoints with the service's key.
pub trait CheckpointSigner: Send {
    /// Id of the signing key.
    fn key_id(&self) -> KeyId;
    /// Returns the Ed25519 signature of `message` (RFC 8032, section 5.1).
    fn sign(&self, message: &[u8]) -> Signature;
}

/// Verifies checkpoints with public keys.
pub trait CheckpointVerifier {
    /// Returns true if `signature` is the signature of `key` over `message`, and the caller trusts `key`.
    fn is_valid(&self, key: KeyId, message: &[u8], signature: &Signature) -> bool;
}

/// Checkpoint stored outside the ledger, which exposes a truncated ledger (LED-19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    /// Sequence number of the last covered entry.
    pub seq: u64,
    /// Hash of the last covered entry.
    pub head: Hash,
}

/// Signed statement that the ledger up to entry `seq` has the hash `head`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Sequence number of the last covered entry.
    pub seq: u64,
    /// Hash of the last covered entry.
    pub head: Hash,
    /// Time of signing, in microseconds.
    pub at_micros: u64,
    /// Id of the signing key.
    pub key: KeyId,
    /// Signature over the tenant, `seq`, `head` and `at_micros`.
    pub signature: Signature,
}

impl Checkpoint {
    pub(super) fn sign(
        seal: &dyn CheckpointSigner,
        tenant: &Hash,
        seq: u64,
        head: Hash,
        at_micros: u64,
    ) -> Self {
        let signature = seal.sign(&message(tenant, seq, &head, at_micros));
        Self { seq, head, at_micros, key: seal.key_id(), signature }
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, &'static str> {
        if body.len() != CHECKPOINT_BYTES {
            return Err("not the length of a checkpoint");
        }
        if !all_zero(&body[CHECKPOINT_RESERVED..CHECKPOINT_SEQ]) {
            return Err("reserved bytes are not zero");
        }
        Ok(Self {
            seq: u64::from_le_bytes(at(body, CHECKPOINT_SEQ)),
            head: at(body, CHECKPOINT_HEAD),
            at_micros: u64::from_le_bytes(at(body, CHECKPOINT_AT_MICROS)),
            key: at(body, CHECKPOINT_KEY),
            signature: at(body, CHECKPOINT_SIGNATURE),
        })
    }

    /// Returns the anchor to store outside the ledger.
    pub fn anchor(&self) -> Anchor {
        Anchor { seq: self.seq, head: self.head }
    }

    /// Returns true if a trusted key signed this checkpoint for the ledger of `tenant`, the SHA-256 of the tenant's
    /// name (LED-16).
    pub fn is_signed(&self, tenant: &Hash, seals: &dyn CheckpointVerifier) -> bool {
        seals.is_valid(
            self.key,
            &message(tenant, self.seq, &self.head, self.at_micros),
            &self.signature,
        )
    }

    pub(super) fn encode(&self) -> [u8; CHECKPOINT_BYTES] {
        let mut body = [0; CHECKPOINT_BYTES];
        let mut put = |at: usize, bytes: &[u8]| body[at..at + bytes.len()].copy_from_slice(bytes);
        put(CHECKPOINT_KIND, &[KIND_CHECKPOINT]);
        put(CHECKPOINT_SEQ, &self.seq.to_le_bytes());
        put(CHECKPOINT_HEAD, &self.head);
        put(CHECKPOINT_AT_MICROS, &self.at_micros.to_le_bytes());
        put(CHECKPOINT_KEY, &self.key);
        put(CHECKPOINT_SIGNATURE, &self.signature);
        body
    }
}

fn message(tenant: &Hash, seq: u64, head: &Hash, at_micros: u64) -> Vec<u8> {
    [DOMAIN, tenant, &seq.to_le_bytes(), head, &at_micros.to_le_bytes()].concat()
}

fn at<const N: usize>(body: &[u8], offset: usize) -> [u8; N] {
    bytes_at(body, offset).expect("the offset lies in the body, whose length was checked")
}
