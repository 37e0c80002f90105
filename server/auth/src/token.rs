//! Access tokens: JWTs (RFC 7519, RFC 9068) with one algorithm and one canonical form.
//!
//! Defines the token's bytes (format-spec/oauth.md, ATT). A valid token was issued here, for this resource, and has not
//! expired. Revocation is checked by token introspection against the control store.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

use super::check::BEARER_BYTES_MAX;
use super::token_keys::{KEY_ID_CHARS, TokenKey, TokenKeys};

/// Longest accepted token in bytes; fits an `Authorization` header.
pub const TOKEN_BYTES_MAX: usize = BEARER_BYTES_MAX;
/// Longest lifetime of a token: a day, in seconds.
pub const TOKEN_SECONDS_MAX: u64 = 86_400;
/// Tolerated clock skew of the issuer into the future, in seconds.
pub const ISSUED_LEEWAY_SECONDS: u64 = 30;

/// The header before and after the key id. No other header is accepted.
const HEADER_START: &str = r#"{"alg":"EdDSA","kid":""#;
const HEADER_END: &str = r#"","typ":"at+jwt"}"#;
/// Length of the header in base64url characters.
const HEADER_CHARS: usize =
    ((HEADER_START.len() + KEY_ID_CHARS + HEADER_END.len()) * 4).div_ceil(3);
const SIGNATURE_BYTES: usize = 64;

/// Claims of an access token. Times are in seconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// `aud`: the resource, compared byte for byte.
    pub audience: String,
    /// `client_id`: the client of the token.
    pub client: String,
    /// `exp`: the first second in which the token is expired.
    pub expires_at: u64,
    /// `iat`: time of issue.
    pub issued_at: u64,
    /// `iss`: the issuer, compared byte for byte.
    pub issuer: String,
    /// `jti`: id of the token.
    pub id: String,
    /// `scope`: granted scopes, separated by single spaces.
    pub scope: String,
    /// `sid`: the session id, which names a grant or credential. Revoking the session revokes the token.
    pub hangs_on: String,
    /// `sub`: the principal.
    pub subject: String,
    /// `workspace`: the workspace opened by the token.
    pub workspace: String,
}

/// Reason for rejecting an access token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenRefusal {
    /// Too long; carries the length in bytes (ATT-01).
    TooLong(usize),
    /// Not three parts separated by dots (ATT-01).
    Parts,
    /// A part is not canonical base64url (ATT-01).
    Encoding,
    /// The header differs from the only accepted header (ATT-02).
    Header,
    /// The named key is not trusted (ATT-03).
    UnknownKey,
    /// The signature does not match the named key (ATT-04).
    Forged,
    /// The payload is not a set of claims in canonical form (ATT-05).
    Claims,
    /// Issued by another issuer (ATT-06).
    OtherIssuer,
    /// Issued for another resource (ATT-06).
    OtherAudience,
    /// Lifetime out of range; carries the lifetime in seconds (ATT-07).
    Lifetime(u64),
    /// Issued in the future (ATT-07).
    NotYet,
    /// Expired (ATT-07).
    Expired,
}

impl TokenRefusal {
    /// The reason in logs and counters, in `snake_case`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLong(_) => "token_too_long",
            Self::Parts => "not_three_parts",
            Self::Encoding => "not_base64url",
            Self::Header => "other_header",
            Self::UnknownKey => "unknown_key",
            Self::Forged => "bad_signature",
            Self::Claims => "other_claims",
            Self::OtherIssuer => "other_issuer",
            Self::OtherAudience => "other_audience",
            Self::Lifetime(_) => "too_long_a_life",
            Self::NotYet => "not_yet_good",
            Self::Expired => "expired",
        }
    }
}

impl fmt::Display for TokenRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(found) => {
                write!(f, "an access token has at most {TOKEN_BYTES_MAX} bytes, this has {found}")
            }
            Self::Parts => f.write_str("an access token is three parts with a dot between two"),
            Self::Encoding => {
                f.write_str("each part of an access token is base64url without padding")
            }
            Self::Header => {
                f.write_str("the header is not {\"alg\":\"EdDSA\",\"kid\":...,\"typ\":\"at+jwt\"}")
            }
            Self::UnknownKey => f.write_str("the access token names a key that is not trusted"),
            Self::Forged => f.write_str("the signature is not that of the key that is named"),
            Self::Claims => f.write_str("the claims are not written as this service writes them"),
            Self::OtherIssuer => f.write_str("another issuer made the access token"),
            Self::OtherAudience => f.write_str("the access token is for another resource"),
            Self::Lifetime(found) => {
                write!(f, "a token lives for 1 to {TOKEN_SECONDS_MAX} s, this one for {found}")
            }
            Self::NotYet => f.write_str("the access token was made later than now"),
            Self::Expired => f.write_str("the access token has expired"),
        }
    }
}

impl std::error::Error for TokenRefusal {}

/// Encodes and signs an access token.
pub fn mint(key: &TokenKey, claims: &Claims) -> String {
    let header = format!("{HEADER_START}{}{HEADER_END}", key.id());
    let mut token = BASE64_URL_SAFE_NO_PAD.encode(header);
    token.push('.');
    BASE64_URL_SAFE_NO_PAD.encode_string(claims.written(), &mut token);
    let signature = key.sign(token.as_bytes());
    token.push('.');
    BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    token
}

