//! Turn identity: the person on whose behalf one call is made, in addition to the credential's principal.
//!
//! Defines valid identities, their precedence, and their form in the ledger; independent of authentication.

use std::fmt;

use engine::ledger::PRINCIPAL_BYTES_MAX;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The `_meta` key by which a caller asserts a turn identity.
pub const TURN_IDENTITY: &str = "recalld/turn-identity";

/// The scope that permits the assertion.
pub const ASSERT_SCOPE: &str = "identity:assert";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Longest identity in bytes; longer than any e-mail address in use.
    pub const IDENTITY_BYTES_MAX: usize = 128;

    /// Bytes of an identity in the ledger's principal field. The principal has as many, and the bytes unused by the
    /// identity.
    const IDENTITY_ROOM: usize = 78;
}

/// Separates identity and principal in the ledger.
const BY: &str = " by ";

/// Hexadecimal digits of the hash that replaces the part of a name that does not fit: 80 bits.
const HASH_DIGITS: usize = 20;

const _: () = assert!(2 * IDENTITY_ROOM + BY.len() == PRINCIPAL_BYTES_MAX);
const _: () = assert!(HASH_DIGITS + 1 < IDENTITY_ROOM);

/// Enforcement of turn identities: the setting `identity.enforcement`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// Turn identities are neither required nor recorded.
    #[default]
    Off,
    /// A turn identity is recorded if present.
    Record,
    /// A call without an identity is rejected.
    Require,
}

impl Enforcement {
    /// All values, mildest first.
    pub const ALL: &'static [Self] = &[Self::Off, Self::Record, Self::Require];

    /// The enforcement for the local operator: never `Require`, so that nobody who repairs the service is locked out
    /// (GOV-32).
    #[must_use]
    pub fn at_the_machine(self) -> Self {
        match self {
            Self::Require => Self::Record,
            milder => milder,
        }
    }

    /// The word in the settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Record => "record",
            Self::Require => "require",
        }
    }
}

/// A turn identity: a subject, or an asserted name of 1 to [`IDENTITY_BYTES_MAX`] visible ASCII characters (GOV-31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnIdentity(String);

impl TurnIdentity {
    /// Validates an asserted name.
    ///
    /// # Errors
    /// The name is empty, too long, or contains other characters.
    pub fn new(name: &str) -> Result<Self, IdentityFault> {
        if name.is_empty() || name.len() > IDENTITY_BYTES_MAX {
            return Err(IdentityFault::Length(name.len()));
        }
        match name.chars().find(|char| !char.is_ascii_graphic()) {
            Some(other) => Err(IdentityFault::Character(other)),
            None => Ok(Self(name.to_owned())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reason for rejecting a call without a valid turn identity (fail closed).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdentityFault {
    /// An identity is required but missing.
    Missing,
    /// The asserted value is not a string.
    NotText,
    /// Invalid length; carries the length in bytes.
    Length(usize),
    /// Contains this invalid character.
    Character(char),
}

impl IdentityFault {
    /// Machine-readable reason in `snake_case`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing => "identity_required",
            _ => "invalid_identity",
        }
    }
}

impl fmt::Display for IdentityFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => write!(
                f,
                "this service records for whom each call is made: sign in as a person, or, with a credential that \
                 has the scope {ASSERT_SCOPE}, say so in _meta[\"{TURN_IDENTITY}\"]"
            ),
            Self::NotText => write!(f, "_meta[\"{TURN_IDENTITY}\"] is no text; give a name"),
            Self::Length(bytes) => write!(
                f,
                "the turn's identity has {bytes} bytes; 1 to {IDENTITY_BYTES_MAX} are allowed"
            ),
            Self::Character(other) => write!(
                f,
                "the turn's identity has the character {other:?}; visible ASCII characters are allowed"
            ),
        }
    }
}

impl std::error::Error for IdentityFault {}

/// Identity claims of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told<'a> {
    /// The `sub` of the access token, or the principal of a per-user bearer token.
    pub subject: Option<&'a str>,
    /// True if the credential has [`ASSERT_SCOPE`].
    pub may_assert: bool,
    /// The value of [`TURN_IDENTITY`] in `_meta`; ignored without the scope.
    pub asserted: Option<&'a Value>,
}

