//! XMP (ISO 16684): title, description and creator.
//!
//! Searches for three elements; the XML is not parsed, and no reference in it is followed.

use super::bytes::words;
use super::facts::Facts;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Bytes of a packet that are read.
    const PACKET_BYTES_MAX: usize = 256 << 10;
}

const ELEMENTS: [(&str, &str); 3] =
    [("dc:title", "Title"), ("dc:description", "Description"), ("dc:creator", "Artist")];

pub(super) fn read(packet: &[u8], facts: &mut Facts) {
    let text = words(&packet[..packet.len().min(PACKET_BYTES_MAX)]);
    for (element, name) in ELEMENTS {
        if let Some(said) = inner(&text, element) {
            facts.add(name, &unescaped(&said));
        }
    }
}

/// Returns the text of the first item in an element's list.
fn inner(text: &str, element: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{element}"))?;
    let (body, _) = rest.split_once(&format!("</{element}>"))?;
    let (_, item) = body.split_once("<rdf:li")?;
    let (item, _) = item.split_once("</rdf:li>")?;
    Some(item.split_once('>')?.1.to_owned())
}

/// Replaces the five XML entities and numeric character references.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let end = after.char_indices().take(10).find(|(_, letter)| *letter == ';');
        let letter = end.and_then(|(end, _)| entity(&after[..end]).map(|letter| (letter, end)));
        match letter {
            Some((letter, end)) => {
                out.push(letter);
                rest = &after[end + 1..];
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    let number = |digits: &str, base| u32::from_str_radix(digits, base).ok();
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let digits = name.strip_prefix('#')?;
            let hex = digits.strip_prefix(['x', 'X']).map(|digits| number(digits, 16));
            char::from_u32(hex.unwrap_or_else(|| number(digits, 10))?)
        }
    }
}
