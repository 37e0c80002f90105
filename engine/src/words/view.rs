//! Reads the word columns where they lie.
//!
//! Owns the decoding side of format-spec/words.md: every offset, length and count is checked here
//! before use, so the rooms above work with rows that exist. Must not know how rows are ranked.

use super::dictionary::{Dictionary, Walk};
use super::layout::{
    BLOCK_BYTES, BLOCK_ROWS, COUNT_BITS_MAX, ENTRY_BYTES, HEAD_BYTES, IMPACT_CLASSES, Impact,
    ROW_BITS_MAX, SEGMENT_POSTINGS_MAX, WordColumnsRef, decode_length, read_u32,
};
use super::pack::{packed_bytes, unpack};
use super::postings::Posting;
use super::{Damage, damage};

/// The words of one segment.
#[derive(Debug, Clone, Copy)]
pub struct PostingsView<'a> {
    dictionary: Dictionary<'a>,
    columns: WordColumnsRef<'a>,
    rows: u32,
    documents: u32,
    length_total: u64,
}

/// Where the postings of one term lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub(super) rows: u32,
    place: Place,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    One(Posting),
    Few(Block),
    Many { first: usize },
}

/// One block, its widths and place checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) count: usize,
    /// The row after the block before.
    from: u32,
    /// Known for blocks of long lists.
    pub(super) last_row: Option<u32>,
    offset: usize,
    row_bits: u8,
    body_bits: u8,
    title_bits: u8,
}

/// Rows and counts of one decoded block; the first `count` of each are valid.
#[derive(Debug, Clone)]
pub(super) struct Decoded {
    pub(super) rows: [u32; BLOCK_ROWS],
    pub(super) bodies: [u32; BLOCK_ROWS],
    pub(super) titles: [u32; BLOCK_ROWS],
    pub(super) count: usize,
    /// Whether any title count may differ from 0.
    pub(super) titled: bool,
}

impl Default for Decoded {
    fn default() -> Self {
        let zeros = [0; BLOCK_ROWS];
        Self { rows: zeros, bodies: zeros, titles: zeros, count: 0, titled: false }
    }
}

impl Decoded {
    pub(super) fn posting(&self, i: usize) -> Posting {
        let narrow = |count: u32| u8::try_from(count).unwrap_or(u8::MAX);
        Posting { row: self.rows[i], body: narrow(self.bodies[i]), title: narrow(self.titles[i]) }
    }

    /// Where `row` is among the rows.
    pub(super) fn find(&self, row: u32) -> Option<usize> {
        self.rows[..self.count].binary_search(&row).ok()
    }
}

impl<'a> PostingsView<'a> {
    /// Checks the columns of a segment of `rows` rows from the outside; lists are checked as they
    /// are read, so the cost does not grow with the segment.
    ///
    /// # Errors
    /// [`Damage`] naming the broken rule.
    pub fn open(columns: WordColumnsRef<'a>, rows: u32) -> Result<Self, Damage> {
        let dictionary = Dictionary::open(columns.dictionary)?;
        let terms = dictionary.terms();
        let entries = columns.entries;
        if entries.len() as u64 != HEAD_BYTES as u64 + u64::from(terms) * ENTRY_BYTES as u64
            || read_u32(entries, 12) != Some(terms)
        {
            let found = entries.len();
            return Err(damage("WRD-10", format!("entries of {found} bytes for {terms} terms")));
        }
        if entries[16..HEAD_BYTES].iter().any(|byte| *byte != 0) {
            return Err(damage("WRD-12", "reserved bytes of the head of entries are not 0"));
        }
        if !columns.blocks.len().is_multiple_of(BLOCK_BYTES) {
            let found = columns.blocks.len();
            return Err(damage(
                "WRD-20",
                format!("blocks of {found} bytes, not a multiple of {BLOCK_BYTES}"),
            ));
        }
        if columns.lengths.len() as u64 != u64::from(rows) {
            let found = columns.lengths.len();
            return Err(damage("WRD-40", format!("{found} lengths for {rows} rows")));
        }
        let (Some(low), Some(high), Some(documents)) =
            (read_u32(entries, 0), read_u32(entries, 4), read_u32(entries, 8))
        else {
            return Err(damage("WRD-10", "entries without a head"));
        };
        let length_total = u64::from(low) | u64::from(high) << 32;
        let longest = u64::from(rows) * u64::from(decode_length(u8::MAX));
        if documents > rows || length_total > longest {
            return Err(damage(
                "WRD-13",
                format!("{documents} documents of length {length_total} in {rows} rows"),
            ));
        }
        Ok(Self { dictionary, columns, rows, documents, length_total })
    }

