//! Strict percent-decoding of paths and query parts (RFC 3986, section 2.1).

use std::borrow::Cow;
use std::fmt;

/// Error of percent-decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PercentError {
    /// A `%` at this byte is not followed by two hexadecimal digits.
    Escape(usize),
    /// The decoded bytes are not UTF-8.
    Utf8,
    /// The decoded text contains a control character.
    Control,
}

impl fmt::Display for PercentError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PercentError::Escape(at) => {
                write!(out, "'%' at byte {at} needs two hexadecimal digits after it")
            }
            PercentError::Utf8 => out.write_str("the decoded bytes are not UTF-8"),
            PercentError::Control => out.write_str("the decoded text holds a control character"),
        }
    }
}

impl std::error::Error for PercentError {}

/// Decodes `%XX`. `+` stays `+`: `+` means a space only in form data, which is decoded elsewhere.
///
/// # Errors
/// A broken escape, bytes that are not UTF-8, or a control character (NUL, line ends and the like).
pub fn percent_decode(text: &str) -> Result<Cow<'_, str>, PercentError> {
    let decoded = match text.find('%') {
        None => Cow::Borrowed(text),
        Some(first) => Cow::Owned(decode_from(text.as_bytes(), first)?),
    };
    if decoded.chars().any(char::is_control) {
        return Err(PercentError::Control);
    }
    Ok(decoded)
}

fn decode_from(bytes: &[u8], first: usize) -> Result<String, PercentError> {
    let mut decoded = Vec::with_capacity(bytes.len());
    decoded.extend_from_slice(&bytes[..first]);
    let mut at = first;
    while let Some(byte) = bytes.get(at) {
        if *byte != b'%' {
            decoded.push(*byte);
            at += 1;
            continue;
        }
        let digit = |i: usize| bytes.get(i).and_then(|digit| hex(*digit));
        let (high, low) = digit(at + 1).zip(digit(at + 2)).ok_or(PercentError::Escape(at))?;
        decoded.push(high << 4 | low);
        at += 3;
    }
    String::from_utf8(decoded).map_err(|_| PercentError::Utf8)
}

/// Returns the value of a hexadecimal digit.
pub fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_and_refuses() {
        assert_eq!(percent_decode("/plain+x").unwrap(), "/plain+x");
        assert_eq!(percent_decode("/%41%c3%A9%2f").unwrap(), "/A\u{e9}/");
        assert_eq!(percent_decode("/a%"), Err(PercentError::Escape(2)));
        assert_eq!(percent_decode("/a%4"), Err(PercentError::Escape(2)));
        assert_eq!(percent_decode("%zz"), Err(PercentError::Escape(0)));
        assert_eq!(percent_decode("%+1"), Err(PercentError::Escape(0)));
        assert_eq!(percent_decode("%ff"), Err(PercentError::Utf8));
        assert_eq!(percent_decode("%c0%af"), Err(PercentError::Utf8));
        assert_eq!(percent_decode("a%00b"), Err(PercentError::Control));
        assert_eq!(percent_decode("a%0d%0ab"), Err(PercentError::Control));
    }
}
