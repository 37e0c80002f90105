//! Bounds-checked reading and writing of little-endian values. Meanings and limits of the values are left to the
//! callers.

use crate::error::CorruptionError;

/// Reads little-endian values from the front of an untrusted slice. Every failure is [`CorruptionError`] of the one
/// rule `rule`.
pub(crate) struct ByteReader<'a> {
    rest: &'a [u8],
    rule: &'static str,
}

macro_rules! numbers {
    ($($name:ident -> $type:ty),*) => {$(
        pub(crate) fn $name(&mut self) -> Result<$type, CorruptionError> {
            self.array().map(<$type>::from_le_bytes)
        }
    )*};
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8], rule: &'static str) -> Self {
        Self { rest: bytes, rule }
    }

    pub(crate) fn read_slice(&mut self, bytes: usize) -> Result<&'a [u8], CorruptionError> {
        let Some((head, rest)) = self.rest.split_at_checked(bytes) else {
            return Err(self.damage(format!("{bytes} bytes wanted, {} left", self.rest.len())));
        };
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], CorruptionError> {
        self.read_slice(N).map(|bytes| bytes.try_into().expect("take gives as many as asked"))
    }

    numbers!(u8 -> u8, u16 -> u16, u32 -> u32, u64 -> u64, u128 -> u128, i64 -> i64, f32 -> f32);

    /// Reads a `u32` length and that number of bytes.
    pub(crate) fn read_prefixed(&mut self) -> Result<&'a [u8], CorruptionError> {
        let length = self.u32()? as usize;
        self.read_slice(length)
    }

    pub(crate) fn read_text(&mut self) -> Result<&'a str, CorruptionError> {
        let bytes = self.read_prefixed()?;
        std::str::from_utf8(bytes).map_err(|error| self.damage(format!("not UTF-8: {error}")))
    }

    /// Reads a `u32` count of members of at least `member_bytes` each; a count that cannot fit the rest is damage.
    pub(crate) fn read_count(&mut self, member_bytes: usize) -> Result<usize, CorruptionError> {
        let count = self.u32()? as usize;
        if count > self.rest.len() / member_bytes.max(1) {
            return Err(self.damage(format!("{count} members in {} bytes", self.rest.len())));
        }
        Ok(count)
    }

    pub(crate) fn expect_end(&self) -> Result<(), CorruptionError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.damage(format!("{} bytes too many", self.rest.len())))
    }

    pub(crate) fn damage(&self, detail: impl Into<String>) -> CorruptionError {
        CorruptionError::new(self.rule, detail)
    }
}

/// Appends values in the format that [`ByteReader`] reads.
pub(crate) trait ByteWriter {
    fn put(&mut self, bytes: &[u8]);

    /// Appends the length as `u32`, then the bytes. The caller has checked the length against its limit.
    fn put_length_prefixed(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("limits.md bounds every field below 4 GiB");
        self.put(&length.to_le_bytes());
        self.put(bytes);
    }
}

impl ByteWriter for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
