//! Secrets in memory: a text that is wiped when dropped, and a hash for comparison.
//!
//! Neither type implements `Debug`, so no log line can contain a secret by accident.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

/// Fills a buffer with random bytes; from the operating system in the program, from a seed in tests.
pub type Random<'a> = dyn FnMut(&mut [u8]) + 'a;

/// Random bytes of a key: 256 bits.
const KEY_BYTES: usize = 32;
/// Base-62 digits of a key: the smallest width that fits every 256-bit number (62^43 > 2^256).
const KEY_DIGITS: usize = 43;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A secret text, wiped from memory when dropped. [`Secret::expose`] is the only access.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret that was read or received.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// Generates a key: `start`, then 32 random bytes in base 62, 43 digits.
    pub fn generate(start: &str, random: &mut Random<'_>) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        random(&mut *bytes);
        let mut text = String::with_capacity(start.len() + KEY_DIGITS);
        text.push_str(start);
        text.extend(base62(&mut bytes).map(char::from));
        Self::new(text)
    }

    /// The text, for the one place that shows or sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the hash for comparison with candidates.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(self.0.as_bytes())
    }
}

/// SHA-256 of a secret. Secrets have 256 random bits, so a plain hash cannot be searched.
#[derive(Clone)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// Hashes `secret`.
    pub fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// Returns true if `candidate` is the secret. The time depends only on the candidate's length.
    pub fn is_of(&self, candidate: &[u8]) -> bool {
        self.choice(candidate).into()
    }

    /// Compares like [`Self::is_of`], for combination without a branch.
    pub fn choice(&self, candidate: &[u8]) -> Choice {
        Self::of(candidate).0.ct_eq(&self.0)
    }
}

/// Returns the base-62 digits of `number` (big-endian), most significant first. Leaves zero in `number`.
fn base62(number: &mut [u8; KEY_BYTES]) -> [u8; KEY_DIGITS] {
    let mut digits = [0; KEY_DIGITS];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0;
        for byte in number.iter_mut() {
            let value = remainder * 256 + u16::from(*byte);
            *byte = u8::try_from(value / 62).expect("remainder < 62, so the quotient is below 256");
            remainder = value % 62;
        }
        *digit = DIGITS[usize::from(remainder)];
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_a_fixed_width_whatever_their_number() {
        let text = |byte: u8| {
            Secret::generate("p_", &mut |out: &mut [u8]| out.fill(byte)).expose().to_owned()
        };
        assert_eq!(text(0), format!("p_{}", "0".repeat(43)));
        assert_eq!(text(0xff).len(), 45);
        // 2^256 - 1 in base 62, computed independently with Python's integers.
        assert_eq!(text(0xff), "p_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1");
        let mut one = [0; KEY_BYTES];
        one[31] = 63;
        assert!(base62(&mut one).ends_with(b"011"));
        assert_eq!(one, [0; KEY_BYTES]);
    }

    #[test]
    fn only_the_secret_itself_matches_its_hash() {
        let hash = Secret::new("right".into()).hash();
        assert!(hash.is_of(b"right"));
        for wrong in ["", "righ", "right ", "Right"] {
            assert!(!hash.is_of(wrong.as_bytes()), "{wrong:?}");
        }
    }
}
