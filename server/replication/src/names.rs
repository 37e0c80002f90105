//! Names of workspaces, nodes and objects.
//!
//! Owns the tree of keys (`format-spec/remote.md`, Keys), for writing and parsing. A listed object whose name is no key
//! is foreign: this crate neither uses nor removes the object.

use std::fmt;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::hex::{Hex, Nonce};
use crate::limits::{NODE_BYTES_MAX, NUMBER_MAX};

/// Length of a workspace's name in characters (CTL-10).
const TENANT_CHARS: RangeInclusive<usize> = 3..=63;
/// Name of the metastore's record log. No workspace has this name, as the name of a workspace never ends with `-`.
const CONTROL: &str = "control-";
/// Name prefix of nodes that only collect garbage; a random number follows.
const COLLECTING: &str = "gc-";
type CollectingDrawn = Hex<8>;
const NUMBER_DIGITS: usize = 20;
const PART_DIGITS: usize = 5;

/// Error of an invalid name, with the allowed form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAName(String);

impl fmt::Display for NotAName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAName {}

/// Name of a workspace: `local`, or the slug of a tenant's; or the name of the metastore, which has a record log, too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Tenant(String);

/// Name of a node: given by the operator, or drawn at random and stored in the data directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeId(String);

fn check_word(what: &str, text: &str, chars: RangeInclusive<usize>) -> Result<(), NotAName> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let is_right = chars.contains(&bytes.len())
        && bytes.iter().all(|&byte| is_plain(byte) || byte == b'-')
        && bytes[0].is_ascii_lowercase()
        && bytes.last().is_some_and(|&byte| is_plain(byte));
    if is_right {
        return Ok(());
    }
    Err(NotAName(format!(
        "{text:?} is not the name of a {what}: {} to {} of a-z, 0-9 and -, with a letter first and no - last",
        chars.start(),
        chars.end()
    )))
}

macro_rules! words {
    ($($name:ident, $what:literal, $chars:expr, $beside:expr;)*) => {$(
        impl $name {
            /// Checks and wraps a name.
            ///
            /// # Errors
            /// The text is no valid name; the error names the allowed form.
            pub fn new(text: impl Into<String>) -> Result<Self, NotAName> {
                let text = text.into();
                if $beside != Some(&*text) {
                    check_word($what, &text, $chars)?;
                }
                Ok(Self(text))
            }

            /// Name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NotAName;

            fn try_from(text: String) -> Result<Self, NotAName> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

words! {
    Tenant, "workspace", TENANT_CHARS, Some(CONTROL);
    NodeId, "node", 1..=NODE_BYTES_MAX, None;
}

impl NodeId {
    /// Name of a process that acquires a workspace only to collect garbage (REM-74).
    #[must_use]
    pub fn of_collecting(drawn: &CollectingDrawn) -> Self {
        Self(format!("{COLLECTING}{drawn}"))
    }

    /// Returns true if the name belongs to a garbage collector, not to a server.
    #[must_use]
    pub fn only_collects(&self) -> bool {
        let drawn = self.0.strip_prefix(COLLECTING);
        drawn.is_some_and(|drawn| CollectingDrawn::parse(drawn).is_some())
    }
}

impl Tenant {
    /// Name of the metastore's record log.
    #[must_use]
    pub fn control() -> Self {
        Self(CONTROL.to_owned())
    }

    /// Returns true if this is the name of the metastore's record log.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.0 == CONTROL
    }
}

/// Key of a data object: the epoch of its writer, and a random number. A key is never reused, so an object that no
/// record names any more can never be named again (REM-06).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataKey {
    /// Epoch of the writer.
    pub epoch: u64,
    /// Random number.
    pub nonce: Nonce,
}

impl DataKey {
    /// Parses `EPOCH-NONCE`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (epoch, nonce) = text.split_once('-')?;
        Some(Self { epoch: number_of(epoch)?, nonce: Nonce::parse(nonce)? })
    }
}

impl fmt::Display for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{}", self.epoch, self.nonce)
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for DataKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DataKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not the key of an object"))
    }
}

/// Byte range of one volume of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerPiece {
    /// Lineage of the ledger: a random number that distinguishes ledgers of one node.
    pub lineage: Nonce,
    /// Sequence number of the volume's first entry.
    pub volume: u64,
    /// Offset of the first byte.
    pub from: u64,
    /// Offset behind the last byte.
    pub to: u64,
}

