//! The readers: bytes of a file become a `Document`.
//!
//! Owns the choice of a reader and the reading of an allowed file; one file per kind of document.
//! Knows nothing of paths beyond a name, and nothing of where documents go.
#![forbid(unsafe_code)]

mod adorned;
pub mod beside;
pub mod chunk;
mod code;
mod decode;
pub mod detect;
mod document;
mod html;
mod image;
mod items;
mod json_lines;
mod markdown;
mod mentions;
mod pdf;
mod pieces;
mod records;
mod rst;
mod table;
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
pub use image::{BESIDE_BYTES_MAX, BESIDE_ENDINGS, Beside, is_one as is_picture};
pub use pdf::SUBCOMMAND;
pub use pdf::{PdfReader, main as read_pdf};

use recalld_fs_util::roots::{Allowed, FILE_BYTES_MAX};

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
    /// PDF, as its text by pages.
    Pdf,
    /// A picture, as what is said of it.
    Image,
    /// Delimited values, as rows of named cells.
    Csv,
    /// JSON Lines, as records of named values.
    JsonLines,
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
            Format::Pdf => "pdf",
            Format::Image => "image",
            Format::Csv => "csv",
            Format::JsonLines => "jsonl",
        }
    }

    /// `text`, `code`, `pdf` or `image`.
    pub fn modality(self) -> &'static str {
        match self {
            Format::Code(_) => "code",
            Format::Pdf => "pdf",
            Format::Image => "image",
            _ => "text",
        }
    }
}

/// Why bytes are not for reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unreadable {
    /// A picture of another kind.
    Image,
    /// A compressed file or archive.
    Archive,
    /// Control bytes no text has.
    Binary,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Unreadable::Image => "an image of another kind",
            Unreadable::Archive => "an archive or compressed file",
            Unreadable::Binary => "a binary file",
        };
        write!(
            out,
            "{what}; only text, Markdown, reStructuredText, HTML, source code, CSV, JSON Lines, PDF, \
             and PNG, JPEG, GIF and WebP are read"
        )
    }
}

/// Why a file's bytes became no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// It is of no kind that is read.
    Unreadable(Unreadable),
    /// It is whole, but has no words to be read, or none without a password.
    Wordless(String),
    /// It is damaged, or could not be read otherwise.
    Broken(String),
    /// Nobody waits for it any more.
    Cancelled,
}

impl From<Unreadable> for Unread {
    fn from(why: Unreadable) -> Self {
        Self::Unreadable(why)
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => why.fmt(out),
            Self::Wordless(why) | Self::Broken(why) => out.write_str(why),
            Self::Cancelled => out.write_str("called off"),
        }
    }
}

/// What a reader may need beside a file's bytes.
#[derive(Clone, Copy)]
pub struct Aids<'a> {
    /// What reads PDFs; without it they are not read.
    pub pdf: Option<&'a PdfReader>,
    /// Files of words beside a picture.
    pub beside: &'a [Beside],
    /// Whether the file is not wanted any more.
    pub cancelled: &'a dyn Fn() -> bool,
}

impl Aids<'_> {
    /// None.
    pub fn none() -> Self {
        Self { pdf: None, beside: &[], cancelled: &|| false }
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
    /// Its bytes became no document.
    Unread(Unread),
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
            ReadError::Unread(why) => why.fmt(out),
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
    let document = read_bytes(file.name(), &bytes).map_err(ReadError::Unread)?;
    Ok(Read { bytes_sha256: Sha256::digest(&bytes).into(), bytes: bytes.len() as u64, document })
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
        Format::Pdf => pdf::read(aids.pdf, bytes, aids.cancelled)?,
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
        document.title = document::tidy(name.rsplit('/').next().unwrap_or(name), HEADING_CHARS_MAX);
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

#[cfg(test)]
mod tests;
