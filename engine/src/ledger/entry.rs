//! Entry body of format-spec/ledger.md: the call, its decision and the items it touched, with encoding and decoding.
//! Frames and files are left to other modules.

use std::fmt;

use sha2::{Digest, Sha256};

use super::layout::*;

/// SHA-256 digest.
pub type Hash = [u8; 32];
/// Receipt id: random, unique within a ledger.
pub type ReceiptId = [u8; 16];

/// Defines an enum with its codes and words in one list.
macro_rules! coded {
    ($(#[$about:meta])* $name:ident {
        $($(#[$about_one:meta])* $one:ident = $code:literal $word:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$about_one])* $one,)+ }

        impl $name {
            /// All values, in order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$one),+];

            /// Name of the value in results.
            pub fn word(self) -> &'static str {
                match self { $(Self::$one => $word,)+ }
            }

            pub(super) fn code(self) -> u8 {
                match self { $(Self::$one => $code,)+ }
            }

            pub(super) fn of(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$one),)+ _ => None }
            }
        }
    };
}

coded! {
    /// Decision of the policy.
    Decision {
        /// Allowed as requested.
        Allow = 1 "allow",
        /// Allowed with parts redacted.
        Redact = 2 "redact",
        /// Denied.
        Deny = 3 "deny",
    }
}

coded! {
    /// Outcome of the call.
    Outcome {
        /// The call returned a result.
        Done = 1 "done",
        /// The call failed.
        Failed = 2 "failed",
        /// The call was not run.
        Refused = 3 "refused",
        /// The call timed out or was cancelled.
        Cancelled = 4 "cancelled",
    }
}

coded! {
    /// Effect of a call on one item.
    Effect {
        /// Returned to the caller.
        Read = 1 "read",
        /// Created or superseded.
        Written = 2 "written",
        /// Returned with parts redacted.
        Redacted = 3 "redacted",
        /// Withheld from the caller.
        Withheld = 4 "withheld",
        /// Raised in sensitivity.
        Raised = 5 "raised",
        /// Lowered in sensitivity.
        Lowered = 6 "lowered",
        /// Erased.
        Erased = 7 "erased",
    }
}

/// Item touched by a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TouchedItem {
    /// Effect on the item.
    pub effect: Effect,
    /// Item id.
    pub item: [u8; 16],
}

/// Entry to be appended. Lengths are bounded by the `*_BYTES_MAX` constants of this module.
#[derive(Debug, Clone, Copy)]
pub struct EntryDraft<'a> {
    /// Time of the decision, in microseconds.
    pub at_micros: u64,
    /// Receipt id, chosen at random by the caller.
    pub receipt: ReceiptId,
    /// Tool or operation.
    pub tool: &'a str,
    /// Principal that made the call.
    pub principal: &'a str,
    /// Decision of the policy.
    pub decision: Decision,
    /// Policy rule that decided.
    pub rule: &'a str,
    /// SHA-256 of the call's arguments.
    pub arguments: Hash,
    /// Touched items, most important first. The first [`TOUCHED_LISTED_MAX`] are listed and the others only counted and
    /// hashed, so changes of sensitivity come first.
    pub touched: &'a [TouchedItem],
    /// Outcome of the call.
    pub outcome: Outcome,
}

/// Recorded entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Sequence number, from 1.
    pub seq: u64,
    /// Time of the decision, in microseconds.
    pub at_micros: u64,
    /// Hash of the previous entry.
    pub previous: Hash,
    /// Hash of this entry.
    pub hash: Hash,
    /// Receipt id.
    pub receipt: ReceiptId,
    /// Tool or operation.
    pub tool: String,
    /// Principal that made the call.
    pub principal: String,
    /// Decision of the policy.
    pub decision: Decision,
    /// Policy rule that decided.
    pub rule: String,
    /// SHA-256 of the call's arguments.
    pub arguments: Hash,
    /// Listed items, at most [`TOUCHED_LISTED_MAX`].
    pub touched: Vec<TouchedItem>,
    /// Number of touched items, listed or not.
    pub touched_total: u32,
    /// Hash of the items that are not listed; zero if all are listed.
    pub touched_rest: Hash,
    /// Outcome of the call.
    pub outcome: Outcome,
}

