//! Bytes become a document by the reader of their kind.

use crate::detect::detect;
use crate::document::{Document, HEADING_CHARS_MAX, Link, tidy};
use crate::format::{Format, Unread};
use crate::image::Beside;
use crate::pdf::PdfReader;
use crate::{code, decode, html, image, json_lines, markdown, pdf, rst, table, text};
use recalld_common::cancel::CallScope;

/// Beyond this, Markdown and HTML are read as plain text: their parsers build trees and maps
/// several times the size of the text, and no document a person wrote is this long.
pub(crate) const MARKUP_BYTES_MAX: usize = 4 << 20;

/// What a reader may need beside a file's bytes.
#[derive(Clone, Copy)]
pub struct Aids<'a> {
    /// What reads PDFs; without it they are not read.
    pub pdf: Option<&'a PdfReader>,
    /// Files of words beside a picture.
    pub beside: &'a [Beside],
    /// The call that wants the file.
    pub call: CallScope<'a>,
}

impl Aids<'_> {
    /// None.
    pub fn none() -> Self {
        Self { pdf: None, beside: &[], call: CallScope::endless() }
    }
}

/// Reads bytes said to be a file called `name`, with nothing but them: no PDF, and no words beside.
///
/// # Errors
/// When they are no document.
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Document, Unread> {
    read_with(name, bytes, Aids::none())
}

/// Reads bytes said to be a file called `name`.
///
/// # Errors
/// When they are no document.
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

/// The links of a file, without reading what has none.
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

/// With the file's name for a title, where it has none.
fn titled(name: &str, mut document: Document) -> Document {
    if document.title.is_empty() {
        document.title = tidy(name.rsplit('/').next().unwrap_or(name), HEADING_CHARS_MAX);
    }
    document
}

/// Reads text already decoded, as `format`. `name` is the title of last resort.
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
        // What is no text is read by its bytes.
        Format::Text | Format::Pdf | Format::Image => text::read(text),
        Format::Code(language) => code::read(language, text),
    };
    titled(name, document)
}
