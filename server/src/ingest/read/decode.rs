//! Bytes to text: UTF-8, UTF-16 with a byte order mark, else lossy with a note.
//!
//! Owns character encodings; knows no format.

/// The text of `bytes`, without a byte order mark, and a note when something was lost or changed.
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
    use super::decode;

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
