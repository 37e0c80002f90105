//! Supported file formats, and the reasons for which a file is not read.

use std::fmt;

use crate::language::Language;

/// Supported file formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// CommonMark with tables and front matter.
    Markdown,
    /// Plain text, and data files read as text.
    Text,
    /// reStructuredText.
    Rst,
    /// HTML, as its visible text.
    Html,
    /// Source code.
    Code(Language),
    /// PDF, as its text per page.
    Pdf,
    /// An image, as its metadata and sidecar texts.
    Image,
    /// Delimited values, as rows of named cells.
    Csv,
    /// JSON Lines, as records of named values.
    JsonLines,
}

impl Format {
    /// Short name for reports.
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

/// Kinds of files that cannot be read as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unreadable {
    /// An image of an unsupported format.
    Image,
    /// A compressed file or archive.
    Archive,
    /// A file with control bytes that no text has.
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

/// The reason for which a file's bytes were not read as a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// The format is not supported.
    Unreadable(Unreadable),
    /// The file is intact but has no text, or none without a password.
    Wordless(String),
    /// The file is damaged, or its reader failed.
    Broken(String),
    /// The call was cancelled.
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
