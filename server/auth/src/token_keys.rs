//! Token keys: the current signing key, and its predecessors, whose tokens are still valid.
//!
//! The key id is the thumbprint of the public key (RFC 7638), so an id never means another key.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::signing::{KeyError, Signer};

/// Maximum number of keys, including the current one. Keys rotate monthly and tokens live for at most a day, so two
/// keys are the rule.
pub const TOKEN_KEYS_MAX: usize = 16;
/// Length of a key id: 32 bytes in base64url characters.
pub(super) const KEY_ID_CHARS: usize = 43;

/// A private key for access tokens. Wiped from memory on drop.
#[derive(Clone)]
pub struct TokenKey {
    signer: Signer,
    id: String,
}

impl TokenKey {
    /// Derives the key from a 32-byte seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let signer = Signer::from_seed(seed);
        let id = thumbprint(&signer.public());
        Self { signer, id }
    }

    /// Key id, the `kid` of its tokens.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The public key.
    pub fn public(&self) -> [u8; 32] {
        self.signer.public()
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.signer.sign(message)
    }
}

#[derive(Debug, Clone)]
struct PublicKey {
    id: String,
    key: VerifyingKey,
}

/// The trusted public keys.
#[derive(Debug, Clone)]
pub struct TokenKeys {
    keys: Vec<PublicKey>,
}

impl TokenKeys {
    /// Trusts these public keys, the current one first.
    ///
    /// # Errors
    /// A key is not an Ed25519 key, or there are more than [`TOKEN_KEYS_MAX`].
    pub fn new(public: &[[u8; 32]]) -> Result<Self, KeyError> {
        if public.len() > TOKEN_KEYS_MAX {
            return Err(KeyError::TooMany(TOKEN_KEYS_MAX));
        }
        let key = |bytes: &[u8; 32]| {
            let key = VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak());
            key.map(|key| PublicKey { id: thumbprint(bytes), key }).ok_or(KeyError::NotAKey)
        };
        Ok(Self { keys: public.iter().map(key).collect::<Result<_, _>>()? })
    }

    /// Returns true if the key with this id is trusted.
    pub fn knows(&self, id: &str) -> bool {
        self.find(id).is_some()
    }

    /// Returns true if the key with this id signed `message`; `None` for an untrusted key. Strict: small-order points
    /// and non-canonical signatures are rejected, so a token has one encoding.
    pub(super) fn is_signed(&self, id: &str, message: &[u8], signature: &[u8; 64]) -> Option<bool> {
        let signature = Signature::from_bytes(signature);
        self.find(id).map(|found| found.key.verify_strict(message, &signature).is_ok())
    }

    /// The published JWKS (RFC 7517; RFC 8037, section 2).
    pub fn document(&self) -> Value {
        let key = |known: &PublicKey| {
            json!({
                "kty": "OKP",
                "crv": "Ed25519",
                "x": BASE64_URL_SAFE_NO_PAD.encode(known.key.as_bytes()),
                "kid": known.id,
                "use": "sig",
                "alg": "EdDSA",
            })
        };
        json!({"keys": self.keys.iter().map(key).collect::<Vec<_>>()})
    }

    fn find(&self, id: &str) -> Option<&PublicKey> {
        self.keys.iter().find(|known| known.id == id)
    }
}

/// The JWK thumbprint of a public key: SHA-256 of its required members in order of their names, without white space
/// (RFC 7638, section 3; RFC 8037, section 2).
fn thumbprint(public: &[u8; 32]) -> String {
    let x = BASE64_URL_SAFE_NO_PAD.encode(public);
    let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 8037, appendix A.1.
    const RFC_8037_D: &str = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";

    fn rfc_8037() -> TokenKey {
        let seed = BASE64_URL_SAFE_NO_PAD.decode(RFC_8037_D).unwrap();
        TokenKey::from_seed(&seed.try_into().unwrap())
    }

    #[test]
    fn a_key_is_called_as_rfc_8037_calls_it() {
        let key = rfc_8037();
        assert_eq!(key.id(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
        assert_eq!(key.id().len(), KEY_ID_CHARS);
        let document = TokenKeys::new(&[key.public()]).unwrap().document();
        let wanted = json!({"keys": [{
            "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
            "kid": "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", "use": "sig", "alg": "EdDSA",
        }]});
        assert_eq!(document, wanted);
    }

    #[test]
    fn retired_keys_are_published_behind_the_current_one_and_no_private_half_is() {
        let (new, old) = (TokenKey::from_seed(&[1; 32]), TokenKey::from_seed(&[2; 32]));
        let keys = TokenKeys::new(&[new.public(), old.public()]).unwrap();
        let document = keys.document();
        let ids: Vec<&str> = document["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key["kid"].as_str().unwrap())
            .collect();
        assert_eq!(ids, [new.id(), old.id()]);
        assert!(document["keys"].as_array().unwrap().iter().all(|key| key.get("d").is_none()));
        assert!(keys.knows(old.id()) && !keys.knows(TokenKey::from_seed(&[3; 32]).id()));
    }

    #[test]
    fn a_signature_is_good_under_the_key_that_is_named_only() {
        let (one, two) = (TokenKey::from_seed(&[1; 32]), TokenKey::from_seed(&[2; 32]));
        let keys = TokenKeys::new(&[one.public(), two.public()]).unwrap();
        let signature = one.sign(b"text");
        assert_eq!(keys.is_signed(one.id(), b"text", &signature), Some(true));
        assert_eq!(keys.is_signed(two.id(), b"text", &signature), Some(false));
        assert_eq!(keys.is_signed("other", b"text", &signature), None);
    }

    #[test]
    fn bytes_that_are_no_key_and_too_many_keys_are_refused() {
        // The neutral element: on the curve, but of small order.
        let mut neutral = [0; 32];
        neutral[0] = 1;
        assert_eq!(TokenKeys::new(&[neutral]).unwrap_err(), KeyError::NotAKey);
        let good = TokenKey::from_seed(&[1; 32]).public();
        let error = TokenKeys::new(&[good; TOKEN_KEYS_MAX + 1]).unwrap_err();
        assert_eq!(error, KeyError::TooMany(TOKEN_KEYS_MAX));
    }
}
