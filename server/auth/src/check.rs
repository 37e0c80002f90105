//! Checks what a request carries: the gateway's token and the bearer.
//!
//! Holds hashes only. Must not know where a header came from: a bearer in a URL never gets here.

use recalld_common::secret::SecretHash;

/// Bytes of an `Authorization` value that are looked at; a longer one is wrong.
pub const BEARER_BYTES_MAX: usize = 8_192;
const SCHEME: &[u8] = b"bearer";

/// Whom a credential stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The workspace whose store the credential opens.
    pub workspace: String,
    /// The name in ledger entries and policy rules.
    pub name: String,
    /// The plan: `free`, `team` or `operator`.
    pub plan: String,
}

/// What the `Authorization` header said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bearer {
    /// No bearer was sent: 401 without `error`.
    Missing,
    /// One was sent, and it is not ours: 401 with `error="invalid_token"`.
    Wrong,
    /// One of ours.
    Ok(Principal),
}

/// The hashes of one set of credentials.
#[derive(Clone)]
pub struct Checker {
    pub(super) gateway_client_id: SecretHash,
    pub(super) gateway_client_secret: SecretHash,
    pub(super) bearer: SecretHash,
    pub(super) principal: Principal,
}

impl Checker {
    /// Whether these are the gateway's id and secret. Both are always compared.
    pub fn gateway(&self, id: &[u8], secret: &[u8]) -> bool {
        (self.gateway_client_id.choice(id) & self.gateway_client_secret.choice(secret)).into()
    }

    /// Reads the value of an `Authorization` header (RFC 6750, section 2.1): the scheme in any
    /// case, one or more spaces, one token. Another scheme, or none, is no bearer.
    pub fn bearer(&self, authorization: Option<&[u8]>) -> Bearer {
        let Some(token) = authorization.and_then(token_of) else { return Bearer::Missing };
        let is_ours = token.len() <= BEARER_BYTES_MAX && self.bearer.is_of(token);
        if is_ours { Bearer::Ok(self.principal.clone()) } else { Bearer::Wrong }
    }
}

/// The token of an `Authorization` header, as [`Checker::bearer`] reads it.
pub fn bearer_of(authorization: &str) -> Option<&str> {
    let token = token_of(authorization.as_bytes())?;
    let token = std::str::from_utf8(token).ok()?;
    (token.len() <= BEARER_BYTES_MAX).then_some(token)
}

/// What follows the scheme `Bearer`; `None` if nothing does, or the scheme is another.
fn token_of(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at(value.iter().position(|&byte| byte == b' ')?);
    let start = rest.iter().position(|&byte| byte != b' ')?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| &rest[start..])
}

/// Whether a credential can be sent in a header: `token68` of RFC 9110, section 11.2, which is letters,
/// digits, `-._~+/`, then any number of `=`.
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
