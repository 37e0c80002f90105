//! Proof Key for Code Exchange (RFC 7636): S256 only.
//!
//! Validates the form of challenge and verifier. The comparison of the two is in `control`, where a code is redeemed.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::error::{ErrorCode, OAuthError};
use super::form::Form;

/// The only supported `code_challenge_method`.
pub(super) const METHOD: &str = "S256";
/// Length of a challenge in characters: a SHA-256 in base64url.
const CHALLENGE_CHARS: usize = 43;
/// Length of a verifier in characters (RFC 7636, section 4.1).
const VERIFIER_CHARS: std::ops::RangeInclusive<usize> = 43..=128;

/// A code challenge in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge([u8; 32]);

impl Challenge {
    /// Parses the challenge of an authorization request.
    ///
    /// # Errors
    /// `invalid_request` if the challenge is missing or not a SHA-256, or if the method is not S256; without a method,
    /// `plain` would apply.
    pub fn of_request(form: &Form) -> Result<Self, OAuthError> {
        let challenge = form.need("code_challenge")?;
        if form.once("code_challenge_method")? != Some(METHOD) {
            return Err(invalid("code_challenge_method must be S256"));
        }
        Self::of_text(challenge)
            .ok_or_else(|| invalid("code_challenge must be a SHA-256 in base64url, 43 characters"))
    }

    /// Parses the text form returned by [`Challenge::text`].
    pub fn of_text(text: &str) -> Option<Self> {
        let bytes = Some(text).filter(|text| text.len() == CHALLENGE_CHARS)?;
        BASE64_URL_SAFE_NO_PAD.decode(bytes).ok()?.try_into().ok().map(Self)
    }

    /// The base64url form, as sent by the client and stored.
    pub fn text(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0)
    }
}

/// The well-formed `code_verifier` of a token request.
///
/// # Errors
/// `invalid_request` if the verifier is missing or malformed.
pub(super) fn verifier(form: &Form) -> Result<&str, OAuthError> {
    let verifier = form.need("code_verifier")?;
    let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if !VERIFIER_CHARS.contains(&verifier.len()) || !verifier.bytes().all(is_unreserved) {
        return Err(invalid("code_verifier must be 43 to 128 letters, digits or -._~"));
    }
    Ok(verifier)
}

fn invalid(description: &str) -> OAuthError {
    OAuthError::new(ErrorCode::InvalidRequest, description)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example of RFC 7636, appendix B.
    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    fn form(text: &str) -> Form {
        Form::of_query(Some(text)).ok().unwrap()
    }

    fn challenge(text: &str) -> Result<Challenge, ErrorCode> {
        Challenge::of_request(&form(text)).map_err(|error| error.code())
    }

    #[test]
    fn the_example_of_rfc_7636_passes() {
        let request = format!("code_challenge={CHALLENGE}&code_challenge_method=S256");
        let challenge = challenge(&request).unwrap();
        assert_eq!(challenge.text(), CHALLENGE);
        assert_eq!(Challenge::of_text(CHALLENGE), Some(challenge.clone()));
        let token_request = form(&format!("code_verifier={VERIFIER}"));
        assert_eq!(verifier(&token_request), Ok(VERIFIER));
    }

    #[test]
    fn no_weaker_request_is_taken() {
        for request in [
            String::new(),
            "code_challenge_method=S256".into(),
            format!("code_challenge={CHALLENGE}"),
            format!("code_challenge={CHALLENGE}&code_challenge_method="),
            format!("code_challenge={VERIFIER}&code_challenge_method=plain"),
            format!("code_challenge={CHALLENGE}&code_challenge_method=s256"),
            format!(
                "code_challenge={CHALLENGE}&code_challenge_method=S256&code_challenge_method=plain"
            ),
            format!("code_challenge={CHALLENGE}%3D&code_challenge_method=S256"),
            format!("code_challenge={}&code_challenge_method=S256", &CHALLENGE[1..]),
            format!("code_challenge={}!&code_challenge_method=S256", &CHALLENGE[1..]),
            // A second spelling of the same bytes.
            format!("code_challenge={}N&code_challenge_method=S256", &CHALLENGE[..42]),
        ] {
            assert_eq!(challenge(&request), Err(ErrorCode::InvalidRequest), "{request}");
        }
    }

    #[test]
    fn a_verifier_is_there_and_well_formed() {
        let check = |text: &str| {
            let form = form(text);
            verifier(&form).map(str::to_owned).map_err(|error| error.code())
        };
        let with = |verifier: &str| check(&format!("code_verifier={verifier}"));
        for missing in ["", "code_verifier=", "verifier=a"] {
            assert_eq!(check(missing), Err(ErrorCode::InvalidRequest), "{missing}");
        }
        for malformed in [&VERIFIER[1..], &"a".repeat(129), &format!("{}+", &VERIFIER[1..])] {
            assert_eq!(with(malformed), Err(ErrorCode::InvalidRequest), "{malformed}");
        }
        for good in [&"a".repeat(43), &"~".repeat(128)] {
            assert_eq!(with(good).as_ref(), Ok(good));
        }
    }
}
