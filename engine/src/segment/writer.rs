//! Builds a segment: rows in, the file's bytes out.

use bytemuck::NoUninit;
use half::f16;

use super::tables::{Lists, Symbols, Texts, row_number, sorted_rows};
use crate::cursor::Put;
use crate::ids::Seq;
use crate::item::{Batch, EdgeDraft, ItemDraft, SourceDraft, TombstoneDraft};
use crate::layout::*;
use crate::os::clock::Micros;
use crate::os::mmap::AlignedBytes;
use crate::words::{PostingsBuilder, WordColumns};

/// Rows on their way into a segment.
#[derive(Default)]
pub(crate) struct SegmentBuilder {
    symbols: Symbols,
    items: Items,
    sources: Sources,
    edges: Edges,
    tombstones: Tombstones,
    dimensions: u32,
    vectors: Vec<f16>,
    norms: Vec<f32>,
    vector_items: Vec<u32>,
    words: PostingsBuilder,
    seqs: Option<(Seq, Seq)>,
}

#[derive(Default)]
struct Items {
    id: Vec<u128>,
    seq: Vec<u64>,
    kind: Vec<u32>,
    modality: Vec<u32>,
    recorded_by: Vec<u32>,
    via: Vec<u32>,
    flags: Vec<u8>,
    sensitivity: Vec<u8>,
    title: Texts,
    text: Texts,
    attributes: Texts,
    reference: Texts,
    tags: Lists<u32>,
    gates: Lists<u32>,
    supersedes: Lists<u128>,
    source: Vec<u128>,
    span_bytes: Vec<[u64; 2]>,
    span_lines: Vec<[u32; 2]>,
    recorded_at: Vec<i64>,
    valid_from: Vec<i64>,
    valid_to: Vec<i64>,
    sha256: Vec<[u8; 32]>,
    embedding: Vec<u32>,
}

#[derive(Default)]
struct Sources {
    id: Vec<u128>,
    kind: Vec<u32>,
    uri: Texts,
    title: Texts,
    sha256: Vec<[u8; 32]>,
    bytes: Vec<u64>,
    recorded_at: Vec<i64>,
    recorded_by: Vec<u32>,
    via: Vec<u32>,
    seq: Vec<u64>,
}

#[derive(Default)]
struct Edges {
    id: Vec<u128>,
    from: Vec<u128>,
    to: Vec<u128>,
    relation: Vec<u32>,
    weight: Vec<f32>,
    source: Vec<u128>,
    recorded_at: Vec<i64>,
    recorded_by: Vec<u32>,
    valid_from: Vec<i64>,
    valid_to: Vec<i64>,
    note: Texts,
    seq: Vec<u64>,
}

#[derive(Default)]
struct Tombstones {
    target: Vec<u128>,
    at: Vec<i64>,
    by: Vec<u32>,
    reason: Texts,
    seq: Vec<u64>,
}

fn time(at: Option<Micros>) -> i64 {
    at.map_or(NO_TIME, |at| at.0)
}

impl SegmentBuilder {
    /// Adds all of a committed batch, whose ids and times are filled in.
    pub(crate) fn push_batch(&mut self, seq: Seq, batch: &Batch) {
        batch.sources.iter().for_each(|source| self.push_source(seq, source));
        for item in &batch.items {
            let row = row_number(self.items.id.len());
            if item.searchable {
                let added = self.words.add(row, &item.title, &item.text);
                added.expect("limits.rs: a tail has fewer postings than a segment can hold");
            }
            self.push_item(seq, item);
        }
        batch.edges.iter().for_each(|edge| self.push_edge(seq, edge));
        batch.tombstones.iter().for_each(|stone| self.push_tombstone(seq, stone));
    }

    /// Adds an item's row without its words: a merge brings those over by themselves.
    pub(crate) fn push_item(&mut self, seq: Seq, item: &ItemDraft) {
        self.saw(seq);
        let row = row_number(self.items.id.len());
        let embedding = self.push_vector(row, &item.embedding);
        let symbols = &mut self.symbols;
        let items = &mut self.items;
        items.id.push(item.id.map_or(0, |id| id.0));
        items.seq.push(seq);
        items.kind.push(symbols.code(&item.kind));
        items.modality.push(symbols.code(&item.modality));
        items.recorded_by.push(symbols.code(&item.recorded_by));
        items.via.push(symbols.code(&item.via));
        items.flags.push(u8::from(item.searchable));
        items.sensitivity.push(item.sensitivity as u8);
        items.title.push(&item.title);
        items.text.push(&item.text);
        items.attributes.push(&item.attributes);
        items.reference.push(item.reference.as_deref().unwrap_or_default());
        items.tags.push(item.tags.iter().map(|tag| symbols.code(tag)));
        items.gates.push(item.gates.iter().map(|gate| symbols.code(gate)));
        items.supersedes.push(item.supersedes.iter().map(|id| id.0));
        items.source.push(item.source.map_or(0, |id| id.0));
        let span = item.span.unwrap_or_default();
        items.span_bytes.push([span.byte_start, span.byte_end]);
        items.span_lines.push([span.line_start, span.line_end]);
        items.recorded_at.push(time(item.recorded_at));
        items.valid_from.push(time(item.valid_from));
        items.valid_to.push(time(item.valid_to));
        items.sha256.push(item.content_sha256());
        items.embedding.push(embedding);
    }

