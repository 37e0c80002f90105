//! The kinds of file that are read, and why one is not.

use std::fmt;

use crate::language::Language;

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