/// Resolves the turn identity: the assertion if permitted, else the subject.
///
/// # Errors
/// An identity is required but missing, or the assertion is invalid. An invalid assertion is never recorded as another
/// identity or as none.
pub fn resolve(
    enforcement: Enforcement,
    told: Told<'_>,
) -> Result<Option<TurnIdentity>, IdentityFault> {
    if enforcement == Enforcement::Off {
        return Ok(None);
    }
    let asserted = told.asserted.filter(|_| told.may_assert);
    match (asserted, told.subject) {
        (Some(value), _) => {
            TurnIdentity::new(value.as_str().ok_or(IdentityFault::NotText)?).map(Some)
        }
        // Not validated: the service assigned the subject's name.
        (None, Some(subject)) => Ok(Some(TurnIdentity(subject.to_owned()))),
        (None, None) if enforcement == Enforcement::Require => Err(IdentityFault::Missing),
        (None, None) => Ok(None),
    }
}

/// Turn identity of a caller's calls, resolved from the credential's subject, the assertion and the enforcement.
#[derive(Debug, Clone)]
pub struct Turn {
    enforcement: Enforcement,
    subject: Option<String>,
    may_assert: bool,
    identity: Result<Option<TurnIdentity>, IdentityFault>,
}

impl Turn {
    /// The turn identity of calls without an assertion. `subject` is the credential's subject, if any.
    pub fn of(enforcement: Enforcement, subject: Option<String>, may_assert: bool) -> Self {
        let told = Told { subject: subject.as_deref(), may_assert, asserted: None };
        let identity = resolve(enforcement, told);
        Self { enforcement, subject, may_assert, identity }
    }

    /// The turn identity of one call with this `_meta` value.
    #[must_use]
    pub fn asserting(&self, asserted: Option<&Value>) -> Self {
        let Self { enforcement, may_assert, .. } = *self;
        let told = Told { subject: self.subject.as_deref(), may_assert, asserted };
        Self { identity: resolve(enforcement, told), ..self.clone() }
    }

    /// The resolved identity; `None` if enforcement is off, or if no identity is present and none is required.
    ///
    /// # Errors
    /// Reason for rejecting the call.
    pub fn identity(&self) -> Result<Option<&TurnIdentity>, &IdentityFault> {
        self.identity.as_ref().map(Option::as_ref)
    }
}

/// The principal field of an audit entry (GOV-33): `IDENTITY by PRINCIPAL`, or `PRINCIPAL` alone if the identity is
/// missing or equal to the principal. Unambiguous for all names, as spaces within names are encoded, and never longer
/// than the field.
pub fn in_ledger(identity: Option<&TurnIdentity>, principal: &str) -> String {
    match identity {
        Some(identity) if identity.0 != principal => {
            let identity = fitted(&identity.0, IDENTITY_ROOM);
            let room = PRINCIPAL_BYTES_MAX - BY.len() - identity.len();
            format!("{identity}{BY}{}", fitted(principal, room))
        }
        _ => fitted(principal, PRINCIPAL_BYTES_MAX),
    }
}