/// Verifies a token in this order: form, header, key, signature, claims, issuer, audience, times. `now` is in seconds
/// since the Unix epoch.
///
/// # Errors
/// The first rule that the token violates.
pub fn check(
    text: &str,
    keys: &TokenKeys,
    issuer: &str,
    audience: &str,
    now: u64,
) -> Result<Claims, TokenRefusal> {
    let signed = open(text, keys)?;
    signed.claims.hold(issuer, audience, now)?;
    Ok(signed.claims)
}

/// A token with a valid signature.
pub(super) struct Signed {
    /// Id of the signing key.
    pub(super) key_id: String,
    /// The signed claims.
    pub(super) claims: Claims,
}

/// Verifies the time-independent properties of a token: form, signature and claims.
pub(super) fn open(text: &str, keys: &TokenKeys) -> Result<Signed, TokenRefusal> {
    if text.len() > TOKEN_BYTES_MAX {
        return Err(TokenRefusal::TooLong(text.len()));
    }
    let (message, signature) = text.rsplit_once('.').ok_or(TokenRefusal::Parts)?;
    let (header, payload) = message.split_once('.').ok_or(TokenRefusal::Parts)?;
    if payload.contains('.') {
        return Err(TokenRefusal::Parts);
    }
    let key_id = key_id_of(header)?;
    let signature: [u8; SIGNATURE_BYTES] =
        decoded(signature)?.try_into().map_err(|_| TokenRefusal::Forged)?;
    let payload = decoded(payload)?;
    match keys.is_signed(&key_id, message.as_bytes(), &signature) {
        None => Err(TokenRefusal::UnknownKey),
        Some(false) => Err(TokenRefusal::Forged),
        Some(true) => Ok(Signed { key_id, claims: Claims::read(&payload)? }),
    }
}

/// Extracts the key id from a header. The header is compared byte for byte and never interpreted: any other member
/// (`alg: none`, an embedded key, a key URL, `crit`) makes a different text.
fn key_id_of(header: &str) -> Result<String, TokenRefusal> {
    if header.len() != HEADER_CHARS {
        return Err(TokenRefusal::Header);
    }
    let text = String::from_utf8(decoded(header)?).map_err(|_| TokenRefusal::Header)?;
    let rest = text.strip_prefix(HEADER_START).ok_or(TokenRefusal::Header)?;
    let id = rest.strip_suffix(HEADER_END).ok_or(TokenRefusal::Header)?;
    let is_id = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_id { Ok(id.to_owned()) } else { Err(TokenRefusal::Header) }
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenRefusal> {
    BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenRefusal::Encoding)
}

impl Claims {
    /// Checks issuer, audience and times at `now` (ATT-06, ATT-07).
    pub(super) fn hold(&self, issuer: &str, audience: &str, now: u64) -> Result<(), TokenRefusal> {
        let life = self.expires_at.saturating_sub(self.issued_at);
        if self.issuer != issuer {
            Err(TokenRefusal::OtherIssuer)
        } else if self.audience != audience {
            Err(TokenRefusal::OtherAudience)
        } else if !(1..=TOKEN_SECONDS_MAX).contains(&life) {
            Err(TokenRefusal::Lifetime(life))
        } else if self.issued_at > now.saturating_add(ISSUED_LEEWAY_SECONDS) {
            Err(TokenRefusal::NotYet)
        } else if now >= self.expires_at {
            Err(TokenRefusal::Expired)
        } else {
            Ok(())
        }
    }

    /// The canonical JSON form: members in order of their names, without white space.
    fn written(&self) -> String {
        let text = |text: &str| Value::from(text).to_string();
        format!(
            concat!(
                r#"{{"aud":{},"client_id":{},"exp":{},"iat":{},"iss":{},"jti":{},"#,
                r#""scope":{},"sid":{},"sub":{},"workspace":{}}}"#
            ),
            text(&self.audience),
            text(&self.client),
            self.expires_at,
            self.issued_at,
            text(&self.issuer),
            text(&self.id),
            text(&self.scope),
            text(&self.hangs_on),
            text(&self.subject),
            text(&self.workspace),
        )
    }

    /// Parses a payload and rejects any byte that differs from the canonical form. This excludes repeated members,
    /// unknown members (`nbf`, `cnf`, ... would restrict the token), and other spellings of numbers and texts.
    fn read(payload: &[u8]) -> Result<Self, TokenRefusal> {
        let value: Value = serde_json::from_slice(payload).map_err(|_| TokenRefusal::Claims)?;
        let text = |name: &str| value[name].as_str().map(str::to_owned).ok_or(TokenRefusal::Claims);
        let seconds = |name: &str| value[name].as_u64().ok_or(TokenRefusal::Claims);
        let claims = Self {
            audience: text("aud")?,
            client: text("client_id")?,
            expires_at: seconds("exp")?,
            issued_at: seconds("iat")?,
            issuer: text("iss")?,
            id: text("jti")?,
            scope: text("scope")?,
            hangs_on: text("sid")?,
            subject: text("sub")?,
            workspace: text("workspace")?,
        };
        if claims.written().as_bytes() == payload { Ok(claims) } else { Err(TokenRefusal::Claims) }
    }
}

#[cfg(test)]
mod tests;