    fn push_vector(&mut self, row: u32, embedding: &[f16]) -> u32 {
        if embedding.is_empty() {
            return NO_ROW;
        }
        self.dimensions = row_number(embedding.len());
        self.vectors.extend_from_slice(embedding);
        self.norms.push(norm(embedding));
        self.vector_items.push(row);
        row_number(self.vector_items.len()) - 1
    }

    pub(crate) fn push_source(&mut self, seq: Seq, source: &SourceDraft) {
        self.saw(seq);
        let (symbols, sources) = (&mut self.symbols, &mut self.sources);
        sources.id.push(source.id.map_or(0, |id| id.0));
        sources.kind.push(symbols.code(&source.kind));
        sources.uri.push(&source.uri);
        sources.title.push(&source.title);
        sources.sha256.push(source.content_sha256);
        sources.bytes.push(source.bytes);
        sources.recorded_at.push(time(source.recorded_at));
        sources.recorded_by.push(symbols.code(&source.recorded_by));
        sources.via.push(symbols.code(&source.via));
        sources.seq.push(seq);
    }

    pub(crate) fn push_edge(&mut self, seq: Seq, edge: &EdgeDraft) {
        self.saw(seq);
        let (symbols, edges) = (&mut self.symbols, &mut self.edges);
        edges.id.push(edge.id.map_or(0, |id| id.0));
        edges.from.push(edge.from.0);
        edges.to.push(edge.to.0);
        edges.relation.push(symbols.code(&edge.relation));
        edges.weight.push(edge.weight);
        edges.source.push(edge.source.map_or(0, |id| id.0));
        edges.recorded_at.push(time(edge.recorded_at));
        edges.recorded_by.push(symbols.code(&edge.recorded_by));
        edges.valid_from.push(time(edge.valid_from));
        edges.valid_to.push(time(edge.valid_to));
        edges.note.push(&edge.note);
        edges.seq.push(seq);
    }

    pub(crate) fn push_tombstone(&mut self, seq: Seq, stone: &TombstoneDraft) {
        self.saw(seq);
        let stones = &mut self.tombstones;
        stones.target.push(stone.target);
        stones.at.push(time(stone.at));
        stones.by.push(self.symbols.code(&stone.by));
        stones.reason.push(&stone.reason);
        stones.seq.push(seq);
    }

    pub(crate) fn saw(&mut self, seq: Seq) {
        let (first, last) = self.seqs.unwrap_or((seq, seq));
        self.seqs = Some((first.min(seq), last.max(seq)));
    }

    /// The file's bytes.
    pub(crate) fn finish(mut self) -> AlignedBytes {
        let rows = row_number(self.items.id.len());
        let words = std::mem::take(&mut self.words).finish(rows);
        self.finish_with(&words)
    }

    /// The file's bytes, with words that were made elsewhere.
    pub(crate) fn finish_with(self, words: &WordColumns) -> AlignedBytes {
        let mut file = FileWriter::begin(self.header());
        file.texts(SYMBOL_OFFSETS, SYMBOL_BYTES, &self.symbols.texts);
        self.items.write(&mut file);
        self.sources.write(&mut file);
        self.edges.write(&mut file);
        self.tombstones.write(&mut file);
        file.column(VECTOR_HALVES, &self.vectors);
        file.column(VECTOR_NORM, &self.norms);
        file.column(VECTOR_ITEM, &self.vector_items);
        file.column(WORD_DICTIONARY, &words.dictionary);
        file.column(WORD_ENTRIES, &words.entries);
        file.column(WORD_BLOCKS, &words.blocks);
        file.column(WORD_POSTINGS, &words.postings);
        file.column(WORD_LENGTHS, &words.lengths);
        file.finish()
    }

