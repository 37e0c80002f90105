//! Decodes bytes to text: UTF-8, UTF-16 with a byte order mark, else lossy with a note.

/// Returns the text of `bytes` without a byte order mark, and a note if characters were lost or changed.
pub(super) fn decode(bytes: &[u8]) -> (String, Option<String>) {
    if let Some(rest) = bytes.strip_prefix(b"\xEF\xBB\xBF") {
        return utf8(rest);
    }
    if let Some(rest) = bytes.strip_prefix(b"\xFF\xFE") {
        return utf16(rest, u16::from_le_bytes, "little-endian");
    }
    if let Some(rest) = bytes.strip_prefix(b"\xFE\xFF") {
        return utf16(rest, network_order, "big-endian");
    }
    utf8(bytes)
}

/// Decodes a table like [`decode`], but reads bytes that are not UTF-8 as Windows-1252, the encoding of spreadsheet
/// exports.
pub(super) fn decode_table(bytes: &[u8]) -> (String, Option<String>) {
    let is_marked =
        [&b"\xEF\xBB\xBF"[..], b"\xFF\xFE", b"\xFE\xFF"].iter().any(|mark| bytes.starts_with(mark));
    if is_marked || std::str::from_utf8(bytes).is_ok() {
        return decode(bytes);
    }
    let text = bytes.iter().map(|&byte| western(byte)).collect();
    let note = "not valid UTF-8; decoded as Windows-1252; positions count the UTF-8 text";
    (text, Some(note.to_owned()))
}

/// Character of a Windows-1252 byte: Latin-1 except for 0x80 to 0x9F.
fn western(byte: u8) -> char {
    const HIGH: &str = "\u{20AC}\u{81}\u{201A}\u{192}\u{201E}\u{2026}\u{2020}\u{2021}\u{2C6}\u{2030}\
                        \u{160}\u{2039}\u{152}\u{8D}\u{17D}\u{8F}\u{90}\u{2018}\u{2019}\u{201C}\
                        \u{201D}\u{2022}\u{2013}\u{2014}\u{2DC}\u{2122}\u{161}\u{203A}\u{153}\
                        \u{9D}\u{17E}\u{178}";
    let high = byte.checked_sub(0x80).and_then(|at| HIGH.chars().nth(usize::from(at)));
    high.unwrap_or(char::from(byte))
}

fn utf8(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(error) => {
            let note = format!(
                "not valid UTF-8 from byte {}; unreadable bytes are shown as U+FFFD",
                error.valid_up_to()
            );
            (String::from_utf8_lossy(bytes).into_owned(), Some(note))
        }
    }
}

fn network_order(pair: [u8; 2]) -> u16 {
    (u16::from(pair[0]) << 8) | u16::from(pair[1])
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16, order: &str) -> (String, Option<String>) {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let mut lost = odd.len();
    let mut text: String = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)))
        .map(|letter| {
            letter.unwrap_or_else(|_| {
                lost += 1;
                char::REPLACEMENT_CHARACTER
            })
        })
        .collect();
    if !odd.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    let lossy = if lost > 0 {
        format!("; {lost} unreadable units are shown as U+FFFD")
    } else {
        String::new()
    };
    (text, Some(format!("decoded from UTF-16 {order}{lossy}; positions count the UTF-8 text")))
}

#[cfg(test)]
mod tests {
    use super::{decode, decode_table};

    #[test]
    fn tables_are_windows_1252_where_they_are_no_utf_8() {
        let (text, note) = decode_table(b"caf\xE9 \x80 5 \x9F");
        assert_eq!(text, "caf\u{e9} \u{20ac} 5 \u{178}");
        assert!(note.unwrap().contains("1252"));
        assert_eq!(decode_table("caf\u{e9}".as_bytes()), ("caf\u{e9}".into(), None));
    }

    #[test]
    fn marks_are_stripped() {
        assert_eq!(decode(b"\xEF\xBB\xBFhi"), ("hi".into(), None));
        assert_eq!(decode(b"\xFF\xFEh\0i\0").0, "hi");
        assert_eq!(decode(b"\xFE\xFF\0h\0i").0, "hi");
    }

    #[test]
    fn losses_are_noted() {
        let (text, note) = decode(b"caf\xE9");
        assert_eq!(text, "caf\u{FFFD}");
        assert!(note.unwrap().contains("byte 3"));
        let (text, note) = decode(b"\xFF\xFE\x00\xD8\x41");
        assert_eq!(text, "\u{FFFD}\u{FFFD}");
        assert!(note.unwrap().contains("2 unreadable"));
    }
}
