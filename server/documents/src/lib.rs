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
