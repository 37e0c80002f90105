//! Reader of the word columns, in place.
//!
//! Owns the decoding of format-spec/words.md. Every offset, length and count is checked here before use, so callers
//! work with existing rows only. Ranking is left to other modules.

use super::column_bytes::{ColumnBytes, read_all, read_part};
use super::fst_dictionary::FstDictionary;
use super::heap_dictionary::{DictionaryTerms, TermDictionary};
use super::layout::{
    BLOCK_BYTES, BLOCK_ROWS, ENTRY_BYTES, FulltextColumnsRef, HEAD_BYTES, SEGMENT_POSTINGS_MAX,
    decode_length, read_u32,
};
use super::posting::Posting;
use super::postings_block::{BlockHead, DecodedBlock, PostingsBlock, last_row};
use crate::error::CorruptionError;

/// Lengths read at once: few calls for common terms, few unneeded pages for rare terms.
const LENGTHS_PER_READ: u32 = 1 << 14;

/// Words of one segment. Reads only the parts of its columns that a query needs.
#[derive(Debug, Clone, Copy)]
pub struct PostingsReader<B> {
    dictionary: TermDictionary<B>,
    columns: FulltextColumnsRef<B>,
    rows: u32,
    documents: u32,
    length_total: u64,
}

/// Entry of one term in the column `entries`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TermEntry {
    pub(super) rows: u32,
    pub(super) place: u32,
    pub(super) detail: u32,
}

/// Position of the postings of one term.
#[derive(Debug, Clone, Copy)]
pub(super) struct PostingsList {
    pub(super) rows: u32,
    location: PostingsLocation,
}

#[derive(Debug, Clone, Copy)]
enum PostingsLocation {
    Single(Posting),
    SingleBlock(PostingsBlock),
    Blocks { first: usize },
}

/// Position of one block of a list.
enum BlockLocation {
    Single(Posting),
    Packed(PostingsBlock),
}

impl<B: ColumnBytes> PostingsReader<B> {
    /// Opens the columns of a segment of `rows` rows and checks their sizes and heads. Lists are checked when they are
    /// read, so the cost is independent of the size of the segment.
    ///
    /// # Errors
    /// [`CorruptionError`] that names the broken rule.
    pub fn open(columns: FulltextColumnsRef<B>, rows: u32) -> Result<Self, CorruptionError> {
        let dictionary = FstDictionary::open(columns.dictionary)?;
        Self::open_with(TermDictionary::Fst(dictionary), columns, rows)
    }

    /// Opens columns that were built in this process and are on the heap.
    pub(crate) fn open_on_heap(
        columns: FulltextColumnsRef<B>,
        rows: u32,
    ) -> Result<Self, CorruptionError> {
        Self::open_with(TermDictionary::open_on_heap(columns.dictionary)?, columns, rows)
    }

    fn open_with(
        dictionary: TermDictionary<B>,
        columns: FulltextColumnsRef<B>,
        rows: u32,
    ) -> Result<Self, CorruptionError> {
        let terms = dictionary.terms();
        let found = columns.entries.size();
        let wrong = || {
            CorruptionError::new("WRD-10", format!("entries of {found} bytes for {terms} terms"))
        };
        let head = read_part(&columns.entries, 0, HEAD_BYTES)?.ok_or_else(wrong)?;
        if found as u64 != HEAD_BYTES as u64 + u64::from(terms) * ENTRY_BYTES as u64
            || read_u32(head, 12) != Some(terms)
        {
            return Err(wrong());
        }
        if head[16..].iter().any(|byte| *byte != 0) {
            return Err(CorruptionError::new(
                "WRD-12",
                "reserved bytes of the head of entries are not 0",
            ));
        }
        let found = columns.blocks.size();
        if !found.is_multiple_of(BLOCK_BYTES) {
            return Err(CorruptionError::new(
                "WRD-20",
                format!("blocks of {found} bytes, not a multiple of {BLOCK_BYTES}"),
            ));
        }
        let found = columns.lengths.size();
        if found as u64 != u64::from(rows) {
            return Err(CorruptionError::new("WRD-40", format!("{found} lengths for {rows} rows")));
        }
        let (Some(low), Some(high), Some(documents)) =
            (read_u32(head, 0), read_u32(head, 4), read_u32(head, 8))
        else {
            return Err(wrong());
        };
        let length_total = u64::from(low) | u64::from(high) << 32;
        let longest = u64::from(rows) * u64::from(decode_length(u8::MAX));
        if documents > rows || length_total > longest {
            return Err(CorruptionError::new(
                "WRD-13",
                format!("{documents} documents of length {length_total} in {rows} rows"),
            ));
        }
        Ok(Self { dictionary, columns, rows, documents, length_total })
    }

