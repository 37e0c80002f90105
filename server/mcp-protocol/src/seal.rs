//! State tokens: state that travels through the client and is accepted only unmodified.
//!
//! A token is the base64url encoding of 32 bytes of HMAC-SHA-256 and the JSON state. The MAC also covers the principal
//! and the digest of the request, which the token does not contain. So only the same caller with the same request can
//! return the token. The key is generated per process, so no token is valid after a restart.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::os::clock::Random;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::fault::Fault;
use crate::limits::{INPUT_STATE_BYTES_MAX, INPUT_STATE_TIME_MAX};

const MAC_BYTES: usize = 32;

/// Key that issues and verifies state tokens.
pub(super) struct Seal {
    key: [u8; 32],
    began: Instant,
}

/// The principal and the request to which a token is bound.
#[derive(Clone, Copy)]
pub(super) struct Bound<'a> {
    /// The caller's principal.
    pub principal: &'a str,
    /// The method.
    pub method: &'a str,
    /// The parameters of the request; those that change from round to round are ignored.
    pub params: &'a Value,
}

impl Seal {
    pub(super) fn new(random: &dyn Random) -> Self {
        let mut key = [0; 32];
        random.fill(&mut key);
        Self { key, began: Instant::now() }
    }

    /// Issues a token for `state`.
    pub(super) fn seal(&self, bound: Bound<'_>, state: &Value) -> Result<String, Fault> {
        self.seal_at(bound, state, self.began.elapsed())
    }

    fn seal_at(&self, bound: Bound<'_>, state: &Value, now: Duration) -> Result<String, Fault> {
        let until = (now + INPUT_STATE_TIME_MAX).as_secs();
        let text = json!({"until": until, "state": state}).to_string();
        if text.len() > INPUT_STATE_BYTES_MAX {
            return Err(Fault::internal());
        }
        let mut bytes = self.mac(bound, text.as_bytes()).finalize().into_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Verifies a token and returns its state.
    pub(super) fn open(&self, bound: Bound<'_>, seal: &str) -> Result<Value, Fault> {
        self.open_at(bound, seal, self.began.elapsed())
    }

    fn open_at(&self, bound: Bound<'_>, seal: &str, now: Duration) -> Result<Value, Fault> {
        let bad = || Fault::invalid_params("requestState: not one of ours, or not of this request");
        if seal.len() > 2 * INPUT_STATE_BYTES_MAX {
            return Err(bad());
        }
        let bytes = URL_SAFE_NO_PAD.decode(seal).map_err(|_| bad())?;
        let (mac, text) = bytes.split_at_checked(MAC_BYTES).ok_or_else(bad)?;
        self.mac(bound, text).verify_slice(mac).map_err(|_| bad())?;
        let mut sealed: Value = serde_json::from_slice(text).map_err(|_| bad())?;
        if sealed["until"].as_u64().is_none_or(|until| now.as_secs() > until) {
            return Err(Fault::invalid_params("requestState: too old; begin anew"));
        }
        Ok(sealed["state"].take())
    }

    fn mac(&self, bound: Bound<'_>, text: &[u8]) -> Hmac<Sha256> {
        let key = &self.key;
        let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a MAC takes keys of any length");
        let request = json!({
            "principal": bound.principal, "method": bound.method, "name": bound.params["name"],
            "uri": bound.params["uri"], "arguments": bound.params["arguments"],
        });
        mac.update(&Sha256::digest(request.to_string()));
        mac.update(text);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::os::clock::SystemRandom;

    #[test]
    fn only_the_same_caller_with_the_same_request_opens_it() {
        let seal = Seal::new(&SystemRandom);
        let params = json!({"name": "a", "arguments": {"x": 1}});
        let bound = Bound { principal: "ada", method: "tools/call", params: &params };
        let sealed = seal.seal(bound, &json!({"step": 1})).unwrap();
        assert_eq!(seal.open(bound, &sealed), Ok(json!({"step": 1})));
        let later = json!({"name": "a", "arguments": {"x": 1}, "inputResponses": {}, "_meta": {}});
        assert!(seal.open(Bound { params: &later, ..bound }, &sealed).is_ok());
        let other = json!({"name": "a", "arguments": {"x": 2}});
        for wrong in [
            Bound { principal: "bob", ..bound },
            Bound { method: "prompts/get", ..bound },
            Bound { params: &other, ..bound },
        ] {
            assert!(seal.open(wrong, &sealed).is_err());
        }
        assert!(Seal::new(&SystemRandom).open(bound, &sealed).is_err());
    }

    #[test]
    fn a_touched_or_old_seal_does_not_open() {
        let seal = Seal::new(&SystemRandom);
        let params = json!({"name": "a"});
        let bound = Bound { principal: "ada", method: "tools/call", params: &params };
        let sealed = seal.seal_at(bound, &json!(1), Duration::ZERO).unwrap();
        for at in 0..sealed.len() {
            let mut touched = sealed.clone().into_bytes();
            touched[at] = if touched[at] == b'A' { b'B' } else { b'A' };
            let touched = String::from_utf8(touched).unwrap();
            assert!(seal.open_at(bound, &touched, Duration::ZERO).is_err(), "byte {at}");
        }
        for wrong in ["", "AAAA", "-TAMPERED", &format!("{sealed}-TAMPERED")] {
            assert!(seal.open_at(bound, wrong, Duration::ZERO).is_err(), "{wrong}");
        }
        assert!(seal.open_at(bound, &sealed, INPUT_STATE_TIME_MAX).is_ok());
        let late = INPUT_STATE_TIME_MAX + Duration::from_secs(1);
        assert!(seal.open_at(bound, &sealed, late).is_err());
    }
}
