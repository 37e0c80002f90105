//! Text as in Python: code points that may be lone surrogates.
//!
//! The encoding is WTF-8: UTF-8 in which a lone surrogate has its three bytes. Lone surrogates come from the body's
//! bytes (Python decodes with `surrogatepass`) and from `\u` escapes.

use std::borrow::Cow;

/// Text that may have lone surrogates.
pub(super) type Wtf8 = Vec<u8>;

const REPLACEMENT: char = '\u{FFFD}';

/// Decodes the body in the encoding that Python's `json.detect_encoding` derives from its first bytes: a byte order
/// mark, or the positions of zeros among the first four. `None` if the body is invalid in that encoding.
pub(super) fn decode(body: &[u8]) -> Option<Cow<'_, [u8]>> {
    match body {
        [0, 0, 0xFE, 0xFF, rest @ ..] => utf32(rest, u32::from_be_bytes),
        [0xFF, 0xFE, 0, 0, rest @ ..] => utf32(rest, u32::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xFF, 0xFE, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => utf8(rest),
        [0, 0, _, _, ..] => utf32(body, u32::from_be_bytes),
        [0, _, _, _, ..] | [0, _] => utf16(body, u16::from_be_bytes),
        [_, 0, 0, 0, ..] => utf32(body, u32::from_le_bytes),
        [_, 0, _, _, ..] | [_, 0] => utf16(body, u16::from_le_bytes),
        _ => utf8(body),
    }
}

/// Number of code points in `text`.
pub(super) fn length(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte & 0xC0 != 0x80).count()
}

/// Appends one code point, which may be a surrogate.
pub(super) fn push(text: &mut Wtf8, code: u32) {
    match char::from_u32(code) {
        Some(c) => text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        None => {
            let six_bits = |from: u32| u8::try_from(code >> from & 0x3F).expect("six bits fit");
            text.extend_from_slice(&[0xED, 0x80 | six_bits(6), 0x80 | six_bits(0)]);
        }
    }
}

/// Converts to a Rust string, with U+FFFD for each lone surrogate.
pub(super) fn to_string(text: &[u8]) -> Cow<'_, str> {
    if let Ok(whole) = std::str::from_utf8(text) {
        return Cow::Borrowed(whole);
    }
    let mut out = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        // A surrogate appears as three invalid bytes, of which only the first is replaced.
        if chunk.invalid().first() == Some(&0xED) {
            out.push(REPLACEMENT);
        }
    }
    Cow::Owned(out)
}

/// Validates UTF-8 that may have surrogates; its bytes are WTF-8 already.
fn utf8(body: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut rest = body;
    while let Err(error) = std::str::from_utf8(rest) {
        rest = match &rest[error.valid_up_to()..] {
            [0xED, 0xA0..=0xBF, 0x80..=0xBF, after @ ..] => after,
            _ => return None,
        };
    }
    Some(Cow::Borrowed(body))
}

fn utf16(body: &[u8], unit: fn([u8; 2]) -> u16) -> Option<Cow<'_, [u8]>> {
    let (pairs, []) = body.as_chunks() else { return None };
    let mut text = Wtf8::with_capacity(body.len());
    for decoded in char::decode_utf16(pairs.iter().map(|&pair| unit(pair))) {
        push(
            &mut text,
            decoded.map_or_else(|lone| u32::from(lone.unpaired_surrogate()), u32::from),
        );
    }
    Some(Cow::Owned(text))
}

fn utf32(body: &[u8], unit: fn([u8; 4]) -> u32) -> Option<Cow<'_, [u8]>> {
    let (quads, []) = body.as_chunks() else { return None };
    let mut text = Wtf8::with_capacity(body.len());
    for &quad in quads {
        let code = unit(quad);
        if code > u32::from(char::MAX) {
            return None;
        }
        push(&mut text, code);
    }
    Some(Cow::Owned(text))
}