impl LedgerPiece {
    /// Parses `LINEAGE-VOLUME-FROM-TO`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.splitn(5, '-').collect();
        let [lineage, volume, from, to] = parts.as_slice() else { return None };
        let (from, to) = (number_of(from)?, number_of(to)?);
        let (lineage, volume) = (Nonce::parse(lineage)?, number_of(volume)?);
        (from < to).then_some(Self { lineage, volume, from, to })
    }

    /// Number of bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.to - self.from
    }
}

impl fmt::Display for LedgerPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lineage, volume, from, to } = self;
        write!(f, "{lineage}-{volume:020}-{from:020}-{to:020}")
    }
}

/// Key of an object, below the prefix of the remote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Layout marker of the remote.
    About,
    /// A record of a workspace.
    Chain(Tenant, u64),
    /// Low watermark of a workspace: its boundary and its turn.
    Edge(Tenant, u64, u64),
    /// Part of a workspace's file, counted from 0.
    Data(Tenant, DataKey, u32),
    /// Record that is too long for a coordinator: its number, and the first half of its SHA-256.
    Body(Tenant, u64, Nonce),
    /// Pin of a reader that retains a record.
    Pin(Tenant, NodeId, Nonce),
    /// Piece of a node's ledger.
    Ledger(Tenant, NodeId, LedgerPiece),
    /// Heartbeat of a node.
    Beat(NodeId),
    /// Inventory of a node.
    Holds(NodeId),
    /// Object of a probe at a start: the probe, and its round.
    Probe(Nonce, u32),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::About => f.write_str("about"),
            Self::Chain(tenant, number) => write!(f, "t/{tenant}/chain/{number:020}"),
            Self::Edge(tenant, boundary, turn) => {
                write!(f, "t/{tenant}/edge/{}", place_text((*boundary, *turn)))
            }
            Self::Data(tenant, data, part) => write!(f, "t/{tenant}/data/{data}.{part:05}"),
            Self::Body(tenant, number, half) => write!(f, "t/{tenant}/body/{number:020}-{half}"),
            Self::Pin(tenant, node, nonce) => write!(f, "t/{tenant}/pin/{node}-{nonce}"),
            Self::Ledger(tenant, node, piece) => write!(f, "t/{tenant}/ledger/{node}/{piece}"),
            Self::Beat(node) => write!(f, "node/{node}/beat"),
            Self::Holds(node) => write!(f, "node/{node}/holds"),
            Self::Probe(probe, round) => write!(f, "probe/{probe}/{round:05}"),
        }
    }
}

impl Key {
    /// Workspace of the object, if it belongs to one.
    #[must_use]
    pub fn tenant(&self) -> Option<&Tenant> {
        match self {
            Self::Chain(tenant, _) | Self::Edge(tenant, ..) => Some(tenant),
            Self::Data(tenant, ..) | Self::Body(tenant, ..) | Self::Pin(tenant, ..) => Some(tenant),
            Self::Ledger(tenant, ..) => Some(tenant),
            Self::About | Self::Beat(_) | Self::Holds(_) | Self::Probe(..) => None,
        }
    }

    /// Parses a key; `None` if no build would have written this text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.splitn(5, '/').collect();
        let tenant = |text: &str| Tenant::new(text).ok();
        let node = |text: &str| NodeId::new(text).ok();
        match parts.as_slice() {
            ["about"] => Some(Self::About),
            ["t", slug, "chain", number] => Some(Self::Chain(tenant(slug)?, number_of(number)?)),
            ["t", slug, "edge", place] => {
                let (boundary, turn) = parse_place(place)?;
                Some(Self::Edge(tenant(slug)?, boundary, turn))
            }
            ["t", slug, "data", name] => {
                let (data, part) = name.split_once('.')?;
                Some(Self::Data(tenant(slug)?, DataKey::parse(data)?, part_of(part)?))
            }
            ["t", slug, "body", name] => {
                let (number, half) = name.split_once('-')?;
                Some(Self::Body(tenant(slug)?, number_of(number)?, Nonce::parse(half)?))
            }
            ["t", slug, "pin", name] => {
                let (by, nonce) = name.rsplit_once('-')?;
                Some(Self::Pin(tenant(slug)?, node(by)?, Nonce::parse(nonce)?))
            }
            ["t", slug, "ledger", by, name] => {
                Some(Self::Ledger(tenant(slug)?, node(by)?, LedgerPiece::parse(name)?))
            }
            ["node", name, "beat"] => Some(Self::Beat(node(name)?)),
            ["node", name, "holds"] => Some(Self::Holds(node(name)?)),
            ["probe", probe, round] => Some(Self::Probe(Nonce::parse(probe)?, part_of(round)?)),
            _ => None,
        }
    }
}