/// Invalid draft.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DraftError {
    /// A text is empty, too long or contains a control character.
    Text {
        /// Field name.
        field: &'static str,
        /// Length of the text in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        bytes_max: usize,
    },
    /// The number of touched items exceeds `u32`.
    TooManyTouched,
}

impl fmt::Display for DraftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { field, bytes, bytes_max } => write!(
                f,
                "the {field} of a ledger entry has {bytes} bytes or a control character; 1 to {bytes_max} \
                 bytes without control characters are allowed"
            ),
            Self::TooManyTouched => write!(f, "a call may touch at most {} items", u32::MAX),
        }
    }
}

impl std::error::Error for DraftError {}

/// Hashes the whole body of an entry. The next entry carries the hash as `previous` (LED-13).
pub(super) fn entry_hash(body: &[u8]) -> Hash {
    Sha256::digest(body).into()
}

impl EntryDraft<'_> {
    /// Returns the body of this draft as entry `seq` after the entry with hash `previous`.
    pub(super) fn encode(&self, seq: u64, previous: &Hash) -> Result<Vec<u8>, DraftError> {
        let tool = encode_text("tool", self.tool, TOOL_BYTES_MAX)?;
        let principal = encode_text("principal", self.principal, PRINCIPAL_BYTES_MAX)?;
        let rule = encode_text("rule", self.rule, RULE_BYTES_MAX)?;
        let total = u32::try_from(self.touched.len()).map_err(|_| DraftError::TooManyTouched)?;
        let (listed, rest) = self.touched.split_at(self.touched.len().min(TOUCHED_LISTED_MAX));

        let mut body = Vec::with_capacity(BODY_BYTES_MAX);
        body.resize(ENTRY_FIXED_BYTES, 0);
        let mut put = |at: usize, bytes: &[u8]| body[at..at + bytes.len()].copy_from_slice(bytes);
        put(ENTRY_KIND, &[KIND_ENTRY]);
        put(ENTRY_DECISION, &[self.decision.code()]);
        put(ENTRY_OUTCOME, &[self.outcome.code()]);
        put(ENTRY_TOUCHED_COUNT, &[length_u8(listed.len())]);
        put(ENTRY_TOUCHED_TOTAL, &total.to_le_bytes());
        put(ENTRY_SEQ, &seq.to_le_bytes());
        put(ENTRY_AT_MICROS, &self.at_micros.to_le_bytes());
        put(ENTRY_PREVIOUS, previous);
        put(ENTRY_RECEIPT, &self.receipt);
        put(ENTRY_ARGUMENTS, &self.arguments);
        put(ENTRY_TOUCHED_REST, &hash_unlisted(rest));
        put(ENTRY_TOOL_LENGTH, &[length_u8(tool.len())]);
        put(ENTRY_PRINCIPAL_LENGTH, &[length_u8(principal.len())]);
        put(ENTRY_RULE_LENGTH, &[length_u8(rule.len())]);
        for text in [tool, principal, rule] {
            body.extend_from_slice(text);
        }
        for touched in listed {
            body.extend_from_slice(&touched.bytes());
        }
        Ok(body)
    }
}

