//! Scopes: what a token may be asked for, what of it is granted, and how a person is told.
//!
//! Owns the syntax (RFC 6749, section 3.3) and the words. Must not know plans: what a workspace may have is
//! handed in.

use std::fmt;

use super::error::{ErrorCode, OAuthError};
use recalld_common::scope::Scope;

/// Bytes of a scope parameter; all names together have a third of that.
const SCOPE_BYTES_MAX: usize = 512;

/// What a scope lets a client do, for the person who is asked: goes on from "It asks to".
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

/// Whether a client that names no scope asks for it, and the resource's document lists it: what everyday
/// work needs. The record of calls, measurements and speaking for others have to be asked for by name.
fn is_everyday(scope: Scope) -> bool {
    !matches!(scope, Scope::AuditRead | Scope::BenchRun | Scope::IdentityAssert)
}

/// A set of scopes. Written with a space between two, in the order of [`Scope::ALL`].
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
    /// Every scope there is.
    pub fn all() -> Self {
        Scope::ALL.iter().copied().collect()
    }

    /// What is meant where none is named.
    pub fn everyday() -> Self {
        Scope::ALL.iter().copied().filter(|scope| is_everyday(*scope)).collect()
    }

    /// Reads the value of a `scope` parameter: names, one space between two.
    ///
    /// # Errors
    /// `invalid_scope` for another form, and for a name that is no scope.
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

    /// Those of these that are `allowed`. The answer to a token request says which they are.
    ///
    /// # Errors
    /// `invalid_scope` when none is left.
    pub fn granted(&self, allowed: &Self) -> Result<Self, OAuthError> {
        let granted: Self = self.iter().filter(|scope| allowed.has(*scope)).collect();
        if granted.0.is_empty() {
            return Err(invalid("none of the scopes that were asked for may be had here"));
        }
        Ok(granted)
    }

    /// Whether every one of these is in `others`.
    pub fn is_within(&self, others: &Self) -> bool {
        self.iter().all(|scope| others.has(scope))
    }

    /// Whether this one is among them.
    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Scope> {
        self.0.iter().copied()
    }

    /// Their names.
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