    /// Number of rows of the segment.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Number of rows with at least one word.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// Sum of the lengths of all rows, in words.
    pub fn length_total(&self) -> u64 {
        self.length_total
    }

    /// Number of distinct terms.
    pub fn terms(&self) -> u32 {
        self.dictionary.terms()
    }

    /// Stored length of `row` in words, rounded by at most one sixteenth; `None` past the last row.
    ///
    /// # Errors
    /// [`CorruptionError`] in the lengths.
    pub fn length(&self, row: u32) -> Result<Option<u32>, CorruptionError> {
        Ok(self.length_code(row)?.map(decode_length))
    }

    /// Number of rows that have `term`, including tombstoned rows.
    ///
    /// # Errors
    /// [`CorruptionError`] in the dictionary or the entry.
    pub fn document_frequency(&self, term: &str) -> Result<u32, CorruptionError> {
        Ok(self.entry(term)?.map_or(0, |entry| entry.rows))
    }

    /// Returns the postings of `term` in row order; `None` if no row has the term.
    ///
    /// # Errors
    /// [`CorruptionError`] in the dictionary or the entry.
    pub fn postings(&self, term: &str) -> Result<Option<TermPostings<'_, B>>, CorruptionError> {
        let Some(entry) = self.entry(term)? else { return Ok(None) };
        let list = self.list(entry)?;
        Ok(Some(TermPostings { view: self, list, block: 0, next: 0, decoded: Box::default() }))
    }

    pub(super) fn columns(&self) -> &FulltextColumnsRef<B> {
        &self.columns
    }

    pub(super) fn dictionary(&self) -> &TermDictionary<B> {
        &self.dictionary
    }

    /// Length codes of all rows.
    pub(super) fn lengths(&self) -> Result<&[u8], CorruptionError> {
        read_all(&self.columns.lengths)
    }

    pub(super) fn length_code(&self, row: u32) -> Result<Option<u8>, CorruptionError> {
        let code = read_part(&self.columns.lengths, row as usize, 1)?;
        Ok(code.and_then(|code| code.first()).copied())
    }

    /// Calls `each` with the index and the length code of each row. The rows must ascend and exist in the segment.
    pub(super) fn length_codes(
        &self,
        rows: &[u32],
        mut each: impl FnMut(usize, u8),
    ) -> Result<(), CorruptionError> {
        let mut done = 0;
        while let Some(first) = rows.get(done) {
            let from = first - first % LENGTHS_PER_READ;
            let to = from.saturating_add(LENGTHS_PER_READ).min(self.rows);
            let codes = self.columns.lengths.range(from as usize, to as usize)?;
            let inside = rows[done..].partition_point(|row| *row < to);
            for (at, row) in rows[done..done + inside].iter().enumerate() {
                each(done + at, codes[(row - from) as usize]);
            }
            done += inside;
        }
        Ok(())
    }

    /// Iterates over all terms in order with their lists.
    pub(super) fn lists(&self) -> TermLists<'_, B> {
        TermLists { view: self, terms: self.dictionary.terms_in_order(), postings: 0 }
    }

    /// Returns the entry of `term`; the position of its postings is not checked.
    pub(super) fn entry(&self, term: &str) -> Result<Option<TermEntry>, CorruptionError> {
        self.dictionary.ordinal(term.as_bytes())?.map(|ordinal| self.entry_at(ordinal)).transpose()
    }

    fn entry_at(&self, ordinal: u32) -> Result<TermEntry, CorruptionError> {
        let at = HEAD_BYTES + ordinal as usize * ENTRY_BYTES;
        let raw = read_part(&self.columns.entries, at, ENTRY_BYTES)?.unwrap_or_default();
        let (Some(rows), Some(place), Some(detail)) =
            (read_u32(raw, 0), read_u32(raw, 4), read_u32(raw, 8))
        else {
            return Err(CorruptionError::new("WRD-10", format!("no entry for ordinal {ordinal}")));
        };
        if rows == 0 || rows > self.rows {
            return Err(CorruptionError::new(
                "WRD-11",
                format!("{rows} postings of ordinal {ordinal}"),
            ));
        }
        Ok(TermEntry { rows, place, detail })
    }

    /// Returns the checked position of an entry's postings.
    pub(super) fn list(&self, entry: TermEntry) -> Result<PostingsList, CorruptionError> {
        let TermEntry { rows, place, detail } = entry;
        let outside = || CorruptionError::new("WRD-11", format!("{rows} postings at {place}"));
        let [low, middle, high, top] = detail.to_le_bytes();
        let reserved = match rows as usize {
            1 => (high, top) != (0, 0),
            few if few < BLOCK_ROWS => top != 0,
            _ => detail != 0,
        };
        if reserved {
            return Err(CorruptionError::new(
                "WRD-12",
                format!("reserved bits in an entry: {detail:#x}"),
            ));
        }
        let place = match rows as usize {
            1 if place >= self.rows => return Err(outside()),
            1 if (low, middle) == (0, 0) => {
                return Err(CorruptionError::new("WRD-31", format!("row {place} counts 0")));
            }
            1 => PostingsLocation::Single(Posting { row: place, body: low, title: middle }),
            count if count < BLOCK_ROWS => {
                let bits = [low, middle, high];
                let offset = place as usize;
                PostingsLocation::SingleBlock(PostingsBlock {
                    count,
                    from: 0,
                    last_row: None,
                    offset,
                    bits,
                })
            }
            count => {
                let (first, blocks) = (place as usize, count.div_ceil(BLOCK_ROWS));
                if first + blocks > self.columns.blocks.size() / BLOCK_BYTES {
                    return Err(outside());
                }
                PostingsLocation::Blocks { first }
            }
        };
        Ok(PostingsList { rows, location: place })
    }

    /// Number of blocks of a list.
    pub(super) fn block_count(&self, list: &PostingsList) -> usize {
        (list.rows as usize).div_ceil(BLOCK_ROWS)
    }

    /// Calls `each` with the heads of all blocks of a long list, in order. Returns true if the list is long.
    pub(super) fn heads(
        &self,
        list: &PostingsList,
        mut each: impl FnMut(usize, BlockHead) -> Result<(), CorruptionError>,
    ) -> Result<bool, CorruptionError> {
        let PostingsLocation::Blocks { first } = list.location else { return Ok(false) };
        let mut from = 0;
        for (i, raw) in self.raw_heads(first, self.block_count(list))?.iter().enumerate() {
            let head = BlockHead::read(raw, self.postings_in_block(list, i), from, self.rows)?;
            from = head.last_row.saturating_add(1);
            each(i, head)?;
        }
        Ok(true)
    }

    /// Decodes block `i` of a list, or only its rows.
    pub(super) fn decode(
        &self,
        list: &PostingsList,
        i: usize,
        with_counts: bool,
        out: &mut DecodedBlock,
    ) -> Result<(), CorruptionError> {
        match self.located(list, i)? {
            BlockLocation::Single(posting) => {
                out.set_single(posting);
                Ok(())
            }
            BlockLocation::Packed(block) => {
                out.set_block(&block, &self.columns.postings, self.rows, with_counts)
            }
        }
    }

    /// Returns the position of block `i` of a list.
    fn located(&self, list: &PostingsList, i: usize) -> Result<BlockLocation, CorruptionError> {
        match list.location {
            PostingsLocation::Single(posting) => Ok(BlockLocation::Single(posting)),
            PostingsLocation::SingleBlock(block) => Ok(BlockLocation::Packed(block)),
            PostingsLocation::Blocks { first } => {
                let (before, raw) = match self.raw_heads(first + i - i.min(1), 1 + i.min(1))? {
                    [raw] => (None, raw),
                    [before, raw] => (Some(last_row(before)), raw),
                    _ => return Err(CorruptionError::new("WRD-11", format!("no block {i}"))),
                };
                let from = before.map_or(0, |row| row.saturating_add(1));
                let head = BlockHead::read(raw, self.postings_in_block(list, i), from, self.rows)?;
                Ok(BlockLocation::Packed(head.block))
            }
        }
    }

    /// Decodes the pending counts of the decoded block.
    pub(super) fn decode_counts(&self, out: &mut DecodedBlock) -> Result<(), CorruptionError> {
        out.set_counts(&self.columns.postings)
    }

    /// Returns one posting of the decoded block.
    pub(super) fn decoded_posting(
        &self,
        decoded: &DecodedBlock,
        i: usize,
    ) -> Result<Posting, CorruptionError> {
        decoded.load_posting(i, &self.columns.postings)
    }

    /// Returns the only block of a list that may contain `row`. If the heads are damaged, it may be another block, and
    /// the decoding reports the damage.
    pub(super) fn block_containing(
        &self,
        list: &PostingsList,
        row: u32,
    ) -> Result<Option<usize>, CorruptionError> {
        let PostingsLocation::Blocks { first } = list.location else { return Ok(Some(0)) };
        let heads = self.raw_heads(first, self.block_count(list))?;
        let block = heads.partition_point(|raw| last_row(raw) < row);
        Ok((block < heads.len()).then_some(block))
    }

    /// Returns the last row of block `i` of a list; `None` if the row is not known without decoding.
    pub(super) fn known_last_row(
        &self,
        list: &PostingsList,
        i: usize,
    ) -> Result<Option<u32>, CorruptionError> {
        let PostingsLocation::Blocks { first } = list.location else { return Ok(None) };
        Ok(self.raw_heads(first + i, 1)?.first().map(last_row))
    }

    /// Number of postings in block `i` of a list.
    fn postings_in_block(&self, list: &PostingsList, i: usize) -> usize {
        (list.rows as usize).saturating_sub(i * BLOCK_ROWS).min(BLOCK_ROWS)
    }

    fn raw_heads(
        &self,
        first: usize,
        count: usize,
    ) -> Result<&[[u8; BLOCK_BYTES]], CorruptionError> {
        let raw = read_part(&self.columns.blocks, first * BLOCK_BYTES, count * BLOCK_BYTES)?;
        let raw = raw.ok_or_else(|| {
            CorruptionError::new("WRD-11", format!("no blocks {first} + {count}"))
        })?;
        Ok(raw.as_chunks().0)
    }
}

