//! JPEG (ITU-T T.81): size, EXIF, XMP and comments, from the segments before the pixel data.

use super::bytes::{Order, words};
use super::facts::{Facts, PARTS_MAX};
use super::{exif, xmp};

const EXIF: &[u8] = b"Exif\0\0";
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

/// Reads a JPEG; `None` without a frame header.
pub(super) fn read(bytes: &[u8]) -> Option<Facts> {
    let mut facts = Facts::of("JPEG");
    let mut at = 2;
    for _ in 0..PARTS_MAX {
        while bytes.get(at) == Some(&0xFF) && bytes.get(at + 1) == Some(&0xFF) {
            at += 1; // fill bytes
        }
        let (Some(0xFF), Some(&marker)) = (bytes.get(at), bytes.get(at + 1)) else {
            facts.ends_early();
            break;
        };
        // Start of scan (pixel data) or end of image.
        if matches!(marker, 0xDA | 0xD9) {
            break;
        }
        // Markers without a length.
        if matches!(marker, 0x01 | 0xD0..=0xD8) {
            at += 2;
            continue;
        }
        let end = Order::High.size(bytes, at + 2, 2).map(|length| at + 2 + length);
        let Some((data, end)) = end.and_then(|end| Some((bytes.get(at + 4..end)?, end))) else {
            facts.ends_early();
            break;
        };
        match marker {
            0xC0..=0xCF if ![0xC4, 0xC8, 0xCC].contains(&marker) => {
                facts.height = Order::High.number(data, 1, 2)?;
                facts.width = Order::High.number(data, 3, 2)?;
            }
            0xE1 => match (data.strip_prefix(EXIF), data.strip_prefix(XMP)) {
                (Some(rest), _) => exif::read(rest, &mut facts),
                (_, Some(rest)) => xmp::read(rest, &mut facts),
                _ => {}
            },
            0xFE => facts.add("Comment", &words(data)),
            _ => {}
        }
        at = end;
    }
    Some(facts)
}
