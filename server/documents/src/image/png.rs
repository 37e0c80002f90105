//! PNG (ISO/IEC 15948): size and text chunks.

use std::io::Read;

use flate2::read::ZlibDecoder;

use super::bytes::{Order, words};
use super::facts::{Facts, INFLATED_BYTES_MAX, PARTS_MAX};
use super::{exif, xmp};

const XMP: &str = "XML:com.adobe.xmp";

/// Reads a PNG; `None` if its first chunk is not the header.
pub(super) fn read(bytes: &[u8]) -> Option<Facts> {
    let mut facts = Facts::of("PNG");
    let mut inflating = INFLATED_BYTES_MAX;
    let mut at = 8;
    if bytes.get(12..16)? != b"IHDR" {
        return None;
    }
    facts.width = Order::High.number(bytes, 16, 4)?;
    facts.height = Order::High.number(bytes, 20, 4)?;
    for _ in 0..PARTS_MAX {
        let length = Order::High.size(bytes, at, 4);
        let end = length.and_then(|length| length.checked_add(at + 8));
        let part = end.and_then(|end| Some((bytes.get(at + 4..at + 8)?, bytes.get(at + 8..end)?)));
        let (Some((kind, data)), Some(end)) = (part, end) else {
            facts.ends_early();
            break;
        };
        match kind {
            b"IEND" => break,
            b"tEXt" => latin(data, &mut facts),
            b"zTXt" => compressed(data, &mut inflating, &mut facts),
            b"iTXt" => international(data, &mut inflating, &mut facts),
            b"eXIf" => exif::read(data, &mut facts),
            _ => {}
        }
        at = end + 4; // behind the checksum
    }
    Some(facts)
}

fn latin(data: &[u8], facts: &mut Facts) {
    if let Some((keyword, text)) = split(data) {
        add(keyword, &words(text), facts);
    }
}

fn compressed(data: &[u8], room: &mut usize, facts: &mut Facts) {
    let Some((keyword, [0, packed @ ..])) = split(data) else { return };
    let text = inflate(packed, room, facts);
    add(keyword, &words(&text), facts);
}

/// Reads an iTXt chunk: keyword, compression flag, method, language, translated keyword, text.
fn international(data: &[u8], room: &mut usize, facts: &mut Facts) {
    let Some((keyword, [is_compressed, _, rest @ ..])) = split(data) else { return };
    let Some((_, text)) = split(rest).and_then(|(_, rest)| split(rest)) else { return };
    let text = match is_compressed {
        0 => text.to_vec(),
        _ => inflate(text, room, facts),
    };
    if words(keyword) == XMP { xmp::read(&text, facts) } else { add(keyword, &words(&text), facts) }
}

/// Splits `data` at its first NUL.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let nul = data.iter().position(|&byte| byte == 0)?;
    Some((&data[..nul], &data[nul + 1..]))
}

/// Inflates at most `room` bytes; damaged data ends at the damage.
fn inflate(packed: &[u8], room: &mut usize, facts: &mut Facts) -> Vec<u8> {
    let mut text = Vec::new();
    let bound = *room as u64 + 1;
    let _ = ZlibDecoder::new(packed).take(bound).read_to_end(&mut text);
    if text.len() > *room {
        text.truncate(*room);
        let note = format!("texts beyond {INFLATED_BYTES_MAX} bytes are left out");
        if !facts.notes.contains(&note) {
            facts.notes.push(note);
        }
    }
    *room -= text.len();
    text
}

/// Adds a text under its keyword, except for keywords under which programs store binary data.
fn add(keyword: &[u8], text: &str, facts: &mut Facts) {
    let keyword = words(keyword);
    if !keyword.starts_with("Raw profile") {
        facts.add(&keyword, text);
    }
}
