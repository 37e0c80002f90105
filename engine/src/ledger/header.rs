use std::path::Path;

use sha2::{Digest, Sha256};

use super::entry::Hash;
use super::error::{LedgerCorruption, ReadError};
use super::layout::*;

const ORIGIN: &[u8] = b"ledger origin v1\0";

/// Hash from which the chain of `tenant` starts: the `previous` of its first entry.
pub(super) fn chain_origin(tenant: &Hash) -> Hash {
    Sha256::new().chain_update(ORIGIN).chain_update(tenant).finalize().into()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeHeader {
    pub(super) first_seq: u64,
    pub(super) previous: Hash,
    pub(super) tenant: Hash,
    pub(super) write_version: u32,
}

impl VolumeHeader {
    pub(super) fn new(first_seq: u64, previous: Hash, tenant: Hash) -> Self {
        Self { first_seq, previous, tenant, write_version: WRITE_VERSION }
    }

    /// Decodes the header of the volume at `path`, whose file name says that its first entry is `named_seq` (LED-03 to
    /// LED-06).
    pub(super) fn decode(
        bytes: &[u8; HEADER_BYTES],
        named_seq: u64,
        path: &Path,
    ) -> Result<Self, ReadError> {
        let broken = |rule, at: usize, what: String| {
            let at = u64::try_from(at).unwrap_or(u64::MAX);
            Err(ReadError::Damaged(LedgerCorruption {
                rule,
                seq: named_seq,
                at,
                volume: path.to_owned(),
                detail: what,
            }))
        };
        if bytes[HEADER_MAGIC..HEADER_READ_VERSION] != MAGIC {
            return broken(
                "LED-03",
                HEADER_MAGIC,
                "the file does not start with a ledger's magic".into(),
            );
        }
        let (found, wanted) =
            (u32::from_le_bytes(at(bytes, HEADER_CHECK)), crc32c::crc32c(&bytes[..HEADER_CHECK]));
        if found != wanted {
            return broken(
                "LED-04",
                HEADER_CHECK,
                format!("header checksum is {found:08x}, should be {wanted:08x}"),
            );
        }
        // The version is checked first, because a later version may have changed every other field.
        let read_version = u32::from_le_bytes(at(bytes, HEADER_READ_VERSION));
        if read_version > READ_VERSION {
            return Err(ReadError::TooNew(read_version));
        }
        if !all_zero(&bytes[HEADER_RESERVED..HEADER_CHECK]) {
            return broken("LED-04", HEADER_RESERVED, "reserved bytes are not zero".into());
        }
        let first_seq = u64::from_le_bytes(at(bytes, HEADER_FIRST_SEQ));
        if first_seq != named_seq {
            return broken(
                "LED-06",
                HEADER_FIRST_SEQ,
                format!("starts at entry {first_seq}, its name says {named_seq}"),
            );
        }
        Ok(Self {
            first_seq,
            previous: at(bytes, HEADER_PREVIOUS),
            tenant: at(bytes, HEADER_TENANT),
            write_version: u32::from_le_bytes(at(bytes, HEADER_WRITE_VERSION)),
        })
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(HEADER_MAGIC, &MAGIC);
        put(HEADER_READ_VERSION, &READ_VERSION.to_le_bytes());
        put(HEADER_WRITE_VERSION, &self.write_version.to_le_bytes());
        put(HEADER_FIRST_SEQ, &self.first_seq.to_le_bytes());
        put(HEADER_PREVIOUS, &self.previous);
        put(HEADER_TENANT, &self.tenant);
        let check = crc32c::crc32c(&bytes[..HEADER_CHECK]);
        bytes[HEADER_CHECK..].copy_from_slice(&check.to_le_bytes());
        bytes
    }
}

fn at<const N: usize>(bytes: &[u8; HEADER_BYTES], offset: usize) -> [u8; N] {
    bytes_at(bytes, offset).expect("the offset lies in the header")
}
