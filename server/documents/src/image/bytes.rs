//! Numbers and texts as image formats encode them.

/// Byte order of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Big-endian, as in PNG and JPEG.
    High,
    /// Little-endian, as in GIF and WebP.
    Low,
}

impl Order {
    /// Returns the number of `width` bytes (at most four) at `at`.
    pub(super) fn number(self, bytes: &[u8], at: usize, width: usize) -> Option<u32> {
        let part = bytes.get(at..at.checked_add(width)?)?;
        let add = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        Some(match self {
            Self::High => part.iter().fold(0, add),
            Self::Low => part.iter().rev().fold(0, add),
        })
    }

    /// Returns the number of `width` bytes at `at` as a length or an offset.
    pub(super) fn size(self, bytes: &[u8], at: usize, width: usize) -> Option<usize> {
        usize::try_from(self.number(bytes, at, width)?).ok()
    }
}

/// Decodes a text that is nominally ASCII or Latin-1 and often UTF-8.
pub(super) fn words(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

/// Decodes a text of 16-bit units.
pub(super) fn wide_words(bytes: &[u8], order: Order) -> String {
    let units = (0..bytes.len() / 2).filter_map(|at| order.number(bytes, at * 2, 2));
    let units: Vec<u16> = units.filter_map(|unit| u16::try_from(unit).ok()).collect();
    String::from_utf16_lossy(&units)
}