    fn header(&self) -> [u8; HEADER_BYTES] {
        let (first, last) = self.seqs.unwrap_or_default();
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.put(SEGMENT_MAGIC);
        header.put(&READ_VERSION.to_le_bytes());
        header.put(&WRITE_VERSION.to_le_bytes());
        header.put(&self.dimensions.to_le_bytes());
        for rows in [
            self.items.id.len(),
            self.sources.id.len(),
            self.edges.id.len(),
            self.tombstones.target.len(),
            self.vector_items.len(),
            self.symbols.texts.offsets.len() - 1,
        ] {
            header.put(&row_number(rows).to_le_bytes());
        }
        header.put(&first.to_le_bytes());
        header.put(&last.to_le_bytes());
        header.put(&[0; 8]);
        header.try_into().expect("the fields above are 64 bytes")
    }
}

/// Euclidean length, summed in `f64` so that the stored `f32` is the nearest one.
fn norm(halves: &[f16]) -> f32 {
    let squares: f64 = halves.iter().map(|half| f64::from(half.to_f32()).powi(2)).sum();
    #[expect(clippy::cast_possible_truncation, reason = "the nearest f32 is what is stored")]
    {
        squares.sqrt() as f32
    }
}

impl Items {
    fn write(&self, file: &mut FileWriter) {
        let rows = self.id.len();
        file.column(ITEM_ID, &self.id);
        file.column(ITEM_BY_ID, &sorted_rows(rows, |row| self.id[row]));
        file.column(ITEM_SEQ, &self.seq);
        file.column(ITEM_KIND, &self.kind);
        file.column(ITEM_MODALITY, &self.modality);
        file.column(ITEM_RECORDED_BY, &self.recorded_by);
        file.column(ITEM_VIA, &self.via);
        file.column(ITEM_FLAGS, &self.flags);
        file.column(ITEM_SENSITIVITY, &self.sensitivity);
        file.texts(TITLE_OFFSETS, TITLE_BYTES, &self.title);
        file.texts(TEXT_OFFSETS, TEXT_BYTES, &self.text);
        file.texts(ATTRIBUTE_OFFSETS, ATTRIBUTE_BYTES, &self.attributes);
        file.texts(REF_OFFSETS, REF_BYTES, &self.reference);
        let mut by_ref = sorted_rows(rows, |row| self.reference.get(row));
        by_ref.retain(|&row| !self.reference.get(row as usize).is_empty());
        file.column(ITEM_BY_REF, &by_ref);
        file.lists(TAG_OFFSETS, TAG_CODES, &self.tags);
        file.lists(GATE_OFFSETS, GATE_CODES, &self.gates);
        file.lists(SUPERSEDES_OFFSETS, SUPERSEDES_IDS, &self.supersedes);
        let successors = self.successors();
        file.column(SUCCESSOR_TARGET, &successors.iter().map(|s| s.0).collect::<Vec<_>>());
        file.column(SUCCESSOR_ROW, &successors.iter().map(|s| s.1).collect::<Vec<_>>());
        file.column(ITEM_SOURCE, &self.source);
        let mut by_source = sorted_rows(rows, |row| self.source[row]);
        by_source.retain(|&row| self.source[row as usize] != 0);
        file.column(ITEM_BY_SOURCE, &by_source);
        file.column(SPAN_BYTES, &self.span_bytes);
        file.column(SPAN_LINES, &self.span_lines);
        file.column(ITEM_RECORDED_AT, &self.recorded_at);
        file.column(ITEM_VALID_FROM, &self.valid_from);
        file.column(ITEM_VALID_TO, &self.valid_to);
        file.column(ITEM_SHA256, &self.sha256);
        file.column(ITEM_EMBEDDING, &self.embedding);
    }

    /// Who replaces whom, sorted by who is replaced.
    fn successors(&self) -> Vec<(u128, u32)> {
        let mut pairs = Vec::with_capacity(self.supersedes.cells.len());
        for (row, bounds) in self.supersedes.offsets.windows(2).enumerate() {
            let targets = &self.supersedes.cells[bounds[0] as usize..bounds[1] as usize];
            pairs.extend(targets.iter().map(|&target| (target, row_number(row))));
        }
        pairs.sort_unstable();
        pairs
    }
}

impl Sources {
    fn write(&self, file: &mut FileWriter) {
        let rows = self.id.len();
        file.column(SOURCE_ID, &self.id);
        file.column(SOURCE_BY_ID, &sorted_rows(rows, |row| self.id[row]));
        file.column(SOURCE_KIND, &self.kind);
        file.texts(SOURCE_URI_OFFSETS, SOURCE_URI_BYTES, &self.uri);
        file.column(SOURCE_BY_URI, &sorted_rows(rows, |row| self.uri.get(row)));
        file.texts(SOURCE_TITLE_OFFSETS, SOURCE_TITLE_BYTES, &self.title);
        file.column(SOURCE_SHA256, &self.sha256);
        file.column(SOURCE_BYTES, &self.bytes);
        file.column(SOURCE_RECORDED_AT, &self.recorded_at);
        file.column(SOURCE_RECORDED_BY, &self.recorded_by);
        file.column(SOURCE_VIA, &self.via);
        file.column(SOURCE_SEQ, &self.seq);
    }
}