/// Text of a boundary and a turn that sorts as the pair does: if the turn is 0, the boundary alone.
pub(crate) fn place_text((boundary, turn): (u64, u64)) -> String {
    match turn {
        0 => format!("{boundary:020}"),
        turn => format!("{boundary:020}-{turn:020}"),
    }
}

/// Parses a boundary and a turn.
pub(crate) fn parse_place(text: &str) -> Option<(u64, u64)> {
    match text.split_once('-') {
        None => Some((number_of(text)?, 0)),
        Some((boundary, turn)) => {
            let turn = number_of(turn).filter(|turn| *turn > 0)?;
            Some((number_of(boundary)?, turn))
        }
    }
}

fn digits_of(text: &str, digits: usize) -> Option<u64> {
    let is_plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

fn number_of(text: &str) -> Option<u64> {
    digits_of(text, NUMBER_DIGITS).filter(|&number| number <= NUMBER_MAX)
}

fn part_of(text: &str) -> Option<u32> {
    digits_of(text, PART_DIGITS).and_then(|part| u32::try_from(part).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_plain_word() {
        assert!(Tenant::control().is_control() && !Tenant::new("control").unwrap().is_control());
        for right in ["local", "a-b", "abc9", "control-"] {
            assert_eq!(Tenant::new(right).unwrap().as_str(), right);
        }
        for wrong in [
            "",
            "ab",
            "Abc",
            "abc-",
            "-control",
            "control--",
            "9abc",
            "a/b",
            "a b",
            "-ab",
            &"a".repeat(64),
        ] {
            assert!(Tenant::new(wrong).is_err(), "{wrong}");
        }
        assert!(NodeId::new("n").is_ok() && NodeId::new("").is_err());
    }

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let tenant = Tenant::new("local").unwrap();
        let node = NodeId::new("box-1").unwrap();
        let nonce = Nonce::parse("000102030405060708090a0b0c0d0e0f").unwrap();
        let data = DataKey { epoch: 7, nonce };
        let keys = [
            (Key::About, "about"),
            (Key::Chain(tenant.clone(), 12), "t/local/chain/00000000000000000012"),
            (Key::Edge(tenant.clone(), 0, 0), "t/local/edge/00000000000000000000"),
            (
                Key::Edge(tenant.clone(), 7, 2),
                "t/local/edge/00000000000000000007-00000000000000000002",
            ),
            (
                Key::Data(tenant.clone(), data, 3),
                "t/local/data/00000000000000000007-000102030405060708090a0b0c0d0e0f.00003",
            ),
            (
                Key::Body(tenant.clone(), 12, nonce),
                "t/local/body/00000000000000000012-000102030405060708090a0b0c0d0e0f",
            ),
            (
                Key::Pin(tenant.clone(), node.clone(), nonce),
                "t/local/pin/box-1-000102030405060708090a0b0c0d0e0f",
            ),
            (
                Key::Ledger(
                    tenant,
                    node.clone(),
                    LedgerPiece { lineage: nonce, volume: 1, from: 128, to: 400 },
                ),
                "t/local/ledger/box-1/000102030405060708090a0b0c0d0e0f-00000000000000000001-\
                 00000000000000000128-00000000000000000400",
            ),
            (Key::Beat(node.clone()), "node/box-1/beat"),
            (Key::Holds(node), "node/box-1/holds"),
            (Key::Probe(nonce, 1), "probe/000102030405060708090a0b0c0d0e0f/00001"),
        ];
        for (key, text) in keys {
            assert_eq!(key.to_string(), text);
            assert_eq!(Key::parse(text), Some(key));
        }
    }

    #[test]
    fn edges_sort_by_boundary_and_turn() {
        let places = [(0, 0), (0, 1), (6, 0), (7, 0), (7, 1), (7, 12), (8, 0), (100, 0)];
        let texts = places.map(place_text);
        assert!(texts.is_sorted());
        assert_eq!(texts.map(|text| parse_place(&text).unwrap()), places);
    }

    #[test]
    fn what_no_build_writes_is_no_key() {
        for wrong in [
            "",
            "about/",
            "t/local/chain/12",
            "t/local/chain/99999999999999999999",
            "t/local/chain/00000000000000000012/x",
            "t/LOCAL/chain/00000000000000000012",
            "t/local/edge/00000000000000000007-00000000000000000000",
            "t/local/edge/00000000000000000007-2",
            "t/local/data/00000000000000000007-00.00003",
            "t/local/ledger/box-1/000102030405060708090a0b0c0d0e0f-00000000000000000001-\
             00000000000000000400-00000000000000000400",
            "node//beat",
            "node/box/other",
        ] {
            assert_eq!(Key::parse(wrong), None, "{wrong}");
        }
    }
}
