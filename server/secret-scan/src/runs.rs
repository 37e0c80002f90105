//! Lengths of runs of an alphabet, computed once per run.

use std::ops::Range;

/// Character set of a token.
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
    /// `0-9A-Za-z_-`.
    Url,
    /// `0-9A-Za-z_.-`.
    Dotted,
}

/// Number of alphabets.
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

/// The last run of each alphabet. Without this cache, a text of token prefixes would be scanned once per prefix.
#[derive(Debug, Default)]
pub(super) struct Runs {
    last: [Range<usize>; ALPHABETS],
}

impl Runs {
    /// Returns the end of the run of `alphabet` that begins at `from`.
    pub(super) fn end(&mut self, bytes: &[u8], from: usize, alphabet: Alphabet) -> usize {
        let last = &mut self.last[alphabet as usize];
        if !last.contains(&from) {
            let more = bytes[from..].iter().take_while(|&&byte| alphabet.has(byte)).count();
            *last = from..from + more;
        }
        last.end.max(from)
    }
}

/// Returns true if a byte belongs to a word; secrets begin at the start of a word.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}
