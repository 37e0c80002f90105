//! Scopes: syntax (RFC 6749, section 3.3), granted subset, and the descriptions shown to people. Plans are the caller's
//! concern.

use std::fmt;

use super::error::{ErrorCode, OAuthError};
use recalld_common::scope::Scope;

/// Maximum length of a scope parameter in bytes; all names together take less than a third.
const SCOPE_BYTES_MAX: usize = 512;

/// Description of a scope for the consent page; continues "It asks to".
pub(crate) fn in_plain_words(scope: Scope) -> &'static str {
    match scope {
        Scope::TenantRead => "read your memories and documents, and how they hang together",
        Scope::BrainProxy => "ask questions and get answers from your memories",
        Scope::MemoryWrite => "add memories and replace old ones",
        Scope::IngestWrite => "take in files and texts",
        Scope::AgentState => "read and change what agents keep for themselves",
        Scope::AuditRead => "read the record of what was asked and done",
        Scope::BenchRun => "run measurements",
        Scope::IdentityAssert => "say, with each request, on whose behalf it is made",
    }
}

/// Returns true for a default scope: requested by a client that names no scopes, and listed in the resource metadata.
/// Reading the audit log, benchmarks and identity assertion must be requested by name.
fn is_everyday(scope: Scope) -> bool {
    !matches!(scope, Scope::AuditRead | Scope::BenchRun | Scope::IdentityAssert)
}

/// A set of scopes. The text form is space-separated, in the order of [`Scope::ALL`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scopes(Vec<Scope>);

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        let mut scopes: Vec<Scope> = scopes.into_iter().collect();
        scopes.sort_unstable();
        scopes.dedup();
        Self(scopes)
    }
}

impl Scopes {
    /// All scopes.
    pub fn all() -> Self {
        Scope::ALL.iter().copied().collect()
    }

    /// The default scopes, used if a request names none.
    pub fn everyday() -> Self {
        Scope::ALL.iter().copied().filter(|scope| is_everyday(*scope)).collect()
    }

    /// Parses a `scope` parameter: names separated by single spaces.
    ///
    /// # Errors
    /// `invalid_scope` for malformed text, and for an unknown name.
    pub fn parse(text: &str) -> Result<Self, OAuthError> {
        if text.len() > SCOPE_BYTES_MAX {
            return Err(invalid(&format!("scope may have {SCOPE_BYTES_MAX} bytes at most")));
        }
        let named = |name: &str| {
            let unknown = || match name.bytes().all(is_scope_byte) && !name.is_empty() {
                true => invalid(&format!("there is no scope {name}")),
                false => invalid("scope is names with one space between two"),
            };
            Scope::ALL.iter().copied().find(|scope| scope.name() == name).ok_or_else(unknown)
        };
        text.split(' ').map(named).collect()
    }

    /// The intersection with `allowed`. A token response names the granted scopes.
    ///
    /// # Errors
    /// `invalid_scope` if the intersection is empty.
    pub fn granted(&self, allowed: &Self) -> Result<Self, OAuthError> {
        let granted: Self = self.iter().filter(|scope| allowed.has(*scope)).collect();
        if granted.0.is_empty() {
            return Err(invalid("none of the scopes that were asked for may be had here"));
        }
        Ok(granted)
    }

    /// Returns true if `others` contains every scope of this set.
    pub fn is_within(&self, others: &Self) -> bool {
        self.iter().all(|scope| others.has(scope))
    }

    /// Returns true if the set contains `scope`.
    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// Iterates over the scopes in the order of [`Scope::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = Scope> {
        self.0.iter().copied()
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.iter().map(Scope::name).collect()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(" "))
    }
}

/// `NQCHAR` of RFC 6749, appendix A.
fn is_scope_byte(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e)
}

fn invalid(description: &str) -> OAuthError {
    OAuthError::new(ErrorCode::InvalidScope, description)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(text: &str) -> Scopes {
        Scopes::parse(text).unwrap()
    }

    #[test]
    fn names_are_read_in_any_order_and_written_in_one() {
        for (text, wanted) in [
            ("tenant:read", "tenant:read"),
            (
                "identity:assert memory:write tenant:read",
                "tenant:read memory:write identity:assert",
            ),
            ("tenant:read tenant:read", "tenant:read"),
        ] {
            assert_eq!(scopes(text).to_string(), wanted);
        }
        let all = Scopes::all().to_string();
        assert_eq!(
            all,
            "tenant:read brain:proxy memory:write ingest:write agent:state audit:read bench:run \
             identity:assert"
        );
        assert_eq!(scopes(&all), Scopes::all());
        assert!(all.len() * 3 < SCOPE_BYTES_MAX);
        assert_eq!(
            Scopes::everyday().to_string(),
            "tenant:read brain:proxy memory:write ingest:write agent:state"
        );
    }

    #[test]
    fn what_is_no_scope_is_refused() {
        for (text, word) in [
            ("tenant:write", "no scope tenant:write"),
            ("tenant:read admin", "no scope admin"),
            ("TENANT:READ", "no scope TENANT:READ"),
            ("", "one space"),
            (" tenant:read", "one space"),
            ("tenant:read ", "one space"),
            ("tenant:read  brain:proxy", "one space"),
            ("tenant:read\tbrain:proxy", "one space"),
            ("tenant:read,brain:proxy", "no scope"),
            ("\"", "one space"),
            ("a\\b", "one space"),
            ("\u{e9}", "one space"),
            (&"a".repeat(SCOPE_BYTES_MAX + 1), "512"),
        ] {
            let error = Scopes::parse(text).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidScope, "{text}");
            assert!(error.description().contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_left_out_and_nothing_left_is_an_error() {
        let allowed = scopes("tenant:read brain:proxy");
        let granted = Scopes::all().granted(&allowed).unwrap();
        assert_eq!(granted, allowed);
        assert!(granted.is_within(&Scopes::all()) && !Scopes::all().is_within(&granted));
        let error = scopes("audit:read").granted(&allowed).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidScope);
        assert!(Scopes::all().granted(&Scopes::default()).is_err());
    }

    #[test]
    fn every_scope_has_words_of_its_own() {
        let all = Scope::ALL.iter().copied();
        let words: std::collections::HashSet<&str> = all.map(in_plain_words).collect();
        assert_eq!(words.len(), Scope::ALL.len());
    }
}