impl Entry {
    /// Decodes `body`; the error text describes the violation of LED-11.
    pub(super) fn decode(body: &[u8]) -> Result<Self, &'static str> {
        let (fixed, texts) =
            body.split_at_checked(ENTRY_FIXED_BYTES).ok_or("shorter than an entry's fixed part")?;
        let byte = |at: usize| fixed[at];
        if !all_zero(&fixed[ENTRY_RESERVED..]) {
            return Err("reserved bytes are not zero");
        }
        let mut left = texts;
        let mut text = |length_at: usize, bytes_max: usize| {
            let length = usize::from(byte(length_at));
            let (bytes, after) =
                left.split_at_checked(length).ok_or("texts are longer than the body")?;
            left = after;
            let text = std::str::from_utf8(bytes).map_err(|_| "a text is not UTF-8")?;
            if text_is_allowed(text, bytes_max) {
                Ok(text.to_owned())
            } else {
                Err("a text breaks its bounds")
            }
        };
        let tool = text(ENTRY_TOOL_LENGTH, TOOL_BYTES_MAX)?;
        let principal = text(ENTRY_PRINCIPAL_LENGTH, PRINCIPAL_BYTES_MAX)?;
        let rule = text(ENTRY_RULE_LENGTH, RULE_BYTES_MAX)?;

        let touched_total = u32::from_le_bytes(fixed_field(fixed, ENTRY_TOUCHED_TOTAL));
        let touched_rest: Hash = fixed_field(fixed, ENTRY_TOUCHED_REST);
        let count = usize::from(byte(ENTRY_TOUCHED_COUNT));
        let listed_max = u32::try_from(TOUCHED_LISTED_MAX).unwrap_or(u32::MAX);
        if u32::try_from(count) != Ok(touched_total.min(listed_max))
            || left.len() != count * TOUCHED_BYTES
        {
            return Err("the touched items do not add up");
        }
        if all_zero(&touched_rest) != (touched_total <= listed_max) {
            return Err("the hash of the items left out does not fit their number");
        }
        Ok(Self {
            seq: u64::from_le_bytes(fixed_field(fixed, ENTRY_SEQ)),
            at_micros: u64::from_le_bytes(fixed_field(fixed, ENTRY_AT_MICROS)),
            previous: fixed_field(fixed, ENTRY_PREVIOUS),
            hash: entry_hash(body),
            receipt: fixed_field(fixed, ENTRY_RECEIPT),
            tool,
            principal,
            decision: Decision::of(byte(ENTRY_DECISION)).ok_or("unknown decision")?,
            rule,
            arguments: fixed_field(fixed, ENTRY_ARGUMENTS),
            touched: left
                .chunks_exact(TOUCHED_BYTES)
                .map(TouchedItem::decode)
                .collect::<Option<_>>()
                .ok_or("unknown effect")?,
            touched_total,
            touched_rest,
            outcome: Outcome::of(byte(ENTRY_OUTCOME)).ok_or("unknown outcome")?,
        })
    }
}

impl TouchedItem {
    fn bytes(self) -> [u8; TOUCHED_BYTES] {
        let mut bytes = [0; TOUCHED_BYTES];
        bytes[0] = self.effect.code();
        bytes[1..].copy_from_slice(&self.item);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { effect: Effect::of(*bytes.first()?)?, item: bytes_at(bytes, 1)? })
    }
}

/// Hashes the items that are not listed; zero if there are none.
fn hash_unlisted(rest: &[TouchedItem]) -> Hash {
    if rest.is_empty() {
        return [0; 32];
    }
    let mut hash = Sha256::new();
    for touched in rest {
        hash.update(touched.bytes());
    }
    hash.finalize().into()
}

fn encode_text<'a>(
    field: &'static str,
    text: &'a str,
    bytes_max: usize,
) -> Result<&'a [u8], DraftError> {
    if text_is_allowed(text, bytes_max) {
        Ok(text.as_bytes())
    } else {
        Err(DraftError::Text { field, bytes: text.len(), bytes_max })
    }
}

fn text_is_allowed(text: &str, bytes_max: usize) -> bool {
    !text.is_empty() && text.len() <= bytes_max && !text.chars().any(char::is_control)
}

/// Narrows a length that the bounds of this module keep below 256.
fn length_u8(length: usize) -> u8 {
    u8::try_from(length).expect("bounded by a *_MAX that layout.rs asserts to fit one byte")
}

fn fixed_field<const N: usize>(fixed: &[u8], offset: usize) -> [u8; N] {
    bytes_at(fixed, offset).expect("the offset lies in the fixed part, whose length was checked")
}