/// Encodes a name without spaces: each byte of `%`, `~`, whitespace and control characters becomes `%` and two digits
/// (RFC 3986, section 2.1). A result that is empty or longer than `bytes_max` is cut and completed by `~` and the first
/// digits of the name's SHA-256.
fn fitted(name: &str, bytes_max: usize) -> String {
    let mut word = String::with_capacity(name.len());
    // End of the last character that leaves room for a hash.
    let mut cut = 0;
    for char in name.chars() {
        if matches!(char, '%' | '~') || char.is_whitespace() || char.is_control() {
            let mut bytes = [0; 4];
            for byte in char.encode_utf8(&mut bytes).bytes() {
                word.push_str(&format!("%{byte:02X}"));
            }
        } else {
            word.push(char);
        }
        if word.len() + 1 + HASH_DIGITS <= bytes_max {
            cut = word.len();
        }
    }
    if word.len() <= bytes_max && !word.is_empty() {
        return word;
    }
    word.truncate(cut);
    word.push('~');
    let hash = Sha256::digest(name.as_bytes());
    word.extend(hash.iter().take(HASH_DIGITS / 2).map(|byte| format!("{byte:02x}")));
    word
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn name(text: &str) -> TurnIdentity {
        TurnIdentity::new(text).unwrap()
    }

    #[test]
    fn what_is_asserted_counts_with_the_scope_and_the_subject_otherwise() {
        use Enforcement::{Off, Record, Require};
        let (asserted, wrong) = (json!("ada@example.com"), json!(7));
        let of = |enforcement, subject, may_assert, asserted| {
            let told = Told { subject, may_assert, asserted };
            resolve(enforcement, told).map(|found| found.map(|identity| identity.0))
        };
        let is = |text: &str| Ok(Some(text.to_owned()));
        for enforcement in [Record, Require] {
            assert_eq!(of(enforcement, None, true, Some(&asserted)), is("ada@example.com"));
            let both = of(enforcement, Some("workspace:acme"), true, Some(&asserted));
            assert_eq!(both, is("ada@example.com"));
            assert_eq!(of(enforcement, Some("user:bob"), false, Some(&asserted)), is("user:bob"));
            assert_eq!(of(enforcement, Some("user:bob"), true, None), is("user:bob"));
            let faulty = of(enforcement, Some("user:bob"), true, Some(&wrong));
            assert_eq!(faulty, Err(IdentityFault::NotText));
        }
        assert_eq!(of(Record, None, false, Some(&asserted)), Ok(None));
        assert_eq!(of(Require, None, false, Some(&asserted)), Err(IdentityFault::Missing));
        assert_eq!(of(Require, None, true, None), Err(IdentityFault::Missing));
        assert_eq!(of(Off, Some("user:bob"), true, Some(&asserted)), Ok(None));
    }

    #[test]
    fn an_identity_is_short_and_visible() {
        assert!(TurnIdentity::new(&"x".repeat(IDENTITY_BYTES_MAX)).is_ok());
        for (text, fault) in [
            (String::new(), IdentityFault::Length(0)),
            ("x".repeat(IDENTITY_BYTES_MAX + 1), IdentityFault::Length(IDENTITY_BYTES_MAX + 1)),
            ("ada lovelace".into(), IdentityFault::Character(' ')),
            ("ada\u{0}".into(), IdentityFault::Character('\u{0}')),
            ("\u{430}da".into(), IdentityFault::Character('\u{430}')),
        ] {
            let found = TurnIdentity::new(&text).unwrap_err();
            assert_eq!((found.reason(), &found), ("invalid_identity", &fault));
        }
        let words = Enforcement::ALL.iter().map(|one| one.word()).collect::<Vec<_>>();
        assert_eq!(words, ["off", "record", "require"]);
    }

    #[test]
    fn the_ledger_shows_both() {
        assert_eq!(in_ledger(None, "operator"), "operator");
        assert_eq!(in_ledger(Some(&name("user:ada")), "user:ada"), "user:ada");
        let both = in_ledger(Some(&name("ada@example.com")), "workspace:acme");
        assert_eq!(both, "ada@example.com by workspace:acme");
        // Names that contain the separator.
        assert_eq!(in_ledger(None, "ada by bob"), "ada%20by%20bob");
        assert_eq!(in_ledger(Some(&name("a%20b~")), "x\u{85}y"), "a%2520b%7E by x%C2%85y");
        let long = in_ledger(Some(&name(&"i".repeat(128))), &"\u{e9}".repeat(200));
        assert!(long.len() <= PRINCIPAL_BYTES_MAX, "{} bytes", long.len());
        assert!(long.starts_with("iiii") && long.contains("~"), "{long}");
    }

    fn names() -> impl Strategy<Value = (Option<String>, String)> {
        let part = prop_oneof![
            "[a-c %~]{0,4}",
            "a( by b){0,2}",
            "[ -~]{60,130}",
            "\\PC{0,40}",
            "[a]{150,170}"
        ];
        (proptest::option::of(part.clone()), part)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// No two pairs have the same ledger form, and every form fits and is valid.
        #[test]
        fn pairs_are_told_apart(pairs in proptest::collection::vec(names(), 1..60)) {
            let mut seen = HashMap::new();
            for (identity, principal) in pairs {
                let identity = identity.and_then(|text| TurnIdentity::new(&text).ok());
                let text = in_ledger(identity.as_ref(), &principal);
                prop_assert!((1..=PRINCIPAL_BYTES_MAX).contains(&text.len()), "{}", text);
                prop_assert!(!text.chars().any(char::is_control));
                // An identity equal to the principal is omitted.
                let shown = identity.map(|it| it.0).filter(|it| *it != principal);
                let pair = (shown, principal);
                let before = seen.entry(text.clone()).or_insert_with(|| pair.clone());
                prop_assert_eq!(&*before, &pair, "{}", text);
            }
        }
    }
}
