//! WebP (RFC 9649): size, EXIF and XMP, from the chunks of a RIFF file.

use super::bytes::Order;
use super::facts::{Facts, PARTS_MAX};
use super::{exif, xmp};

/// Returns true if a file begins with the WebP signature.
pub(super) fn is_one(head: &[u8]) -> bool {
    head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP")
}

/// Reads a WebP file. The size stays 0 if no chunk has it.
pub(super) fn read(bytes: &[u8]) -> Option<Facts> {
    let mut facts = Facts::of("WebP");
    let mut at = 12;
    for _ in 0..PARTS_MAX {
        if at >= bytes.len() {
            break;
        }
        let end = Order::Low.size(bytes, at + 4, 4).and_then(|length| length.checked_add(at + 8));
        let data = end.and_then(|end| bytes.get(at + 8..end));
        let (Some(data), Some(end)) = (data, end) else {
            facts.ends_early();
            // The size is at the start of a chunk, so an incomplete chunk may still have it.
            let data = bytes.get(at + 8..).unwrap_or_default();
            part(bytes.get(at..at + 4).unwrap_or_default(), data, &mut facts);
            break;
        };
        part(&bytes[at..at + 4], data, &mut facts);
        at = end + end % 2;
    }
    Some(facts)
}

fn part(kind: &[u8], data: &[u8], facts: &mut Facts) {
    match kind {
        b"VP8X" => set(facts, extended(data)),
        b"VP8L" => set(facts, lossless(data)),
        b"VP8 " => set(facts, lossy(data)),
        b"EXIF" => exif::read(data.strip_prefix(b"Exif\0\0").unwrap_or(data), facts),
        b"XMP " => xmp::read(data, facts),
        _ => {}
    }
}

/// Sets the size once: the size of the whole image precedes the sizes of its frames.
fn set(facts: &mut Facts, size: Option<(u32, u32)>) {
    if let (0, Some((width, height))) = (facts.width, size) {
        (facts.width, facts.height) = (width, height);
    }
}

fn extended(data: &[u8]) -> Option<(u32, u32)> {
    Some((Order::Low.number(data, 4, 3)? + 1, Order::Low.number(data, 7, 3)? + 1))
}

fn lossless(data: &[u8]) -> Option<(u32, u32)> {
    let bits = Order::Low.number(data, 1, 4).filter(|_| data[0] == 0x2F)?;
    Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
}

fn lossy(data: &[u8]) -> Option<(u32, u32)> {
    if data.get(3..6)? != b"\x9D\x01\x2A" {
        return None;
    }
    Some((Order::Low.number(data, 6, 2)? & 0x3FFF, Order::Low.number(data, 8, 2)? & 0x3FFF))
}
