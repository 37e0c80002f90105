//! How far the bytes of an alphabet go on: looked up once for each stretch, however often it is asked.

use std::ops::Range;

/// The characters that a token is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// `0-9a-f`.
    Hex,
    /// `A-Z2-7`.
    Base32,
    /// `0-9A-Z`.
    Upper,
    /// `0-9A-Za-z`.
    Base62,
    /// `0-9A-Za-z_-`, and `=` at the end.
    Url,
    /// The same with dots.
    Dotted,
}

/// How many there are.
const ALPHABETS: usize = 6;

impl Alphabet {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Self::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Self::Base32 => matches!(byte, b'A'..=b'Z' | b'2'..=b'7'),
            Self::Upper => matches!(byte, b'A'..=b'Z' | b'0'..=b'9'),
            Self::Base62 => byte.is_ascii_alphanumeric(),
            Self::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
        }
    }
}

/// The stretch of each alphabet that was looked at last. Without it, a text of nothing but beginnings would be read
/// once for each of them.
#[derive(Debug, Default)]
pub(super) struct Runs {
    last: [Range<usize>; ALPHABETS],
}

impl Runs {
    /// Where the bytes of `alphabet` from `from` on end.
    pub(super) fn end(&mut self, bytes: &[u8], from: usize, alphabet: Alphabet) -> usize {
        let last = &mut self.last[alphabet as usize];
        if !last.contains(&from) {
            let more = bytes[from..].iter().take_while(|&&byte| alphabet.has(byte)).count();
            *last = from..from + more;
        }
        last.end.max(from)
    }
}
