//! The readers: bytes of a file become a `Document`.
//!
//! Owns the choice of a reader and the reading of an allowed file; one file per kind of document.
//! Knows nothing of paths beyond a name, and nothing of where documents go.

mod adorned;
mod code;
mod decode;
mod detect;
mod document;
mod html;
mod items;
mod markdown;
mod mentions;
mod rst;
mod text;

use std::fmt;
use std::io;

use sha2::{Digest, Sha256};

pub use code::Language;
pub use detect::{DETECT_BYTES, detect};
pub use document::{
    Document, FIELD_CHARS_MAX, FIELDS_MAX, HEADING_CHARS_MAX, HEADING_DEPTH_MAX,
    LINK_TARGET_BYTES_MAX, LINKS_MAX, Link, LinkKind, Run, SECTIONS_MAX, Section, Source, line_of,
    line_starts,
};

use super::roots::{Allowed, FILE_BYTES_MAX};

/// Beyond this, Markdown and HTML are read as plain text: their parsers build trees and maps
/// several times the size of the text, and no document a person wrote is this long.
pub const MARKUP_BYTES_MAX: usize = 4 << 20;

/// The kinds of file we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// CommonMark with tables and front matter.
    Markdown,
    /// Plain text and data files shown as text.
    Text,
    /// reStructuredText.
    Rst,
    /// HTML, as extracted visible text.
    Html,
    /// Source code.
    Code(Language),
}

impl Format {
    /// A short name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Format::Markdown => "markdown",
            Format::Text => "text",
            Format::Rst => "rst",
            Format::Html => "html",
            Format::Code(language) => language.name(),
        }
    }

    /// `text` or `code`.
    pub fn modality(self) -> &'static str {
        match self {
            Format::Code(_) => "code",
            _ => "text",
        }
    }
}

/// Why bytes cannot be read as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unreadable {
    /// A PDF.
    Pdf,
    /// A picture.
    Image,
    /// A compressed file or archive.
    Archive,
    /// Control bytes no text has.
    Binary,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Unreadable::Pdf => "a PDF",
            Unreadable::Image => "an image",
            Unreadable::Archive => "an archive or compressed file",
            Unreadable::Binary => "a binary file",
        };
        write!(out, "{what}; only text, Markdown, reStructuredText, HTML and source code are read")
    }
}

/// A file, read whole.
#[derive(Debug, Clone)]
pub struct Read {
    /// SHA-256 of the raw bytes.
    pub bytes_sha256: [u8; 32],
    /// Length of the raw bytes.
    pub bytes: u64,
    /// What the bytes say.
    pub document: Document,
}

/// Why a file was not read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// Longer than `FILE_BYTES_MAX`.
    TooLarge,
    /// A folder was given.
    Folder,
    /// Not text.
    Unreadable(Unreadable),
    /// The system refused.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::TooLarge => {
                write!(out, "longer than {FILE_BYTES_MAX} bytes, the most one file may have")
            }
            ReadError::Folder => write!(out, "a folder; a file is wanted"),
            ReadError::Unreadable(why) => why.fmt(out),
            ReadError::Io(error) => write!(out, "cannot be read: {error}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads an allowed file whole.
///
/// # Errors
/// When it is a folder, too long, not text, or the system refuses.
pub fn read_file(file: &Allowed) -> Result<Read, ReadError> {
    if file.is_folder() {
        return Err(ReadError::Folder);
    }
    let bytes = file.read_bytes().map_err(ReadError::Io)?.ok_or(ReadError::TooLarge)?;
    let document = read_bytes(file.name(), &bytes).map_err(ReadError::Unreadable)?;
    Ok(Read { bytes_sha256: Sha256::digest(&bytes).into(), bytes: bytes.len() as u64, document })
}

/// Reads bytes said to be a file called `name`.
///
/// # Errors
/// When the bytes are not text.
pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Document, Unreadable> {
    let format = detect(name, bytes)?;
    let (text, note) = decode::decode(bytes);
    let mut document = read_text(name, format, text);
    document.notes.extend(note);
    Ok(document)
}

/// Reads text already decoded, as `format`. `name` is the title of last resort.
pub fn read_text(name: &str, format: Format, text: String) -> Document {
    let long = text.len() > MARKUP_BYTES_MAX;
    let mut document = match format {
        Format::Markdown if !long => markdown::read(text),
        Format::Html if !long => html::read(&text),
        Format::Markdown | Format::Html => {
            let mut plain = text::read(text);
            plain.notes.push(format!("longer than {MARKUP_BYTES_MAX} bytes; read as plain text"));
            plain
        }
        Format::Rst => rst::read(text),
        Format::Text => text::read(text),
        Format::Code(language) => code::read(language, text),
    };
    if document.title.is_empty() {
        name.rsplit('/').next().unwrap_or(name).clone_into(&mut document.title);
    }
    document
}

#[cfg(test)]
mod tests;
