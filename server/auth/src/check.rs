//! Operator credentials: checks the gateway's id and secret, and the bearer token.
//!
//! Holds hashes only. Only headers are checked; a bearer token in a URL is never accepted.

use recalld_common::secret::SecretHash;

/// Longest accepted bearer token in bytes; a longer token is invalid.
pub const BEARER_BYTES_MAX: usize = 8_192;
const SCHEME: &[u8] = b"bearer";

/// The identity behind a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The workspace opened by the credential.
    pub workspace: String,
    /// The name in audit entries and policy rules.
    pub name: String,
    /// The plan: `free`, `team` or `operator`.
    pub plan: String,
}

/// Result of checking an `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bearer {
    /// No bearer token: 401 without `error`.
    Missing,
    /// Unknown bearer token: 401 with `error="invalid_token"`.
    Wrong,
    /// Valid bearer token.
    Ok(Principal),
}

/// Hashes of one set of credentials.
#[derive(Clone)]
pub struct Checker {
    pub(super) gateway_client_id: SecretHash,
    pub(super) gateway_client_secret: SecretHash,
    pub(super) bearer: SecretHash,
    pub(super) principal: Principal,
}

impl Checker {
    /// Returns true if both the gateway's id and secret match. Both are always compared.
    pub fn gateway(&self, id: &[u8], secret: &[u8]) -> bool {
        (self.gateway_client_id.choice(id) & self.gateway_client_secret.choice(secret)).into()
    }

    /// Checks an `Authorization` value (RFC 6750, section 2.1): the scheme in any case, one or more spaces, one token.
    /// Another scheme, or none, counts as missing.
    pub fn bearer(&self, authorization: Option<&[u8]>) -> Bearer {
        let Some(token) = authorization.and_then(token_of) else { return Bearer::Missing };
        let is_ours = token.len() <= BEARER_BYTES_MAX && self.bearer.is_of(token);
        if is_ours { Bearer::Ok(self.principal.clone()) } else { Bearer::Wrong }
    }
}

/// Parses the bearer token of an `Authorization` value like [`Checker::bearer`]; `None` for an overlong token.
pub fn bearer_of(authorization: &str) -> Option<&str> {
    let token = token_of(authorization.as_bytes())?;
    let token = std::str::from_utf8(token).ok()?;
    (token.len() <= BEARER_BYTES_MAX).then_some(token)
}

/// The text after the scheme `Bearer`; `None` for another scheme or empty text.
fn token_of(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at(value.iter().position(|&byte| byte == b' ')?);
    let start = rest.iter().position(|&byte| byte != b' ')?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| &rest[start..])
}

/// Returns true for a `token68` (RFC 9110, section 11.2): letters, digits and `-._~+/`, then any number of `=`. Only
/// such a credential fits a header.
pub(super) fn is_token68(token: &[u8]) -> bool {
    let body = token
        .iter()
        .take_while(|&&byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
        .count();
    body > 0 && token[body..].iter().all(|&byte| byte == b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker() -> Checker {
        let principal = Principal {
            workspace: "local".into(),
            name: "operator".into(),
            plan: "operator".into(),
        };
        Checker {
            gateway_client_id: SecretHash::of(b"id"),
            gateway_client_secret: SecretHash::of(b"secret"),
            bearer: SecretHash::of(b"recalld_pat_x"),
            principal,
        }
    }

    #[test]
    fn the_gateway_needs_both_halves() {
        let checker = checker();
        assert!(checker.gateway(b"id", b"secret"));
        for (id, secret) in
            [("id", "secre"), ("i", "secret"), ("", ""), ("secret", "id"), ("ID", "secret")]
        {
            assert!(!checker.gateway(id.as_bytes(), secret.as_bytes()), "{id}:{secret}");
        }
    }

    #[test]
    fn a_bearer_is_missing_wrong_or_ours() {
        let checker = checker();
        let read = |value: &str| checker.bearer(Some(value.as_bytes()));
        assert_eq!(checker.bearer(None), Bearer::Missing);
        for value in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer   ",
            "Basic recalld_pat_x",
            "recalld_pat_x",
            "Bearer\trecalld_pat_x",
        ] {
            assert_eq!(read(value), Bearer::Missing, "{value:?}");
        }
        for value in [
            "Bearer x",
            "Bearer recalld_pat_",
            "Bearer recalld_pat_xx",
            "Bearer recalld_pat_x y",
            "Bearer recalld_pat_x ",
            "Bearer \"recalld_pat_x\"",
            "Bearer recalld_pat_x,",
            "Bearer ===",
            "Bearer recalld_pat_X",
            "bearer \trecalld_pat_x",
        ] {
            assert_eq!(read(value), Bearer::Wrong, "{value:?}");
        }
        for value in ["Bearer recalld_pat_x", "bearer recalld_pat_x", "BEARER   recalld_pat_x"] {
            assert!(
                matches!(read(value), Bearer::Ok(who) if who.workspace == "local"),
                "{value:?}"
            );
        }
        assert_eq!(
            checker.bearer(Some(&[b"Bearer ".as_slice(), &[b'a'; BEARER_BYTES_MAX + 1]].concat())),
            Bearer::Wrong
        );
        assert_eq!(checker.bearer(Some(b"Bearer \xff\xfe")), Bearer::Wrong);
    }
}
