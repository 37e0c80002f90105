//! Reads a file's bytes with the reader of their format.

use crate::detect::detect;
use crate::document::{Document, HEADING_CHARS_MAX, Link, tidy};
use crate::format::{Format, Unread};
use crate::image::Beside;
use crate::pdf::PdfReader;
use crate::{code, decode, html, image, json_lines, markdown, pdf, rst, table, text};
use recalld_common::cancel::CallScope;

/// Larger Markdown and HTML is read as plain text: the parsers build trees and maps several times the size of the text,
/// and no person writes a document this long.
pub(crate) const MARKUP_BYTES_MAX: usize = 4 << 20;

/// Inputs of a reader beside the file's bytes.
#[derive(Clone, Copy)]
pub struct Aids<'a> {
    /// Reader of PDFs; PDFs are refused without one.
    pub pdf: Option<&'a PdfReader>,
    /// Sidecar files of an image.
    pub beside: &'a [Beside],
    /// Call for which the file is read; its cancellation stops a PDF reader.
    pub call: CallScope<'a>,
}

impl Aids<'_> {
    /// Options without a PDF reader, sidecars or deadline.
    pub fn none() -> Self {
        Self { pdf: None, beside: &[], call: CallScope::endless() }
    }
}

/// Reads the bytes of a file named `name`, without a PDF reader and without sidecars.
///
/// # Errors
/// The bytes are not a readable document.
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Document, Unread> {
    read_with(name, bytes, Aids::none())
}

/// Reads the bytes of a file named `name`.
///
/// # Errors
/// The bytes are not a readable document.
pub fn read_with(name: &str, bytes: &[u8], aids: Aids<'_>) -> Result<Document, Unread> {
    let format = detect(name, bytes)?;
    let document = match format {
        Format::Pdf => pdf::read(aids.pdf, bytes, aids.call)?,
        Format::Image => image::read(name, bytes, aids.beside).map_err(Unread::Broken)?,
        Format::Csv => {
            let (text, note) = decode::decode_table(bytes);
            noting(read_text(name, format, text), note)
        }
        _ => {
            let (text, note) = decode::decode(bytes);
            noting(read_text(name, format, text), note)
        }
    };
    Ok(titled(name, document))
}

/// Returns the links of a file; formats without links are not parsed.
///
/// # Errors
/// As [`read_bytes`].
pub fn links_of(name: &str, bytes: &[u8]) -> Result<Vec<Link>, Unread> {
    match detect(name, bytes)? {
        Format::Pdf | Format::Image | Format::Csv | Format::JsonLines => Ok(Vec::new()),
        _ => read_bytes(name, bytes).map(|document| document.links),
    }
}

fn noting(mut document: Document, note: Option<String>) -> Document {
    document.notes.extend(note);
    document
}

/// Sets the file's name as the title of a document without one.
fn titled(name: &str, mut document: Document) -> Document {
    if document.title.is_empty() {
        document.title = tidy(name.rsplit('/').next().unwrap_or(name), HEADING_CHARS_MAX);
    }
    document
}

/// Reads decoded text as `format`. `name` is the title of last resort.
pub fn read_text(name: &str, format: Format, text: String) -> Document {
    let long = text.len() > MARKUP_BYTES_MAX;
    let document = match format {
        Format::Markdown if !long => markdown::read(text),
        Format::Html if !long => html::read(&text),
        Format::Markdown | Format::Html => {
            let mut plain = text::read(text);
            plain.notes.push(format!("longer than {MARKUP_BYTES_MAX} bytes; read as plain text"));
            plain
        }
        Format::Rst => rst::read(text),
        Format::Csv => table::read(&text).unwrap_or_else(|| text::read(text)),
        Format::JsonLines => json_lines::read(&text).unwrap_or_else(|| text::read(text)),
        // PDFs and images reach this function only as text: their bytes have readers of their own.
        Format::Text | Format::Pdf | Format::Image => text::read(text),
        Format::Code(language) => code::read(language, text),
    };
    titled(name, document)
}