/// Iterator over all terms of a segment in order. The total is bounded by [`SEGMENT_POSTINGS_MAX`], even if entries
/// share their postings.
pub(super) struct TermLists<'v, B> {
    view: &'v PostingsReader<B>,
    terms: DictionaryTerms<'v, B>,
    postings: usize,
}

impl<B: ColumnBytes> TermLists<'_, B> {
    /// Returns the next term and its list.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], PostingsList)>, CorruptionError> {
        let Some((term, ordinal)) = self.terms.next()? else { return Ok(None) };
        let list = self.view.list(self.view.entry_at(ordinal)?)?;
        self.postings += list.rows as usize;
        if self.postings > SEGMENT_POSTINGS_MAX {
            return Err(CorruptionError::new(
                "WRD-14",
                format!("more than {SEGMENT_POSTINGS_MAX} postings in all"),
            ));
        }
        Ok(Some((term, list)))
    }
}

/// Iterator over the postings of one term in row order.
pub struct TermPostings<'v, B> {
    view: &'v PostingsReader<B>,
    list: PostingsList,
    block: usize,
    next: usize,
    decoded: Box<DecodedBlock>,
}

impl<B: ColumnBytes> TermPostings<'_, B> {
    fn advance(&mut self) -> Result<Option<Posting>, CorruptionError> {
        if self.next == self.decoded.count {
            if self.block == self.view.block_count(&self.list) {
                return Ok(None);
            }
            self.view.decode(&self.list, self.block, true, &mut self.decoded)?;
            self.block += 1;
            self.next = 0;
        }
        self.next += 1;
        Ok(Some(self.decoded.posting(self.next - 1)))
    }
}

impl<B: ColumnBytes> Iterator for TermPostings<'_, B> {
    type Item = Result<Posting, CorruptionError>;

    /// Returns the next posting; after `CorruptionError`, always `None`.
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            self.block = self.view.block_count(&self.list);
            self.next = self.decoded.count;
        }
        next.transpose()
    }
}
