//! The output of the child that reads a PDF, and its limits.

use std::fmt;

use serde::{Deserialize, Serialize};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Pages read per file.
    pub(super) const PAGES_MAX: usize = 5_000;
    /// Bytes of text of one file, all pages together.
    pub(super) const PDF_TEXT_BYTES_MAX: usize = 12 << 20;

    /// Characters of the library's error message.
    const WHY_CHARS_MAX: usize = 200;
}

/// The child's output for one file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    /// Title, author, subject and keywords, as far as present.
    pub(super) fields: Vec<(String, String)>,
    /// Number and text of each page, in order.
    pub(super) pages: Vec<(u32, String)>,
    /// Pages that could not be read.
    pub(super) broken_pages: Vec<u32>,
    /// True if a limit ended the reading.
    pub(super) is_cut: bool,
    /// True if the file needs a password.
    pub(super) is_locked: bool,
    /// The reason for which nothing could be read.
    pub(super) broken: Option<String>,
}

impl Told {
    /// Returns an output without text, with the reason.
    pub(super) fn refuse(why: impl fmt::Display) -> Self {
        let why = why.to_string().chars().take(WHY_CHARS_MAX).collect();
        Self { broken: Some(why), ..Self::default() }
    }
}
