//! For whom a call is made: the identity of this turn, beside the principal whose credential it is.
//!
//! Owns what an identity may look like, which one counts, and how it stands in the ledger. Must not know how a
//! credential was recognised.

use std::fmt;

use engine::ledger::PRINCIPAL_BYTES_MAX;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Where a caller says for whom it asks: a key of `_meta`.
pub const TURN_IDENTITY: &str = "recalld/turn-identity";

/// The scope that lets a credential say so.
pub const ASSERT_SCOPE: &str = "identity:assert";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Longest identity, in bytes: the longest e-mail address in use has fewer.
    pub const IDENTITY_BYTES_MAX: usize = 128;

    /// What an identity may take of the room for a principal in the ledger; the principal has as much, and what the
    /// identity leaves.
    const IDENTITY_ROOM: usize = 78;
}

/// Between identity and principal in the ledger.
const BY: &str = " by ";

/// Digits of a hash that take the place of what does not fit: 80 bits.
const HASH_DIGITS: usize = 20;

const _: () = assert!(2 * IDENTITY_ROOM + BY.len() == PRINCIPAL_BYTES_MAX);
const _: () = assert!(HASH_DIGITS + 1 < IDENTITY_ROOM);

/// What is done about identities: `identity.enforcement` of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// None is asked for, and none is recorded.
    #[default]
    Off,
    /// It is recorded where there is one.
    Record,
    /// Without one there is no call.
    Require,
}

impl Enforcement {
    /// Every one, mildest first.
    pub const ALL: &'static [Self] = &[Self::Off, Self::Record, Self::Require];

    /// What holds for whoever sits at the machine: nobody who has to mend the service is kept from it (GOV-32).
    #[must_use]
    pub fn at_the_machine(self) -> Self {
        match self {
            Self::Require => Self::Record,
            milder => milder,
        }
    }

    /// Its word in the settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Record => "record",
            Self::Require => "require",
        }
    }
}

/// Who a call is made for: a subject, or 1 to [`IDENTITY_BYTES_MAX`] visible ASCII characters (GOV-31).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnIdentity(String);

impl TurnIdentity {
    /// Checks a name that a client gave.
    ///
    /// # Errors
    /// It is empty, too long, or has other characters.
    pub fn new(name: &str) -> Result<Self, IdentityFault> {
        if name.is_empty() || name.len() > IDENTITY_BYTES_MAX {
            return Err(IdentityFault::Length(name.len()));
        }
        match name.chars().find(|char| !char.is_ascii_graphic()) {
            Some(other) => Err(IdentityFault::Character(other)),
            None => Ok(Self(name.to_owned())),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a call has no identity that it may be made for. Fails closed; each has a reason for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdentityFault {
    /// There is none, and one is required.
    Missing,
    /// What was asserted is no text.
    NotText,
    /// It has so many bytes.
    Length(usize),
    /// It has this character.
    Character(char),
}

impl IdentityFault {
    /// For programs, in `snake_case`.
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

/// What a call says of whom it is made for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Told<'a> {
    /// The `sub` of its token, or the principal of its per-user bearer.
    pub subject: Option<&'a str>,
    /// Whether its credential has [`ASSERT_SCOPE`].
    pub may_assert: bool,
    /// The value of [`TURN_IDENTITY`] in its `_meta`. Without the scope it counts for nothing.
    pub asserted: Option<&'a Value>,
}

/// Who a call is made for: what is asserted, where that may be, or else the subject.
///
/// # Errors
/// There is none, and one is required; or what is asserted is no identity: a wrong one is never recorded as
/// another one, or as none.
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
        // The service gave it its name.
        (None, Some(subject)) => Ok(Some(TurnIdentity(subject.to_owned()))),
        (None, None) if enforcement == Enforcement::Require => Err(IdentityFault::Missing),
        (None, None) => Ok(None),
    }
}

/// For whom a caller's calls are made: what its credential says of that, what the settings want to know, and what
/// comes of both.
#[derive(Debug, Clone)]
pub struct Turn {
    enforcement: Enforcement,
    subject: Option<String>,
    may_assert: bool,
    identity: Result<Option<TurnIdentity>, IdentityFault>,
}

impl Turn {
    /// Of a caller whose credential stands for `subject`, or for nobody in particular, as long as its calls say
    /// nothing else.
    pub fn of(enforcement: Enforcement, subject: Option<String>, may_assert: bool) -> Self {
        let told = Told { subject: subject.as_deref(), may_assert, asserted: None };
        let identity = resolve(enforcement, told);
        Self { enforcement, subject, may_assert, identity }
    }

    /// Of one call of that caller, with what stands in its `_meta`.
    #[must_use]
    pub fn asserting(&self, asserted: Option<&Value>) -> Self {
        let Self { enforcement, may_assert, .. } = *self;
        let told = Told { subject: self.subject.as_deref(), may_assert, asserted };
        Self { identity: resolve(enforcement, told), ..self.clone() }
    }

    /// Who it is; `None` where that is not asked, or nobody is named and need not be.
    ///
    /// # Errors
    /// Why the call must not be made.
    pub fn identity(&self) -> Result<Option<&TurnIdentity>, &IdentityFault> {
        self.identity.as_ref().map(Option::as_ref)
    }
}

/// What stands in a ledger entry as its principal (GOV-33): `IDENTITY by PRINCIPAL`, or `PRINCIPAL` alone where
/// there is no identity or it is the principal itself. Unambiguous whatever the names hold, since a space stands
/// nowhere else, and never longer than the room for it.
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

/// A name as one word: `%`, `~`, spaces and control characters are `%` and two digits for each byte (RFC 3986,
/// section 2.1). Where that is longer than its room it is cut, and `~` and the first digits of its SHA-256 follow.
fn fitted(name: &str, bytes_max: usize) -> String {
    let mut word = String::with_capacity(name.len());
    // Where the last character ends that leaves room for a hash.
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
        // Names that look like what is between them.
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

        /// No two pairs stand in the ledger alike, and all fit and may stand there.
        #[test]
        fn pairs_are_told_apart(pairs in proptest::collection::vec(names(), 1..60)) {
            let mut seen = HashMap::new();
            for (identity, principal) in pairs {
                let identity = identity.and_then(|text| TurnIdentity::new(&text).ok());
                let text = in_ledger(identity.as_ref(), &principal);
                prop_assert!((1..=PRINCIPAL_BYTES_MAX).contains(&text.len()), "{}", text);
                prop_assert!(!text.chars().any(char::is_control));
                // Where the identity is the principal, that is what stands there.
                let shown = identity.map(|it| it.0).filter(|it| *it != principal);
                let pair = (shown, principal);
                let before = seen.entry(text.clone()).or_insert_with(|| pair.clone());
                prop_assert_eq!(&*before, &pair, "{}", text);
            }
        }
    }
}
