//! Change set: the row changes of one transaction as bytes, by which a replica becomes equal.
//!
//! Owns the encoding of change sets (format-spec/remote.md, Metastore) and the tables digest. Must not know the
//! destination of change sets, nor the meaning of records.

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::error::ControlError;
use super::record::RECORD_BYTES_MAX;
use super::schema::{EXPIRIES, TABLE_NAMES};

/// Maximum length of a key in bytes. Keys are hashes, or a slug and an id; a client id that is a URL is the longest.
pub const KEY_BYTES_MAX: usize = 4096;
/// Maximum size of a change set in bytes: much more than the revocation of all grants of a workspace.
pub const OPERATIONS_BYTES_MAX: usize = 63 << 20;
/// Number of `expiries`, which is not one of the record tables.
const EXPIRIES_NUMBER: u8 = 255;

const REMOVED: u8 = 0;
const PUT: u8 = 1;

/// Tables digest: the XOR of the SHA-256 of all rows, each with its table and key. Detects diverged replicas; no proof
/// against maliciously chosen rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TablesDigest(pub [u8; 32]);

impl TablesDigest {
    /// Adds or removes one row.
    pub(super) fn turn(&mut self, table: &str, key: &[u8], value: &[u8]) {
        let mut hasher = Sha256::new();
        hasher.update([number_of(table)]);
        hasher.update((key.len() as u64).to_le_bytes());
        hasher.update(key);
        hasher.update(value);
        self.add(&Self(hasher.finalize().into()));
    }

    /// Combines with the digest of other rows.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine ^= theirs);
    }
}

/// A change of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The table.
    pub table: &'static str,
    /// The key.
    pub key: Vec<u8>,
    /// The new value; `None` if the row is removed.
    pub value: Option<Vec<u8>>,
}

/// A change set: row changes in order, as bytes. Contains seeds of keys, so the bytes are wiped on drop.
#[derive(Default, Clone)]
pub struct Operations {
    bytes: Zeroizing<Vec<u8>>,
    /// Change of the tables digest.
    pub(super) turned: TablesDigest,
}

impl Operations {
    /// Returns true if nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The encoded change set.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Change of the tables digest.
    pub fn turned(&self) -> TablesDigest {
        self.turned
    }

    /// Appends a row change.
    pub fn push(&mut self, table: &str, key: &[u8], value: Option<&[u8]>) {
        let (kind, value) = value.map_or((REMOVED, &[][..]), |value| (PUT, value));
        self.bytes.extend_from_slice(&[number_of(table), kind]);
        for part in [key, value] {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            self.bytes.extend_from_slice(&length.to_le_bytes());
            self.bytes.extend_from_slice(part);
        }
    }
}

/// Decodes a change set.
///
/// # Errors
/// `Damaged` if the bytes are invalid, or were written by a newer build.
pub fn parse(mut bytes: &[u8]) -> Result<Vec<Operation>, ControlError> {
    let wrong = |why: &str| ControlError::damaged("operations", why);
    if bytes.len() > OPERATIONS_BYTES_MAX {
        return Err(wrong("they have more bytes than there may be"));
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let cut = "they are cut off";
        let (&[number, kind], rest) = bytes.split_first_chunk().ok_or_else(|| wrong(cut))?;
        bytes = rest;
        let table = table_of(number).ok_or_else(|| wrong("they name a table that is not known"))?;
        let key = part(&mut bytes, KEY_BYTES_MAX).ok_or_else(|| wrong(cut))?;
        let value = part(&mut bytes, RECORD_BYTES_MAX).ok_or_else(|| wrong(cut))?;
        let value = match kind {
            PUT => Some(value.to_vec()),
            REMOVED if value.is_empty() => None,
            _ => return Err(wrong("one is neither put nor removed")),
        };
        found.push(Operation { table, key: key.to_vec(), value });
    }
    Ok(found)
}

fn part<'a>(bytes: &mut &'a [u8], most: usize) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|it| *it <= most)?;
    let (part, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(part)
}

fn number_of(table: &str) -> u8 {
    let found = TABLE_NAMES.iter().find(|(name, _)| *name == table);
    found.map_or(EXPIRIES_NUMBER, |(_, number)| *number)
}

fn table_of(number: u8) -> Option<&'static str> {
    if number == EXPIRIES_NUMBER {
        return Some(EXPIRIES);
    }
    TABLE_NAMES.iter().find(|(_, one)| *one == number).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Operations, Vec<Operation>) {
        let wanted = vec![
            Operation { table: "tenants", key: b"acme".to_vec(), value: Some(b"{}".to_vec()) },
            Operation { table: EXPIRIES, key: vec![0; 9], value: Some(Vec::new()) },
            Operation { table: "codes", key: vec![7; 32], value: None },
        ];
        let mut operations = Operations::default();
        for Operation { table, key, value } in &wanted {
            operations.push(table, key, value.as_deref());
        }
        (operations, wanted)
    }

    #[test]
    fn operations_are_read_as_they_were_made_and_every_cut_is_found() {
        let (operations, wanted) = sample();
        let bytes = operations.bytes();
        assert_eq!(parse(bytes).unwrap(), wanted);
        let ends: Vec<usize> =
            (0..bytes.len()).filter(|end| parse(&bytes[..*end]).is_ok()).collect();
        assert_eq!(ends, [0, 16, 35], "whole operations, and nothing between");
    }

    #[test]
    fn what_no_build_writes_is_refused() {
        for wrong in [
            &[99, 1, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[1, 2, 0, 0, 0, 0, 0, 0, 0, 0],
            &[1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5],
            &[1, 1, 255, 255, 255, 255],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_digest_is_of_what_is_there_and_not_of_how_it_came() {
        let of = |rows: &[(&str, &[u8], &[u8])]| {
            let mut digest = TablesDigest::default();
            rows.iter().for_each(|(table, key, value)| digest.turn(table, key, value));
            digest
        };
        let (one, two) = (("tenants", &b"a"[..], &b"1"[..]), ("tenants", &b"b"[..], &b"2"[..]));
        assert_eq!(of(&[one, two]), of(&[two, one]));
        assert_eq!(of(&[one, two, two]), of(&[one]));
        assert_ne!(of(&[one]), of(&[two]));
        assert_ne!(of(&[("tenants", b"ab", b"c")]), of(&[("tenants", b"a", b"bc")]));
        assert_ne!(of(&[("tenants", b"a", b"1")]), of(&[("codes", b"a", b"1")]));
    }
}