impl Edges {
    fn write(&self, file: &mut FileWriter) {
        let rows = self.id.len();
        file.column(EDGE_ID, &self.id);
        file.column(EDGE_BY_ID, &sorted_rows(rows, |row| self.id[row]));
        file.column(EDGE_FROM, &self.from);
        file.column(EDGE_BY_FROM, &sorted_rows(rows, |row| self.from[row]));
        file.column(EDGE_TO, &self.to);
        file.column(EDGE_BY_TO, &sorted_rows(rows, |row| self.to[row]));
        file.column(EDGE_RELATION, &self.relation);
        file.column(EDGE_WEIGHT, &self.weight);
        file.column(EDGE_SOURCE, &self.source);
        file.column(EDGE_RECORDED_AT, &self.recorded_at);
        file.column(EDGE_RECORDED_BY, &self.recorded_by);
        file.column(EDGE_VALID_FROM, &self.valid_from);
        file.column(EDGE_VALID_TO, &self.valid_to);
        file.texts(EDGE_NOTE_OFFSETS, EDGE_NOTE_BYTES, &self.note);
        file.column(EDGE_SEQ, &self.seq);
    }
}

impl Tombstones {
    fn write(&self, file: &mut FileWriter) {
        let rows = self.target.len();
        file.column(TOMBSTONE_TARGET, &self.target);
        file.column(TOMBSTONE_BY_TARGET, &sorted_rows(rows, |row| self.target[row]));
        file.column(TOMBSTONE_AT, &self.at);
        file.column(TOMBSTONE_BY, &self.by);
        file.texts(TOMBSTONE_REASON_OFFSETS, TOMBSTONE_REASON_BYTES, &self.reason);
        file.column(TOMBSTONE_SEQ, &self.seq);
    }
}

/// Lays columns one after another, then directory, page checks and trailer.
struct FileWriter {
    out: AlignedBytes,
    directory: Vec<u8>,
}

impl FileWriter {
    fn begin(header: [u8; HEADER_BYTES]) -> Self {
        let mut out = AlignedBytes::default();
        out.extend(&header);
        Self { out, directory: Vec::new() }
    }

    /// Columns come in ascending order (SEG-07).
    fn column<T: NoUninit>(&mut self, column: Column, cells: &[T]) {
        let spec = column.spec();
        assert_eq!(size_of::<T>(), usize::from(spec.cell_bytes), "cell of {}", spec.name);
        let bytes: &[u8] = bytemuck::cast_slice(cells);
        self.out.pad();
        self.directory.put(&spec.number.to_le_bytes());
        self.directory.put(&spec.cell_bytes.to_le_bytes());
        self.directory.put(&[0; 4]);
        self.directory.put(&(self.out.len() as u64).to_le_bytes());
        self.directory.put(&(bytes.len() as u64).to_le_bytes());
        self.directory.put(&[0; 8]);
        self.out.extend(bytes);
    }

    fn texts(&mut self, offsets: Column, bytes: Column, texts: &Texts) {
        self.column(offsets, &texts.offsets);
        self.column(bytes, &texts.bytes);
    }

    fn lists<T: NoUninit>(&mut self, offsets: Column, cells: Column, lists: &Lists<T>) {
        self.column(offsets, &lists.offsets);
        self.column(cells, &lists.cells);
    }

    fn finish(mut self) -> AlignedBytes {
        self.out.pad();
        let directory_at = self.out.len() as u64;
        let entries = row_number(self.directory.len() / ENTRY_BYTES);
        self.out.extend(&self.directory);
        let checks_at = self.out.len();
        let checks: Vec<u8> = self
            .out
            .as_slice()
            .chunks(PAGE_BYTES)
            .flat_map(|page| crc32c::crc32c(page).to_le_bytes())
            .collect();
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        trailer.put(&directory_at.to_le_bytes());
        trailer.put(&entries.to_le_bytes());
        trailer.put(&row_number(PAGE_BYTES).to_le_bytes());
        trailer.put(&(checks_at as u64).to_le_bytes());
        trailer.put(&row_number(checks.len() / 4).to_le_bytes());
        trailer.put(&crc32c::crc32c(&checks).to_le_bytes());
        let file_bytes = checks_at + checks.len() + TRAILER_BYTES;
        trailer.put(&(file_bytes as u64).to_le_bytes());
        trailer.put(&[0; 12]);
        trailer.put(&crc32c::crc32c(&trailer).to_le_bytes());
        trailer.put(SEGMENT_END_MAGIC);
        self.out.extend(&checks);
        self.out.extend(&trailer);
        self.out
    }
}
