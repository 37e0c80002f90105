//! A record: JSON with a checksum in front (CTL-04, CTL-05).
//!
//! Owns the encoding of a value. Must not know the meaning or the key of records.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::ControlError;
use super::schema::TableEntry;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum size of a record in bytes. The quota blocks of a month, each at its maximum length, need half; a
    /// client's redirect URIs need a few KiB.
    pub const RECORD_BYTES_MAX: usize = 64 * 1024;
}

const CRC_BYTES: usize = 4;

/// A value type of a table.
pub(super) trait Record: Serialize + DeserializeOwned {
    /// The table.
    const ENTRY: TableEntry;
    /// The table's name.
    const TABLE: &'static str = Self::ENTRY.0;
    /// Number of the table in `expiries`.
    const NUMBER: u8 = Self::ENTRY.1;

    /// Time from which the record is useless, in seconds since 1970; `None` while unknown.
    fn removed_at(&self) -> Option<u64> {
        None
    }
}

/// Encodes `record`.
pub(super) fn encode<R: Record>(record: &R) -> Result<Vec<u8>, ControlError> {
    let mut bytes = vec![0; CRC_BYTES];
    serde_json::to_writer(&mut bytes, record)
        .map_err(|error| ControlError::refused(R::TABLE, error.to_string()))?;
    if bytes.len() > RECORD_BYTES_MAX {
        let why =
            format!("its record would have {} bytes, {RECORD_BYTES_MAX} are allowed", bytes.len());
        return Err(ControlError::refused(R::TABLE, why));
    }
    let crc = crc32c::crc32c(&bytes[CRC_BYTES..]);
    bytes[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
    Ok(bytes)
}

/// Decodes a record.
pub(super) fn decode<R: Record>(bytes: &[u8]) -> Result<R, ControlError> {
    let damaged = |why: String| ControlError::damaged(R::TABLE, why);
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(damaged(format!(
            "a record has {} bytes, more than {RECORD_BYTES_MAX}",
            bytes.len()
        )));
    }
    let Some((crc, json)) = bytes.split_first_chunk::<CRC_BYTES>() else {
        return Err(damaged(format!("a record has {} bytes only", bytes.len())));
    };
    if crc32c::crc32c(json) != u32::from_le_bytes(*crc) {
        return Err(damaged("the checksum of a record is wrong".into()));
    }
    // The parser's message is dropped: it could quote the record, with the private key of access tokens.
    serde_json::from_slice(json).map_err(|error| {
        let at = format!("line {}, column {}", error.line(), error.column());
        damaged(format!("a record does not read at {at} (CTL-05)"))
    })
}
