//! The service's Ed25519 key (RFC 8032): signing and verification.
//!
//! A single key signs ledger checkpoints and grounding tokens. Each kind of message has a prefix of its own, so a
//! signature of one kind never passes for another.

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use engine::ledger::{CheckpointSigner, CheckpointVerifier, KeyId, Signature};
use sha2::{Digest, Sha256};
use std::fmt;

/// Maximum number of public keys of a verifier: the current key and the retired keys.
const KEYS_MAX: usize = 64;

/// The private key. Wiped from memory on drop.
#[derive(Clone)]
pub struct Signer {
    key: SigningKey,
    id: KeyId,
}

impl Signer {
    /// Derives the key from a 32-byte seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(seed);
        let id = id_of(&key.verifying_key());
        Self { key, id }
    }

    /// Key id: the first 8 bytes of the SHA-256 of the public key.
    pub fn key_id(&self) -> KeyId {
        self.id
    }

    /// Signs `message`.
    pub fn sign(&self, message: &[u8]) -> Signature {
        self.key.sign(message).to_bytes()
    }

    /// The public key.
    pub fn public(&self) -> [u8; 32] {
        self.key.verifying_key().to_bytes()
    }

    /// A verifier that trusts this key only.
    pub fn verifier(&self) -> Verifier {
        Verifier { keys: vec![(self.id, self.key.verifying_key())] }
    }
}

impl CheckpointSigner for Signer {
    fn key_id(&self) -> KeyId {
        self.id
    }

    fn sign(&self, message: &[u8]) -> Signature {
        Self::sign(self, message)
    }
}

/// A set of trusted public keys.
#[derive(Debug, Clone)]
pub struct Verifier {
    keys: Vec<(KeyId, VerifyingKey)>,
}

/// Reason for rejecting a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// Not a point on the curve, or a point of small order.
    NotAKey,
    /// More keys than this maximum.
    TooMany(usize),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAKey => f.write_str("these 32 bytes are not an Ed25519 public key"),
            Self::TooMany(max) => write!(f, "at most {max} public keys can be trusted"),
        }
    }
}

impl std::error::Error for KeyError {}

impl Verifier {
    /// A verifier that trusts `keys`, each a public key.
    pub fn new(keys: &[[u8; 32]]) -> Result<Self, KeyError> {
        if keys.len() > KEYS_MAX {
            return Err(KeyError::TooMany(KEYS_MAX));
        }
        let key = |bytes: &[u8; 32]| {
            let key = VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak());
            key.map(|key| (id_of(&key), key)).ok_or(KeyError::NotAKey)
        };
        Ok(Self { keys: keys.iter().map(key).collect::<Result<_, _>>()? })
    }

    /// Returns true if the verifier trusts a key whose id starts with `id`.
    pub fn knows(&self, id: &[u8]) -> bool {
        self.keys.iter().any(|(known, _)| known.starts_with(id))
    }

    /// Returns true if a trusted key whose id starts with `id` signed `message`. Strict: small-order points and
    /// non-canonical signatures are rejected, so a message has one signature encoding.
    pub fn is_signed(&self, id: &[u8], message: &[u8], signature: &Signature) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature);
        let mut named = self.keys.iter().filter(|(known, _)| known.starts_with(id));
        named.any(|(_, key)| key.verify_strict(message, &signature).is_ok())
    }
}

impl CheckpointVerifier for Verifier {
    fn is_valid(&self, key: KeyId, message: &[u8], signature: &Signature) -> bool {
        self.is_signed(&key, message, signature)
    }
}

fn id_of(key: &VerifyingKey) -> KeyId {
    let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
    *hash.first_chunk().expect("a hash has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_8032_test_2_signs_and_checks() {
        // RFC 8032, section 7.1, TEST 2.
        let seed = hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
        let signer = Signer::from_seed(&seed.try_into().unwrap());
        assert_eq!(
            signer.public()[..],
            hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
        );
        let signature = signer.sign(&[0x72]);
        assert_eq!(signature[..4], hex("92a009a9"));
        let verifier = Verifier::new(&[signer.public()]).unwrap();
        assert!(verifier.is_valid(signer.key_id(), &[0x72], &signature));
        assert!(!verifier.is_valid(signer.key_id(), &[0x73], &signature));
        assert!(!verifier.is_valid([0; 8], &[0x72], &signature));
    }

    #[test]
    fn a_ledger_sealed_by_this_key_verifies_with_its_public_half() {
        use engine::ledger::{
            Decision, EntryDraft, Ledger, LedgerOptions, Outcome, VerifyOptions, verify,
        };
        let folder =
            std::env::temp_dir().join(format!("sealed-ledger-test-{}", std::process::id()));
        let signer = Signer::from_seed(&[8; 32]);
        let with =
            LedgerOptions { tenant: [1; 32], signer: Box::new(signer.clone()), anchor: None };
        let mut ledger = Ledger::open(&folder, with).unwrap();
        let draft = EntryDraft {
            at_micros: 1,
            receipt: [2; 16],
            tool: "recall",
            principal: "operator",
            decision: Decision::Allow,
            rule: "default/operator",
            arguments: [3; 32],
            touched: &[],
            outcome: Outcome::Done,
        };
        ledger.append(&draft).unwrap();
        ledger.close(2).unwrap();
        let by = |key: &Signer| verify(&folder, &VerifyOptions::all(&key.verifier())).unwrap();
        let (ours, theirs) = (by(&signer), by(&Signer::from_seed(&[9; 32])));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(ours.ok && ours.checkpoints.count == 1 && ours.unsigned == 0, "{ours:?}");
        assert!(!theirs.ok && !theirs.checkpoints.ok, "{theirs:?}");
    }

    #[test]
    fn bytes_that_are_no_key_are_refused() {
        // The neutral element: on the curve, but of small order.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        assert_eq!(Verifier::new(&[neutral]).unwrap_err(), KeyError::NotAKey);
        let good = Signer::from_seed(&[1; 32]).public();
        assert_eq!(Verifier::new(&[good; KEYS_MAX + 1]).unwrap_err(), KeyError::TooMany(KEYS_MAX));
    }

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
            .collect()
    }
}
