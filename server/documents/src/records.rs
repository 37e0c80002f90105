//! Files that are lists of records: table rows or JSON lines.
//!
//! Turns records into text, sections and file positions, independent of their format.

use std::ops::Range;

use super::document::{Document, Heading, Run, Source, line_of, line_starts, tile};
use super::format::Format;
use crate::limits::CHUNK_CHARS_TARGET;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Records read per file.
    pub(super) const RECORDS_MAX: usize = 200_000;
    /// Bytes of text that the records of one file yield, with repeated names. Split into chunks and stored with an edge
    /// for each, this amount stays within the engine's batch limit.
    const RECORDS_TEXT_BYTES_MAX: usize = 12 << 20;
    /// Characters of one value; a longer one is cut.
    const VALUE_CHARS_MAX: usize = 20_000;
}

/// Collects records into a document.
pub(super) struct Records<'a> {
    source: &'a str,
    starts: Vec<usize>,
    text: String,
    runs: Vec<Run>,
    headings: Vec<Heading>,
    /// Label of a record: `Row` or `Line`.
    word: &'static str,
    /// First and last number of the records that share the current section. `chars` counts the section's characters.
    group: Option<(u64, u64)>,
    chars: usize,
    count: usize,
    /// First record that was not read because a limit was reached.
    full_at: Option<u64>,
}

impl<'a> Records<'a> {
    pub(super) fn new(source: &'a str, word: &'static str) -> Self {
        Self {
            source,
            starts: line_starts(source),
            text: String::new(),
            runs: Vec::new(),
            headings: Vec::new(),
            word,
            group: None,
            chars: 0,
            count: 0,
            full_at: None,
        }
    }

    /// Returns the line of a byte in the file.
    pub(super) fn line_at(&self, byte: usize) -> u32 {
        line_of(&self.starts, byte)
    }

    /// Adds a record: its number, its bytes in the file, and its text. Returns false if a limit is reached.
    pub(super) fn add(&mut self, number: u64, bytes: Range<usize>, said: &str) -> bool {
        if said.is_empty() {
            return true;
        }
        let full = self.text.len() + said.len() + 2 > RECORDS_TEXT_BYTES_MAX;
        if full || self.count >= RECORDS_MAX {
            self.full_at = Some(number);
            return false;
        }
        self.count += 1;
        let chars = said.chars().count() + 2;
        match &mut self.group {
            Some((_, last)) if self.chars + chars <= CHUNK_CHARS_TARGET => *last = number,
            _ => {
                self.close_group();
                self.group = Some((number, number));
                let at = self.text.len();
                let title = String::new();
                self.headings.push(Heading { at, body_start: at, level: 1, title, symbol: None });
                self.chars = 0;
            }
        }
        self.chars += chars;
        let (source_start, source_end) = (bytes.start, bytes.end.min(self.source.len()));
        self.runs.push(Run { text_start: self.text.len(), source_start, source_end });
        self.text.push_str(said);
        self.text.push_str("\n\n");
        true
    }

    /// Names the current section by its record numbers.
    fn close_group(&mut self) {
        let (Some((first, last)), Some(heading)) = (self.group.take(), self.headings.last_mut())
        else {
            return;
        };
        heading.title = match self.word {
            word if first == last => format!("{word} {first}"),
            word => format!("{word}s {first} to {last}"),
        };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the document; its title stays empty, so that the caller uses the file's name.
    pub(super) fn finish(mut self, format: Format, mut lost: Vec<String>) -> Document {
        self.close_group();
        if let Some(number) = self.full_at {
            let word = self.word.to_lowercase();
            lost.push(format!(
                "from {word} {number} on nothing is read: at most {RECORDS_MAX} {word}s and \
                 {RECORDS_TEXT_BYTES_MAX} bytes of their text are"
            ));
        }
        let mut notes = Vec::new();
        let sections = tile(self.text.len(), self.headings, &mut notes);
        Document {
            title: String::new(),
            format,
            modality: format.modality(),
            sections,
            keep: Vec::new(),
            links: Vec::new(),
            fields: Vec::new(),
            notes: notes.into_iter().chain(lost.iter().cloned()).collect(),
            lost: (!lost.is_empty()).then(|| lost.join("; ")),
            source: Source::Extracted { runs: self.runs, line_starts: self.starts },
            text: self.text,
        }
    }
}

/// Appends one line `name: value` with white space collapsed; nothing if the value is empty.
pub(super) fn say(out: &mut String, name: &str, value: &str) {
    let value = super::document::tidy(value, VALUE_CHARS_MAX);
    if value.is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push('\n');
    }
    if !name.is_empty() {
        out.push_str(name);
        out.push_str(": ");
    }
    out.push_str(&value);
}
