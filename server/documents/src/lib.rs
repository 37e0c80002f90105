//! Readers: turn the bytes of a file into a `Document`.
//!
//! Chooses the reader and reads allowed files, with one module per format. Knows no path beyond the file name, and no
//! destination of documents.
#![forbid(unsafe_code)]

mod adorned;
pub mod beside;
pub mod chunk;
mod code;
mod decode;
pub mod detect;
mod document;
mod format;
mod html;
mod image;
mod items;
mod json_lines;
mod language;
pub mod limits;
mod markdown;
mod mentions;
mod pdf;
mod pieces;
mod read;
mod records;
mod rst;
mod table;
mod text;

pub use detect::detect;
pub use document::{Document, LINKS_MAX, Link, LinkKind, Run, Section, Source};
pub use format::{Format, Unread, Unreadable};
pub use image::Beside;
pub use language::Language;
pub use pdf::SUBCOMMAND;
pub use pdf::{PdfReader, main as read_pdf};
pub use read::{Aids, links_of, read_bytes, read_text, read_with};

limit_table::limits! {
    pub const LIMITS = [detect, image, json_lines, limits, pdf, records, table];
}

#[cfg(test)]
mod tests;
