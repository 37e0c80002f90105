use std::fmt;

use engine::os::clock::Random;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

/// `BYTES` bytes, written as twice as many lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex<const BYTES: usize>(pub [u8; BYTES]);

/// A SHA-256 hash.
pub type Hash = Hex<32>;

/// A unique number: 16 random bytes of the kernel.
pub type Nonce = Hex<16>;

impl Hash {
    /// Computes the SHA-256 hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// First half of the hash, for use in a name.
    #[must_use]
    pub fn half(&self) -> Nonce {
        Hex(self.0.first_chunk().copied().unwrap_or_default())
    }
}

impl<const BYTES: usize> Hex<BYTES> {
    /// All zeros: the hash of no known input.
    pub const NONE: Self = Self([0; BYTES]);
    /// All ones: sorts last.
    pub const MOST: Self = Self([0xff; BYTES]);

    /// Draws a random value.
    #[must_use]
    pub fn drawn(random: &dyn Random) -> Self {
        let mut bytes = [0; BYTES];
        random.fill(&mut bytes);
        Self(bytes)
    }

    /// Parses lower-case hexadecimal digits; `None` unless the text has exactly this length.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 2 * BYTES {
            return None;
        }
        let mut bytes = [0; BYTES];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().as_chunks().0) {
            let [high, low] = pair.map(digit);
            *byte = high? << 4 | low?;
        }
        Some(Self(bytes))
    }
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

impl<const BYTES: usize> fmt::Display for Hex<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const BYTES: usize> fmt::Debug for Hex<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const BYTES: usize> Serialize for Hex<BYTES> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const BYTES: usize> Deserialize<'de> for Hex<BYTES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            D::Error::custom(format!("{} lower-case hexadecimal digits are wanted", 2 * BYTES))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_as_they_are_written_and_no_others() {
        let nonce = Hex([0x00, 0xff, 0x1a]);
        assert_eq!(nonce.to_string(), "00ff1a");
        assert_eq!(Hex::<3>::parse("00ff1a"), Some(nonce));
        for wrong in ["", "00ff1", "00ff1a0", "00FF1a", "00fg1a", "+0ff1a"] {
            assert_eq!(Hex::<3>::parse(wrong), None, "{wrong}");
        }
    }
}
