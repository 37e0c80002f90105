//! What the child that reads a PDF says to its parent, and how much of it.

use std::fmt;

use serde::{Deserialize, Serialize};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Pages that are read.
    pub(super) const PAGES_MAX: usize = 5_000;
    /// Bytes of text of one file, all pages together.
    pub(super) const PDF_TEXT_BYTES_MAX: usize = 12 << 20;

    /// Letters of the library's own words.
    const WHY_CHARS_MAX: usize = 200;
}

/// What the child says of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Told {
    /// Title, author, subject and keywords, as far as they are there.
    pub(super) fields: Vec<(String, String)>,
    /// The number of each page and its text, in order.
    pub(super) pages: Vec<(u32, String)>,
    /// Pages that could not be read.
    pub(super) broken_pages: Vec<u32>,
    /// Whether a bound ended the reading.
    pub(super) is_cut: bool,
    /// Whether a password is wanted.
    pub(super) is_locked: bool,
    /// Why nothing could be read.
    pub(super) broken: Option<String>,
}

impl Told {
    /// Nothing could be read.
    pub(super) fn refuse(why: impl fmt::Display) -> Self {
        let why = why.to_string().chars().take(WHY_CHARS_MAX).collect();
        Self { broken: Some(why), ..Self::default() }
    }
}
