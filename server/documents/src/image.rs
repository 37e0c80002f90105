//! Images: their size, embedded metadata, and sidecar texts.
//!
//! No pixel is decoded. Positions in an image file are not recorded, because the text has no lines in that file.

mod bytes;
mod exif;
mod facts;
mod gif;
mod jpeg;
mod png;
mod webp;
mod xmp;

use super::document::{Document, HEADING_CHARS_MAX, Heading, Source, add_field, field, tidy, tile};
use super::format::Format;
use facts::Facts;

limit_table::limits! {
    pub(crate) const LIMITS = [exif, facts, gif, xmp];

    /// Bytes of one sidecar file.
    pub(crate) const BESIDE_BYTES_MAX: usize = 256 << 10;
}

/// Suffixes that a sidecar's name adds to the image's name.
pub(crate) const BESIDE_ENDINGS: [&str; 2] = [".txt", ".md"];

/// A sidecar file of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// File name, without folders.
    pub name: String,
    /// Text of the sidecar file.
    pub text: String,
}

/// Returns true if the file has the signature of a supported image format.
pub(crate) fn is_one(head: &[u8]) -> bool {
    [&b"\x89PNG\r\n\x1a\n"[..], b"\xFF\xD8\xFF", b"GIF87a", b"GIF89a"]
        .iter()
        .any(|signature| head.starts_with(signature))
        || webp::is_one(head)
}

/// Reads an image; an error if its size is not found.
pub(super) fn read(name: &str, bytes: &[u8], beside: &[Beside]) -> Result<Document, String> {
    let facts = match bytes {
        [0x89, ..] => png::read(bytes),
        [0xFF, ..] => jpeg::read(bytes),
        [b'G', ..] => gif::read(bytes),
        _ => webp::read(bytes),
    };
    let facts = facts.filter(|facts| facts.width > 0 && facts.height > 0);
    let Some(facts) = facts else {
        return Err("an image whose header is damaged or cut off".to_owned());
    };
    let name = name.rsplit('/').next().unwrap_or(name);
    Ok(document(name, facts, beside))
}

fn document(name: &str, facts: Facts, beside: &[Beside]) -> Document {
    let Facts { kind, width, height, fields: said, mut notes } = facts;
    let mut text = format!("{name}: {kind} image, {width} x {height} pixels\n");
    for (name, value) in &said {
        text.push_str(&format!("{name}: {value}\n"));
    }
    let mut headings = Vec::new();
    for one in beside.iter().filter(|one| !one.text.trim().is_empty()) {
        text.push('\n');
        let at = text.len();
        headings.push(Heading {
            at,
            body_start: at,
            level: 1,
            title: one.name.clone(),
            symbol: None,
        });
        text.push_str(one.text.trim());
        text.push('\n');
    }
    let title = field(&said, "Title").map_or(String::new(), |said| tidy(said, HEADING_CHARS_MAX));
    let mut fields = Vec::new();
    add_field(&mut fields, "Image", &format!("{kind}, {width} x {height} pixels"));
    said.iter().for_each(|(name, value)| add_field(&mut fields, name, value));
    let sections = tile(text.len(), headings, &mut notes);
    Document {
        title,
        format: Format::Image,
        modality: Format::Image.modality(),
        sections,
        keep: Vec::new(),
        links: Vec::new(),
        fields,
        notes,
        lost: None,
        source: Source::Verbatim,
        text,
    }
}

#[cfg(test)]
mod tests;