    /// Rows of the segment.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Rows with at least one word.
    pub fn documents(&self) -> u32 {
        self.documents
    }

    /// Sum of the lengths of all rows, in words.
    pub fn length_total(&self) -> u64 {
        self.length_total
    }

    /// Number of different terms.
    pub fn terms(&self) -> u32 {
        self.dictionary.terms()
    }

    /// Length of `row` in words as stored (rounded by at most one sixteenth); `None` past the last
    /// row.
    pub fn length(&self, row: u32) -> Option<u32> {
        self.lengths().get(row as usize).map(|code| decode_length(*code))
    }

    /// Rows that have `term`, tombstoned ones included.
    ///
    /// # Errors
    /// [`Damage`] in the dictionary or the entry.
    pub fn document_frequency(&self, term: &str) -> Result<u32, Damage> {
        Ok(self.find(term)?.map_or(0, |list| list.rows))
    }

    /// The postings of `term` in row order, or `None` when no row has it.
    ///
    /// # Errors
    /// [`Damage`] in the dictionary or the entry.
    pub fn postings(&self, term: &str) -> Result<Option<TermPostings<'a>>, Damage> {
        Ok(self.find(term)?.map(|list| self.iterate(list)))
    }

    pub(super) fn lengths(&self) -> &'a [u8] {
        self.columns.lengths
    }

    /// All terms in order with their lists.
    pub(super) fn lists(&self) -> Lists<'a> {
        Lists { view: *self, walk: self.dictionary.walk(), postings: 0 }
    }

    pub(super) fn iterate(&self, list: List) -> TermPostings<'a> {
        TermPostings { view: *self, list, block: 0, next: 0, decoded: Box::default() }
    }

    pub(super) fn find(&self, term: &str) -> Result<Option<List>, Damage> {
        self.dictionary.ordinal(term.as_bytes())?.map(|ordinal| self.list(ordinal)).transpose()
    }

    /// The list of the term with this ordinal.
    pub(super) fn list(&self, ordinal: u32) -> Result<List, Damage> {
        let at = HEAD_BYTES + ordinal as usize * ENTRY_BYTES;
        let entries = self.columns.entries;
        let (Some(rows), Some(place), Some(detail)) =
            (read_u32(entries, at), read_u32(entries, at + 4), read_u32(entries, at + 8))
        else {
            return Err(damage("WRD-10", format!("no entry for ordinal {ordinal}")));
        };
        let outside =
            || damage("WRD-11", format!("{rows} postings at {place} of ordinal {ordinal}"));
        if rows == 0 || rows > self.rows {
            return Err(outside());
        }
        let [low, middle, high, top] = detail.to_le_bytes();
        let reserved = match rows as usize {
            1 => (high, top) != (0, 0),
            few if few < BLOCK_ROWS => top != 0,
            _ => detail != 0,
        };
        if reserved {
            return Err(damage(
                "WRD-12",
                format!("reserved bits in the entry of ordinal {ordinal}"),
            ));
        }
        let place = match rows as usize {
            1 if place >= self.rows => return Err(outside()),
            1 if (low, middle) == (0, 0) => {
                return Err(damage("WRD-31", format!("row {place} counts 0")));
            }
            1 => Place::One(Posting { row: place, body: low, title: middle }),
            count if count < BLOCK_ROWS => {
                let offset = place as usize;
                let block = Block {
                    count,
                    from: 0,
                    last_row: None,
                    offset,
                    row_bits: low,
                    body_bits: middle,
                    title_bits: high,
                };
                self.packed(&block)?;
                Place::Few(block)
            }
            count => {
                let (first, blocks) = (place as usize, count.div_ceil(BLOCK_ROWS));
                if first + blocks > self.columns.blocks.len() / BLOCK_BYTES {
                    return Err(outside());
                }
                Place::Many { first }
            }
        };
        Ok(List { rows, place })
    }

    /// Number of blocks of a list.
    pub(super) fn block_count(&self, list: &List) -> usize {
        (list.rows as usize).div_ceil(BLOCK_ROWS)
    }

    /// The head of block `i`, widths checked; `None` for lists without block heads.
    pub(super) fn head(
        &self,
        list: &List,
        i: usize,
    ) -> Result<Option<(Block, [Impact; IMPACT_CLASSES])>, Damage> {
        let Place::Many { first } = list.place else { return Ok(None) };
        let at = first + i;
        let count = (list.rows as usize).saturating_sub(i * BLOCK_ROWS).min(BLOCK_ROWS);
        let raw = self.raw_head(at).filter(|_| count > 0);
        let raw = raw.ok_or_else(|| damage("WRD-11", format!("no block {at}")))?;
        let last_row = u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]);
        let from = match i {
            0 => 0,
            _ => self.last_row(at - 1).saturating_add(1),
        };
        if last_row < from || last_row >= self.rows {
            return Err(damage(
                "WRD-21",
                format!("block {at} ends at row {last_row}, starts at {from} or later"),
            ));
        }
        let offset = u32::from_le_bytes([raw[4], raw[5], raw[6], raw[7]]) as usize;
        let [row_bits, body_bits, title_bits, reserved] = [raw[8], raw[9], raw[10], raw[11]];
        if reserved != 0 {
            return Err(damage("WRD-12", format!("reserved byte of block {at} is {reserved}")));
        }
        let block = Block {
            count,
            from,
            last_row: Some(last_row),
            offset,
            row_bits,
            body_bits,
            title_bits,
        };
        let impacts = std::array::from_fn(|class| {
            let at = 12 + 3 * class;
            Impact { body: raw[at], title: raw[at + 1], length: raw[at + 2] }
        });
        Ok(Some((block, impacts)))
    }

    /// Decodes block `i` of a list.
    pub(super) fn decode(&self, list: &List, i: usize, out: &mut Decoded) -> Result<(), Damage> {
        match list.place {
            Place::One(posting) => {
                out.count = 1;
                out.titled = posting.title != 0;
                out.rows[0] = posting.row;
                out.bodies[0] = u32::from(posting.body);
                out.titles[0] = u32::from(posting.title);
                Ok(())
            }
            Place::Few(block) => self.decode_block(&block, out),
            Place::Many { .. } => match self.head(list, i)? {
                Some((block, _)) => self.decode_block(&block, out),
                None => Err(damage("WRD-11", format!("no block {i}"))),
            },
        }
    }

    /// The posting of `row` in a list.
    pub(super) fn seek(&self, list: &List, row: u32) -> Result<Option<Posting>, Damage> {
        let mut block = 0;
        if let Place::Many { first } = list.place {
            // Binary search over the last rows; on damaged heads it may miss, and the decoding says
            // so.
            let (mut low, mut high) = (0, self.block_count(list));
            while low < high {
                let middle = low.midpoint(high);
                if self.last_row(first + middle) < row { low = middle + 1 } else { high = middle }
            }
            if low == self.block_count(list) {
                return Ok(None);
            }
            block = low;
        }
        let mut decoded = Decoded::default();
        self.decode(list, block, &mut decoded)?;
        Ok(decoded.find(row).map(|i| decoded.posting(i)))
    }

    fn raw_head(&self, at: usize) -> Option<&'a [u8; BLOCK_BYTES]> {
        self.columns.blocks.get(at.checked_mul(BLOCK_BYTES)?..)?.first_chunk()
    }

    fn last_row(&self, at: usize) -> u32 {
        self.raw_head(at)
            .map_or(u32::MAX, |raw| u32::from_le_bytes([raw[0], raw[1], raw[2], raw[3]]))
    }

    /// The packed bytes of a block: rows, body counts, title counts.
    fn packed(&self, block: &Block) -> Result<[&'a [u8]; 3], Damage> {
        let Block { count, offset, row_bits, body_bits, title_bits, .. } = *block;
        if row_bits > ROW_BITS_MAX || body_bits > COUNT_BITS_MAX || title_bits > COUNT_BITS_MAX {
            return Err(damage("WRD-22", format!("widths {row_bits}, {body_bits}, {title_bits}")));
        }
        let mut at = offset;
        let mut take = |bits: u8| {
            let bytes = self.columns.postings.get(at..at + packed_bytes(count, bits));
            at += packed_bytes(count, bits);
            bytes.ok_or_else(|| {
                damage("WRD-22", format!("packed numbers at {offset} pass the end of postings"))
            })
        };
        Ok([take(row_bits)?, take(body_bits)?, take(title_bits)?])
    }

    fn decode_block(&self, block: &Block, out: &mut Decoded) -> Result<(), Damage> {
        let [rows, bodies, titles] = self.packed(block)?;
        let count = block.count;
        unpack(rows, count, block.row_bits, &mut out.rows);
        // Steps are not negative, so the last row is the greatest: one check stands for all.
        let steps: u64 = out.rows[..count].iter().map(|step| u64::from(*step)).sum();
        let last = u64::from(block.from) + steps + count as u64 - 1;
        let wanted =
            block.last_row.map_or(last < u64::from(self.rows), |row| u64::from(row) == last);
        if !wanted {
            return Err(damage(
                "WRD-30",
                format!("a block ends at row {last}, {:?} stated", block.last_row),
            ));
        }
        let mut next = block.from;
        for row in &mut out.rows[..count] {
            *row = row.wrapping_add(next);
            next = row.wrapping_add(1);
        }
        unpack(bodies, count, block.body_bits, &mut out.bodies);
        out.titled = block.title_bits != 0;
        if out.titled || block.body_bits == 0 {
            unpack(titles, count, block.title_bits, &mut out.titles);
        } else {
            out.titles.fill(0);
        }
        out.count = count;
        if out.bodies[..count]
            .iter()
            .zip(&out.titles[..count])
            .any(|(body, title)| body | title == 0)
        {
            return Err(damage("WRD-31", "a posting counts 0"));
        }
        Ok(())
    }
}

