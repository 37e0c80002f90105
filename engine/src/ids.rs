//! Identifiers: 128-bit ids that sort by creation time, row numbers and commit numbers.
//!
//! An id is a ULID (48 bits of milliseconds, 80 random bits). Ids created one after another are close together in every
//! sorted column, and the next id cannot be guessed.

use std::fmt;
use std::str::FromStr;

use crate::os::clock::{Micros, Random};

/// Row number of a column within one segment.
pub type Row = u32;
/// Commit number: each committed batch has one, in ascending order.
pub type Seq = u64;

const TEXT_CHARS: usize = 26;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Error of parsing a text that is not an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseIdError;

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an id: a type prefix such as itm_ and {TEXT_CHARS} letters and digits")
    }
}

impl std::error::Error for ParseIdError {}

macro_rules! ids {
    ($($(#[$about:meta])* $name:ident),* $(,)?) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            /// Writes the 26 characters of Crockford's base 32, in lower case and without a type prefix.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(std::str::from_utf8(&text_of(self.0)).expect("base 32 is ASCII"))
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                number_of(text).map(Self)
            }
        }
    )*};
}

ids! {
    /// Id of a memory item.
    ItemId,
    /// Id of a source of items: one version of a file, a text or a conversation.
    SourceId,
    /// Id of a link between two items.
    EdgeId,
    /// Id of a store; chosen at creation and never changed.
    StoreId,
}

fn text_of(number: u128) -> [u8; TEXT_CHARS] {
    let mut text = [0; TEXT_CHARS];
    let mut rest = number;
    for place in text.iter_mut().rev() {
        *place = ALPHABET[(rest & 31) as usize];
        rest >>= 5;
    }
    text
}

fn number_of(text: &str) -> Result<u128, ParseIdError> {
    if text.len() != TEXT_CHARS {
        return Err(ParseIdError);
    }
    let mut number = 0u128;
    for (i, letter) in text.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|&a| a == letter).ok_or(ParseIdError)?;
        if i == 0 && digit > 7 {
            return Err(ParseIdError); // 26 * 5 = 130 bits: the first two must be zero
        }
        number = number << 5 | digit as u128;
    }
    Ok(number)
}

/// Generates strictly increasing ids, even if the clock goes backwards.
#[derive(Debug, Default)]
pub(crate) struct IdGenerator {
    last: u128,
}

impl IdGenerator {
    pub(crate) fn next_id(&mut self, now: Micros, random: &dyn Random) -> u128 {
        let millis = u128::from(now.0.max(0).unsigned_abs() / 1000);
        let mut bytes = [0; 16];
        random.fill(&mut bytes[..10]);
        let noise = u128::from_le_bytes(bytes);
        let fresh = millis << 80 | noise;
        self.last = if fresh > self.last { fresh } else { self.last + 1 };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_roundtrip_through_text_at_the_extremes() {
        for number in [0, 1, 31, 32, u128::MAX, 1 << 127, 0x0123_4567_89ab_cdef] {
            let text = ItemId(number).to_string();
            assert_eq!(text.len(), TEXT_CHARS);
            assert_eq!(text.parse(), Ok(ItemId(number)), "{text}");
        }
    }

    #[test]
    fn malformed_id_texts_are_rejected() {
        for text in ["", "0", "8zzzzzzzzzzzzzzzzzzzzzzzzz", "0000000000000000000000000u", "\u{e9}"]
        {
            assert_eq!(text.parse::<ItemId>(), Err(ParseIdError), "{text}");
        }
    }

    #[test]
    fn ids_increase_when_the_clock_goes_back() {
        #[derive(Debug)]
        struct Zeros;
        impl Random for Zeros {
            fn fill(&self, bytes: &mut [u8]) {
                bytes.fill(0);
            }
        }
        let mut maker = IdGenerator::default();
        let later = maker.next_id(Micros(5_000_000), &Zeros);
        let earlier = maker.next_id(Micros(1_000_000), &Zeros);
        assert!(earlier > later, "{earlier} follows {later}");
    }
}
