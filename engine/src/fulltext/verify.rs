//! Full verification of a segment's words: all rules of the format, and equality with the words of its texts.
//!
//! Owns the checks that opening omits because they read all bytes.

use super::column_bytes::{ColumnBytes, read_all};
use super::columns_writer::{ColumnsWriter, impacts};
use super::heap_dictionary::TermDictionary;
use super::layout::{BLOCK_ROWS, FulltextColumns, decode_length};
use super::postings_block::DecodedBlock;
use super::postings_builder::{PostingsBuilder, SegmentFullError};
use super::postings_reader::{PostingsList, PostingsReader};
use crate::error::CorruptionError;

/// Builds the columns of rows with these titles and texts; `None` is a row without words.
///
/// The columns depend on the rows alone. A segment that was built at once, a segment merged from many, and a segment
/// whose other rows were dropped by merging have equal bytes. So if [`PostingsReader::compare`] finds no difference, no
/// word of any other text remains.
///
/// # Errors
/// [`SegmentFullError`] if the rows exceed the limits of a segment, or any error of `rows`.
pub fn rebuild<'t, E: From<SegmentFullError>>(
    rows: impl IntoIterator<Item = Result<Option<(&'t str, &'t str)>, E>>,
) -> Result<FulltextColumns, E> {
    let mut builder = PostingsBuilder::new();
    let mut count = 0;
    for row in rows {
        if let Some((title, text)) = row? {
            builder.add(count, title, text)?;
        }
        count = count.checked_add(1).ok_or(SegmentFullError)?;
    }
    Ok(builder.finish(count))
}

impl<B: ColumnBytes> PostingsReader<B> {
    /// Checks every term, posting, bound and length, and that the columns contain nothing else. Stops at the first
    /// broken rule.
    ///
    /// # Errors
    /// [`CorruptionError`] that names the rule.
    pub fn verify(&self) -> Result<(), CorruptionError> {
        // A heap dictionary has no checksum or nodes to verify.
        if let TermDictionary::Fst(dictionary) = self.dictionary() {
            dictionary.verify()?;
        }
        let lengths = self.lengths()?;
        let total: u64 = lengths.iter().map(|code| u64::from(decode_length(*code))).sum();
        let documents = lengths.iter().filter(|code| **code != 0).count();
        if total != self.length_total() || documents != self.documents() as usize {
            return Err(CorruptionError::new(
                "WRD-13",
                format!(
                    "{} documents of length {} stated, {documents} of {total} found",
                    self.documents(),
                    self.length_total()
                ),
            ));
        }
        let mut lists = self.lists();
        let (mut decoded, mut postings) = (DecodedBlock::default(), Vec::new());
        let mut again = ColumnsWriter::new(lengths.to_vec());
        while let Some((_, list)) = lists.next()? {
            postings.clear();
            for i in 0..self.block_count(&list) {
                self.decode(&list, i, true, &mut decoded)?;
                postings.extend(decoded.postings());
            }
            self.verify_impacts(&list, &postings, lengths)?;
            again.list(&postings);
        }
        let again = again.finish();
        let columns = self.columns();
        for (name, found, wanted) in [
            ("entries", read_all(&columns.entries)?, &again.entries),
            ("blocks", read_all(&columns.blocks)?, &again.blocks),
            ("postings", read_all(&columns.postings)?, &again.postings),
        ] {
            // The head of `entries` is already checked.
            let from = if name == "entries" { super::layout::HEAD_BYTES } else { 0 };
            check_equal(name, &found[from..], &wanted[from..])
                .map_err(|detail| CorruptionError::new("WRD-32", detail))?;
        }
        Ok(())
    }

    fn verify_impacts(
        &self,
        list: &PostingsList,
        postings: &[super::Posting],
        lengths: &[u8],
    ) -> Result<(), CorruptionError> {
        let mut blocks = postings.chunks(BLOCK_ROWS);
        let check = |i, head: super::postings_block::BlockHead| match blocks.next() {
            Some(block) if impacts(block, lengths) == head.impacts => Ok(()),
            _ => Err(CorruptionError::new(
                "WRD-23",
                format!("impacts of block {i} of {} postings are not its own", list.rows),
            )),
        };
        self.heads(list, check).map(|_| ())
    }

    /// Checks that the columns equal `wanted`, byte for byte: the columns that [`rebuild`] makes of the segment's rows.
    ///
    /// # Errors
    /// [`CorruptionError`] that names the first column that differs, and the offset.
    pub fn compare(&self, wanted: &FulltextColumns) -> Result<(), CorruptionError> {
        let (found, wanted) = (self.columns(), wanted.as_ref());
        for (name, found, wanted) in [
            ("dictionary", &found.dictionary, wanted.dictionary),
            ("entries", &found.entries, wanted.entries),
            ("blocks", &found.blocks, wanted.blocks),
            ("postings", &found.postings, wanted.postings),
            ("lengths", &found.lengths, wanted.lengths),
        ] {
            check_equal(name, read_all(found)?, wanted)
                .map_err(|detail| CorruptionError::new("WRD-50", detail))?;
        }
        Ok(())
    }
}

/// Compares two columns; the error states the first difference.
fn check_equal(name: &str, found: &[u8], wanted: &[u8]) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    let at = found.iter().zip(wanted).take_while(|(found, wanted)| found == wanted).count();
    let (found, wanted) = (found.len(), wanted.len());
    Err(format!("{name}: {found} bytes where {wanted} are due, the first other one is {at}"))
}
