//! EXIF (CIPA DC-008, TIFF 6.0): texts written by people and cameras.
//!
//! The location (the GPS directory) is never read: people who store images seldom intend to store their location.

use super::bytes::{Order, wide_words, words};
use super::facts::Facts;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Entries read per directory.
    const ENTRIES_MAX: usize = 512;
    /// Bytes of one value; longer values are cut.
    const VALUE_BYTES_MAX: usize = 8 << 10;
}

/// Tag of the pointer to the Exif directory (IFD).
const TAKING: u32 = 0x8769;
const ORIENTATION: u32 = 0x0112;
const USER_COMMENT: u32 = 0x9286;

/// Tags with text values, and their field names here.
const TEXTS: &[(u32, &str)] = &[
    (0x010E, "Description"),
    (0x010F, "Camera maker"),
    (0x0110, "Camera"),
    (0x013B, "Artist"),
    (0x8298, "Copyright"),
    (0x9003, "Taken"),
];
/// Tags with UTF-16 text values, written by the Windows file manager (XPTitle and the like).
const WIDE_TEXTS: &[(u32, &str)] = &[
    (0x9C9B, "Title"),
    (0x9C9C, "Comment"),
    (0x9C9D, "Artist"),
    (0x9C9E, "Keywords"),
    (0x9C9F, "Subject"),
];

/// Reads a TIFF header and the directories that follow it. Damaged entries are skipped.
pub(super) fn read(bytes: &[u8], facts: &mut Facts) {
    let order = match bytes.get(..4) {
        Some(b"II*\0") => Order::Low,
        Some(b"MM\0*") => Order::High,
        _ => return,
    };
    let Some(first) = order.size(bytes, 4, 4) else { return };
    // At most two directories are read, so a directory cannot lead to itself.
    if let Some(taking) = directory(bytes, order, first, facts) {
        directory(bytes, order, taking, facts);
    }
}

/// Reads one directory; returns the offset of the Exif directory, if an entry points to one.
fn directory(bytes: &[u8], order: Order, at: usize, facts: &mut Facts) -> Option<usize> {
    let entries = order.size(bytes, at, 2)?.min(ENTRIES_MAX);
    let mut taking = None;
    for entry in 0..entries {
        let entry = at + 2 + entry * 12;
        let Some(tag) = order.number(bytes, entry, 2) else { break };
        if tag == TAKING {
            taking = order.size(bytes, entry + 8, 4);
        } else if tag == ORIENTATION {
            if let Some(said) = order.number(bytes, entry + 8, 2).and_then(orientation) {
                facts.add("Orientation", said);
            }
        } else if let Some(value) = value(bytes, order, entry) {
            add(tag, value, order, facts);
        }
    }
    taking
}

/// Returns the bytes of an entry's value if its type consists of bytes (types 1, 2 and 7).
fn value(bytes: &[u8], order: Order, entry: usize) -> Option<&[u8]> {
    let kind = order.number(bytes, entry + 2, 2)?;
    let length = order.size(bytes, entry + 4, 4)?;
    if ![1, 2, 7].contains(&kind) {
        return None;
    }
    let at = if length <= 4 { entry + 8 } else { order.size(bytes, entry + 8, 4)? };
    bytes.get(at..at.checked_add(length.min(VALUE_BYTES_MAX))?)
}

fn add(tag: u32, value: &[u8], order: Order, facts: &mut Facts) {
    let named = |tags: &[(u32, &'static str)]| {
        tags.iter().find(|(known, _)| *known == tag).map(|(_, name)| *name)
    };
    if let Some(name) = named(TEXTS) {
        facts.add(name, &words(value));
    } else if let Some(name) = named(WIDE_TEXTS) {
        facts.add(name, &wide_words(value, Order::Low));
    } else if tag == USER_COMMENT {
        match value.split_at_checked(8) {
            Some((b"ASCII\0\0\0", text)) => facts.add("Comment", &words(text)),
            Some((b"UNICODE\0", text)) => facts.add("Comment", &wide_words(text, order)),
            _ => {}
        }
    }
}

/// Orientation of the stored image; `None` if the image is upright.
fn orientation(number: u32) -> Option<&'static str> {
    Some(match number {
        2 => "mirrored",
        3 => "upside down",
        4 => "upside down and mirrored",
        5 | 7 => "turned sideways and mirrored",
        6 => "turned to the left",
        8 => "turned to the right",
        _ => return None,
    })
}
