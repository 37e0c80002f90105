//! Numbers and texts as picture formats write them.

/// Which byte of a number comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The highest, as in PNG and JPEG.
    High,
    /// The lowest, as in GIF and WebP.
    Low,
}

impl Order {
    /// A number of `width` bytes, at most four, at `at`.
    pub(super) fn number(self, bytes: &[u8], at: usize, width: usize) -> Option<u32> {
        let part = bytes.get(at..at.checked_add(width)?)?;
        let add = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        Some(match self {
            Self::High => part.iter().fold(0, add),
            Self::Low => part.iter().rev().fold(0, add),
        })
    }

    /// The same as a length or an offset.
    pub(super) fn size(self, bytes: &[u8], at: usize, width: usize) -> Option<usize> {
        usize::try_from(self.number(bytes, at, width)?).ok()
    }
}

/// A text that should be ASCII or Latin-1 and often is UTF-8.
pub(super) fn words(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

/// A text of 16-bit units.
pub(super) fn wide_words(bytes: &[u8], order: Order) -> String {
    let units = (0..bytes.len() / 2).filter_map(|at| order.number(bytes, at * 2, 2));
    let units: Vec<u16> = units.filter_map(|unit| u16::try_from(unit).ok()).collect();
    String::from_utf16_lossy(&units)
}
