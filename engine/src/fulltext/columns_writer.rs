//! Writer of the word columns, one term after the other in byte order.
//!
//! Owns the encoding of format-spec/words.md. Builder and merge both use this writer, so every postings list has
//! exactly one encoding. The origin of the postings is left to the caller.

use super::bit_packing::{pack, width};
use super::fst_writer::FstWriter;
use super::heap_dictionary::HeapDictionaryWriter;
use super::layout::{
    BLOCK_ROWS, ENTRY_BYTES, FulltextColumns, HEAD_BYTES, IMPACT_CLASSES, Impact, decode_length,
    impact_class,
};
use super::posting::Posting;

/// Writes the word columns of one segment.
pub(super) struct ColumnsWriter {
    dictionary: DictionaryForm,
    columns: FulltextColumns,
    /// Row steps, body and title counts of the block being packed.
    streams: Box<[[u32; BLOCK_ROWS]; 3]>,
}

/// Writer of the dictionary, in either form.
enum DictionaryForm {
    Fst(FstWriter),
    Heap(HeapDictionaryWriter),
}

/// Bit widths of the three packed streams of a block.
struct Widths {
    row: u8,
    body: u8,
    title: u8,
}

/// Narrows an offset or a count: a segment has at most `SEGMENT_POSTINGS_MAX` postings, so both fit 32 bits.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("SEGMENT_POSTINGS_MAX keeps offsets in 32 bits")
}

impl ColumnsWriter {
    /// Begins columns for rows with these length codes.
    pub(super) fn new(lengths: Vec<u8>) -> Self {
        Self::with_form(DictionaryForm::Fst(FstWriter::new()), lengths)
    }

    /// Begins columns for rows of the tail, with a heap dictionary.
    pub(super) fn on_heap(lengths: Vec<u8>) -> Self {
        Self::with_form(DictionaryForm::Heap(HeapDictionaryWriter::default()), lengths)
    }

    fn with_form(dictionary: DictionaryForm, lengths: Vec<u8>) -> Self {
        let mut columns = FulltextColumns { lengths, ..FulltextColumns::default() };
        columns.entries.resize(HEAD_BYTES, 0);
        let streams = Box::new([[0; BLOCK_ROWS]; 3]);
        Self { dictionary, columns, streams }
    }

    /// Adds a term with its postings. Terms must ascend; postings must be non-empty, with ascending rows.
    pub(super) fn term(&mut self, term: &[u8], postings: &[Posting]) {
        match &mut self.dictionary {
            DictionaryForm::Fst(writer) => writer.push(term),
            DictionaryForm::Heap(writer) => writer.push(term),
        }
        self.list(postings);
    }

    /// Adds postings without a dictionary term, for a caller that only compares lists.
    pub(super) fn list(&mut self, postings: &[Posting]) {
        let (place, detail) = match postings {
            [only] => (only.row, u32::from(only.body) | u32::from(only.title) << 8),
            few if few.len() < BLOCK_ROWS => {
                let place = narrow(self.columns.postings.len());
                let widths = self.pack_block(few, None);
                (
                    place,
                    u32::from(widths.row)
                        | u32::from(widths.body) << 8
                        | u32::from(widths.title) << 16,
                )
            }
            many => (self.write_blocks(many), 0),
        };
        for number in [narrow(postings.len()), place, detail] {
            self.columns.entries.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Returns the finished columns.
    pub(super) fn finish(self) -> FulltextColumns {
        let Self { dictionary, mut columns, .. } = self;
        let terms = narrow((columns.entries.len() - HEAD_BYTES) / ENTRY_BYTES);
        let total: u64 = columns.lengths.iter().map(|code| u64::from(decode_length(*code))).sum();
        let documents = narrow(columns.lengths.iter().filter(|code| **code != 0).count());
        columns.entries[..8].copy_from_slice(&total.to_le_bytes());
        columns.entries[8..12].copy_from_slice(&documents.to_le_bytes());
        columns.entries[12..16].copy_from_slice(&terms.to_le_bytes());
        columns.dictionary = match dictionary {
            DictionaryForm::Fst(writer) => writer.finish(),
            DictionaryForm::Heap(writer) => writer.finish(),
        };
        columns
    }

    /// Writes a long list and returns the number of its first block.
    fn write_blocks(&mut self, postings: &[Posting]) -> u32 {
        let first = narrow(self.columns.blocks.len() / super::layout::BLOCK_BYTES);
        let mut previous = None;
        for block in postings.chunks(BLOCK_ROWS) {
            let offset = narrow(self.columns.postings.len());
            let widths = self.pack_block(block, previous);
            previous = block.last().map(|posting| posting.row);
            let head = &mut self.columns.blocks;
            head.extend_from_slice(&previous.expect("chunks are not empty").to_le_bytes());
            head.extend_from_slice(&offset.to_le_bytes());
            head.extend_from_slice(&[widths.row, widths.body, widths.title, 0]);
            for impact in impacts(block, &self.columns.lengths) {
                self.columns.blocks.extend_from_slice(&[impact.body, impact.title, impact.length]);
            }
        }
        first
    }

    /// Packs one block, whose rows follow the row `previous`.
    fn pack_block(&mut self, block: &[Posting], previous: Option<u32>) -> Widths {
        let mut next = previous.map_or(0, |row| row + 1);
        let [steps, bodies, titles] = &mut *self.streams;
        for (i, posting) in block.iter().enumerate() {
            steps[i] = posting.row - next;
            bodies[i] = u32::from(posting.body);
            titles[i] = u32::from(posting.title);
            next = posting.row + 1;
        }
        let mut stream = |values: &[u32]| {
            let bits = width(values.iter().fold(0, |all, value| all | value));
            pack(values, bits, &mut self.columns.postings);
            bits
        };
        let count = block.len();
        Widths {
            row: stream(&steps[..count]),
            body: stream(&bodies[..count]),
            title: stream(&titles[..count]),
        }
    }
}

/// Returns the bounds of a block's postings for each impact class.
pub(super) fn impacts(block: &[Posting], lengths: &[u8]) -> [Impact; IMPACT_CLASSES] {
    let mut classes = [Impact::default(); IMPACT_CLASSES];
    for posting in block {
        let class = &mut classes[impact_class(posting.body, posting.title)];
        let length = lengths.get(posting.row as usize).copied().unwrap_or(0);
        let empty = (class.body, class.title) == (0, 0);
        class.length = if empty { length } else { class.length.min(length) };
        class.body = class.body.max(posting.body);
        class.title = class.title.max(posting.title);
    }
    classes
}