/// All terms of a segment in order. Bounded even when entries share their postings: together they
/// hold at most [`SEGMENT_POSTINGS_MAX`].
pub(super) struct Lists<'a> {
    view: PostingsView<'a>,
    walk: Walk<'a>,
    postings: usize,
}

impl Lists<'_> {
    /// The next term and its list.
    pub(super) fn next(&mut self) -> Result<Option<(&[u8], List)>, Damage> {
        let Some((term, ordinal)) = self.walk.next()? else { return Ok(None) };
        let list = self.view.list(ordinal)?;
        self.postings += list.rows as usize;
        if self.postings > SEGMENT_POSTINGS_MAX {
            return Err(damage(
                "WRD-14",
                format!("more than {SEGMENT_POSTINGS_MAX} postings in all"),
            ));
        }
        Ok(Some((term, list)))
    }
}

/// The postings of one term in row order.
pub struct TermPostings<'a> {
    view: PostingsView<'a>,
    list: List,
    block: usize,
    next: usize,
    decoded: Box<Decoded>,
}

impl TermPostings<'_> {
    fn advance(&mut self) -> Result<Option<Posting>, Damage> {
        if self.next == self.decoded.count {
            if self.block == self.view.block_count(&self.list) {
                return Ok(None);
            }
            self.view.decode(&self.list, self.block, &mut self.decoded)?;
            self.block += 1;
            self.next = 0;
        }
        self.next += 1;
        Ok(Some(self.decoded.posting(self.next - 1)))
    }
}

impl Iterator for TermPostings<'_> {
    type Item = Result<Posting, Damage>;

    /// The next posting; after `Damage`, nothing.
    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        if next.is_err() {
            self.block = self.view.block_count(&self.list);
            self.next = self.decoded.count;
        }
        next.transpose()
    }
}
