use half::f16;

use super::adjacency::sorted_nodes;
use super::column_builders::{
    ListColumn, SymbolTable, TextColumn, row_number, rows_by_id, sorted_rows,
};
use super::embeddings_builder::EmbeddingsBuilder;
use super::file_writer::{EdgeEndpoints, SegmentFileWriter};
use super::header::SegmentHeader;
use crate::error::DiskError;
use crate::fulltext::{FulltextColumns, PostingsBuilder};
use crate::ids::Seq;
use crate::item::{Batch, EdgeDraft, ItemDraft, SourceDraft, TombstoneDraft};
use crate::layout::*;
use crate::os::clock::Micros;
use crate::os::mmap::AlignedBytes;

/// Collects rows and writes them as a segment.
#[derive(Default)]
pub(crate) struct SegmentBuilder {
    symbols: SymbolTable,
    items: ItemColumns,
    sources: SourceColumns,
    edges: EdgeColumns,
    tombstones: TombstoneColumns,
    dimensions: u32,
    vectors: EmbeddingsBuilder,
    postings: PostingsBuilder,
    seqs: Option<(Seq, Seq)>,
}

#[derive(Default)]
struct ItemColumns {
    id: Vec<u128>,
    seq: Vec<u64>,
    kind: Vec<u32>,
    modality: Vec<u32>,
    recorded_by: Vec<u32>,
    via: Vec<u32>,
    flags: Vec<u8>,
    sensitivity: Vec<u8>,
    title: TextColumn,
    text: TextColumn,
    attributes: TextColumn,
    reference: TextColumn,
    tags: ListColumn<u32>,
    gates: ListColumn<u32>,
    supersedes: ListColumn<u128>,
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
struct SourceColumns {
    id: Vec<u128>,
    kind: Vec<u32>,
    uri: TextColumn,
    title: TextColumn,
    sha256: Vec<[u8; 32]>,
    bytes: Vec<u64>,
    recorded_at: Vec<i64>,
    recorded_by: Vec<u32>,
    via: Vec<u32>,
    seq: Vec<u64>,
}

#[derive(Default)]
struct EdgeColumns {
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
    note: TextColumn,
    seq: Vec<u64>,
}

#[derive(Default)]
struct TombstoneColumns {
    target: Vec<u128>,
    at: Vec<i64>,
    by: Vec<u32>,
    reason: TextColumn,
    seq: Vec<u64>,
    flags: Vec<u8>,
    supersedes: ListColumn<u128>,
}

fn time_or_none(at: Option<Micros>) -> i64 {
    at.map_or(NO_TIME, |at| at.0)
}

impl SegmentBuilder {
    /// Adds all rows of a committed batch, whose ids and times are filled in.
    pub(crate) fn push_batch(&mut self, seq: Seq, batch: &Batch) {
        self.note_commit(seq);
        batch.sources.iter().for_each(|source| self.push_source(seq, source));
        for item in &batch.items {
            let row = row_number(self.items.id.len());
            if item.searchable {
                let added = self.postings.add(row, &item.title, &item.text);
                added.expect("limits.rs: a tail has fewer postings than a segment can hold");
            }
            self.push_item(seq, item, item.content_sha256());
        }
        batch.edges.iter().for_each(|edge| self.push_edge(seq, edge));
        batch.tombstones.iter().for_each(|stone| self.push_tombstone(seq, stone));
    }

    /// Extends the range of commits that the segment covers.
    pub(super) fn note_commit(&mut self, seq: Seq) {
        let (first, last) = self.seqs.unwrap_or((seq, seq));
        self.seqs = Some((first.min(seq), last.max(seq)));
    }

    /// Adds the row of an item without its words. `sha256` is the hash of the item's text.
    pub(super) fn push_item(&mut self, seq: Seq, item: &ItemDraft, sha256: [u8; 32]) {
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
        items.recorded_at.push(time_or_none(item.recorded_at));
        items.valid_from.push(time_or_none(item.valid_from));
        items.valid_to.push(time_or_none(item.valid_to));
        items.sha256.push(sha256);
        items.embedding.push(embedding);
    }

    fn push_vector(&mut self, row: u32, embedding: &[f16]) -> u32 {
        if embedding.is_empty() {
            return NO_ROW;
        }
        self.dimensions = row_number(embedding.len());
        self.vectors.push(row, embedding)
    }

    pub(super) fn push_source(&mut self, seq: Seq, source: &SourceDraft) {
        let (symbols, sources) = (&mut self.symbols, &mut self.sources);
        sources.id.push(source.id.map_or(0, |id| id.0));
        sources.kind.push(symbols.code(&source.kind));
        sources.uri.push(&source.uri);
        sources.title.push(&source.title);
        sources.sha256.push(source.content_sha256);
        sources.bytes.push(source.bytes);
        sources.recorded_at.push(time_or_none(source.recorded_at));
        sources.recorded_by.push(symbols.code(&source.recorded_by));
        sources.via.push(symbols.code(&source.via));
        sources.seq.push(seq);
    }

    pub(super) fn push_edge(&mut self, seq: Seq, edge: &EdgeDraft) {
        let (symbols, edges) = (&mut self.symbols, &mut self.edges);
        edges.id.push(edge.id.map_or(0, |id| id.0));
        edges.from.push(edge.from.0);
        edges.to.push(edge.to.0);
        edges.relation.push(symbols.code(&edge.relation));
        edges.weight.push(edge.weight);
        edges.source.push(edge.source.map_or(0, |id| id.0));
        edges.recorded_at.push(time_or_none(edge.recorded_at));
        edges.recorded_by.push(symbols.code(&edge.recorded_by));
        edges.valid_from.push(time_or_none(edge.valid_from));
        edges.valid_to.push(time_or_none(edge.valid_to));
        edges.note.push(&edge.note);
        edges.seq.push(seq);
    }

    pub(super) fn push_tombstone(&mut self, seq: Seq, stone: &TombstoneDraft) {
        let stones = &mut self.tombstones;
        stones.target.push(stone.target);
        stones.at.push(time_or_none(stone.at));
        stones.by.push(self.symbols.code(&stone.by));
        stones.reason.push(&stone.reason);
        stones.seq.push(seq);
        stones.flags.push(stone.flags());
        stones.supersedes.push(stone.supersedes.iter().map(|id| id.0));
    }

    /// Returns the bytes of a segment of the tail. Its heap dictionary must not be written to a file.
    pub(crate) fn finish_on_heap(mut self) -> AlignedBytes {
        let words = self.finish_heap_postings();
        self.finish_with(&words)
    }

    fn finish_heap_postings(&mut self) -> FulltextColumns {
        let rows = row_number(self.items.id.len());
        std::mem::take(&mut self.postings).finish_on_heap(rows)
    }

    /// Returns the bytes of the file.
    pub(crate) fn finish(mut self) -> AlignedBytes {
        let rows = row_number(self.items.id.len());
        let words = std::mem::take(&mut self.postings).finish(rows);
        self.finish_with(&words)
    }

    /// Returns the bytes of the file, with words that the caller has built.
    pub(super) fn finish_with(mut self, words: &FulltextColumns) -> AlignedBytes {
        let (symbols, codes) = self.symbols.sorted();
        self.remap_symbols(&codes);
        let mut out = AlignedBytes::with_room(self.estimate_bytes(words));
        self.write(&mut out, &symbols, words).expect("the heap takes all that is put there");
        out
    }

    /// Estimates the length of the file; parts that do not grow with the texts are guessed.
    fn estimate_bytes(&self, words: &FulltextColumns) -> usize {
        const FILE_BYTES: usize = 12 << 10;
        const ITEM_BYTES: usize = 512;
        const EDGE_BYTES: usize = 256;
        let items = &self.items;
        let texts = items.title.bytes.len() + items.text.bytes.len() + items.attributes.bytes.len();
        let vectors = self.vectors.bytes();
        let words = words.dictionary.len() + words.entries.len() + words.postings.len();
        let rows = items.id.len() * ITEM_BYTES + self.edges.id.len() * EDGE_BYTES;
        FILE_BYTES + rows + texts + vectors + words
    }

    /// Replaces all symbol codes by codes in ascending order of the names.
    fn remap_symbols(&mut self, codes: &[u32]) {
        let (items, sources, edges) = (&mut self.items, &mut self.sources, &mut self.edges);
        let columns = [
            &mut items.kind,
            &mut items.modality,
            &mut items.recorded_by,
            &mut items.via,
            &mut items.tags.cells,
            &mut items.gates.cells,
            &mut sources.kind,
            &mut sources.recorded_by,
            &mut sources.via,
            &mut edges.relation,
            &mut edges.recorded_by,
            &mut self.tombstones.by,
        ];
        for code in columns.into_iter().flatten() {
            *code = codes[*code as usize];
        }
    }

    fn write(
        &self,
        out: &mut AlignedBytes,
        symbols: &TextColumn,
        words: &FulltextColumns,
    ) -> Result<(), DiskError> {
        let mut file = SegmentFileWriter::begin(out, &self.header(symbols))?;
        file.texts(SYMBOL_OFFSETS, SYMBOL_BYTES, symbols)?;
        self.items.write(&mut file)?;
        self.sources.write(&mut file)?;
        self.edges.write(&mut file)?;
        self.tombstones.write(&mut file)?;
        self.edges.write_ends(&self.items.id, &mut file)?;
        self.tombstones.write_successors(&mut file)?;
        self.vectors.write(&mut file)?;
        file.words(words)?;
        file.finish().map(drop)
    }

    fn header(&self, symbols: &TextColumn) -> SegmentHeader {
        let (first_seq, last_seq) = self.seqs.unwrap_or_default();
        SegmentHeader {
            dimensions: self.dimensions,
            items: row_number(self.items.id.len()),
            sources: row_number(self.sources.id.len()),
            edges: row_number(self.edges.id.len()),
            tombstones: row_number(self.tombstones.target.len()),
            vectors: self.vectors.count(),
            symbols: row_number(symbols.len()),
            first_seq,
            last_seq,
        }
    }
}

/// Rows and words of a batch that has no commit number yet. The longest part of the work is done before the commit, on
/// the writing thread and without a lock.
pub(crate) struct UncommittedRows {
    rows: SegmentBuilder,
    postings: FulltextColumns,
}

impl UncommittedRows {
    /// Builds the rows of a batch whose ids and times are filled in.
    pub(crate) fn build(batch: &Batch) -> Self {
        let mut rows = SegmentBuilder::default();
        rows.push_batch(0, batch);
        let words = rows.finish_heap_postings();
        Self { rows, postings: words }
    }

    /// Returns the bytes of a segment of the tail, with all rows in the commit `seq`.
    pub(crate) fn commit(mut self, seq: Seq) -> AlignedBytes {
        let SegmentBuilder { items, sources, edges, tombstones, .. } = &mut self.rows;
        for column in [&mut items.seq, &mut sources.seq, &mut edges.seq, &mut tombstones.seq] {
            column.fill(seq);
        }
        self.rows.seqs = Some((seq, seq));
        self.rows.finish_with(&self.postings)
    }
}

impl ItemColumns {
    fn write(&self, file: &mut SegmentFileWriter<'_>) -> Result<(), DiskError> {
        let rows = self.id.len();
        file.column(ITEM_ID, &self.id)?;
        file.column(ITEM_BY_ID, &rows_by_id(&self.id))?;
        file.column(ITEM_SEQ, &self.seq)?;
        file.column(ITEM_KIND, &self.kind)?;
        file.column(ITEM_MODALITY, &self.modality)?;
        file.column(ITEM_RECORDED_BY, &self.recorded_by)?;
        file.column(ITEM_VIA, &self.via)?;
        file.column(ITEM_FLAGS, &self.flags)?;
        file.column(ITEM_SENSITIVITY, &self.sensitivity)?;
        file.texts(TITLE_OFFSETS, TITLE_BYTES, &self.title)?;
        file.texts(TEXT_OFFSETS, TEXT_BYTES, &self.text)?;
        file.texts(ATTRIBUTE_OFFSETS, ATTRIBUTE_BYTES, &self.attributes)?;
        file.texts(REF_OFFSETS, REF_BYTES, &self.reference)?;
        let mut by_ref = sorted_rows(rows, |row| self.reference.get(row));
        by_ref.retain(|&row| !self.reference.get(row as usize).is_empty());
        file.column(ITEM_BY_REF, &by_ref)?;
        file.lists(TAG_OFFSETS, TAG_CODES, &self.tags)?;
        file.lists(GATE_OFFSETS, GATE_CODES, &self.gates)?;
        file.lists(SUPERSEDES_OFFSETS, SUPERSEDES_IDS, &self.supersedes)?;
        let (targets, by) = self.supersedes.sorted();
        file.column(SUCCESSOR_TARGET, &targets)?;
        file.column(SUCCESSOR_ROW, &by)?;
        file.column(ITEM_SOURCE, &self.source)?;
        let mut by_source = sorted_rows(rows, |row| self.source[row]);
        by_source.retain(|&row| self.source[row as usize] != 0);
        file.column(ITEM_BY_SOURCE, &by_source)?;
        file.column(SPAN_BYTES, &self.span_bytes)?;
        file.column(SPAN_LINES, &self.span_lines)?;
        file.column(ITEM_RECORDED_AT, &self.recorded_at)?;
        file.column(ITEM_VALID_FROM, &self.valid_from)?;
        file.column(ITEM_VALID_TO, &self.valid_to)?;
        file.column(ITEM_SHA256, &self.sha256)?;
        file.column(ITEM_EMBEDDING, &self.embedding)
    }
}

impl SourceColumns {
    fn write(&self, file: &mut SegmentFileWriter<'_>) -> Result<(), DiskError> {
        let rows = self.id.len();
        file.column(SOURCE_ID, &self.id)?;
        file.column(SOURCE_BY_ID, &rows_by_id(&self.id))?;
        file.column(SOURCE_KIND, &self.kind)?;
        file.texts(SOURCE_URI_OFFSETS, SOURCE_URI_BYTES, &self.uri)?;
        file.column(SOURCE_BY_URI, &sorted_rows(rows, |row| self.uri.get(row)))?;
        file.texts(SOURCE_TITLE_OFFSETS, SOURCE_TITLE_BYTES, &self.title)?;
        file.column(SOURCE_SHA256, &self.sha256)?;
        file.column(SOURCE_BYTES, &self.bytes)?;
        file.column(SOURCE_RECORDED_AT, &self.recorded_at)?;
        file.column(SOURCE_RECORDED_BY, &self.recorded_by)?;
        file.column(SOURCE_VIA, &self.via)?;
        file.column(SOURCE_SEQ, &self.seq)
    }
}

impl EdgeColumns {
    fn write(&self, file: &mut SegmentFileWriter<'_>) -> Result<(), DiskError> {
        file.column(EDGE_ID, &self.id)?;
        file.column(EDGE_BY_ID, &rows_by_id(&self.id))?;
        file.column(EDGE_RELATION, &self.relation)?;
        file.column(EDGE_WEIGHT, &self.weight)?;
        file.column(EDGE_SOURCE, &self.source)?;
        file.column(EDGE_RECORDED_AT, &self.recorded_at)?;
        file.column(EDGE_RECORDED_BY, &self.recorded_by)?;
        file.column(EDGE_VALID_FROM, &self.valid_from)?;
        file.column(EDGE_VALID_TO, &self.valid_to)?;
        file.texts(EDGE_NOTE_OFFSETS, EDGE_NOTE_BYTES, &self.note)?;
        file.column(EDGE_SEQ, &self.seq)
    }
}

impl EdgeColumns {
    /// Writes the nodes, and the edges that start and end at each node.
    fn write_ends(
        &self,
        items: &[u128],
        file: &mut SegmentFileWriter<'_>,
    ) -> Result<(), DiskError> {
        let nodes = sorted_nodes([&self.from[..], &self.to[..]].concat());
        let node_of = |id: &u128| row_number(nodes.partition_point(|node| node < id));
        let from: Vec<u32> = self.from.iter().map(node_of).collect();
        let to: Vec<u32> = self.to.iter().map(node_of).collect();
        let order = if items.is_sorted() { None } else { Some(rows_by_id(items)) };
        let rows: Vec<u32> = nodes
            .iter()
            .map(|node| match &order {
                None => items.binary_search(node).map_or(NO_ROW, row_number),
                Some(order) => order
                    .binary_search_by_key(node, |&row| items[row as usize])
                    .map_or(NO_ROW, |at| order[at]),
            })
            .collect();
        file.endpoints(&EdgeEndpoints { nodes: &nodes, rows: &rows, from: &from, to: &to })
            .map(|fits| fits.expect("a tail is far smaller than a u32 can say"))
    }
}

impl TombstoneColumns {
    fn write(&self, file: &mut SegmentFileWriter<'_>) -> Result<(), DiskError> {
        let rows = self.target.len();
        file.column(TOMBSTONE_TARGET, &self.target)?;
        file.column(TOMBSTONE_BY_TARGET, &sorted_rows(rows, |row| self.target[row]))?;
        file.column(TOMBSTONE_AT, &self.at)?;
        file.column(TOMBSTONE_BY, &self.by)?;
        file.texts(TOMBSTONE_REASON_OFFSETS, TOMBSTONE_REASON_BYTES, &self.reason)?;
        file.column(TOMBSTONE_SEQ, &self.seq)?;
        file.column(TOMBSTONE_FLAGS, &self.flags)?;
        file.lists(TOMBSTONE_SUPERSEDES_OFFSETS, TOMBSTONE_SUPERSEDES_IDS, &self.supersedes)
    }

    fn write_successors(&self, file: &mut SegmentFileWriter<'_>) -> Result<(), DiskError> {
        let (targets, by) = self.supersedes.sorted();
        file.column(TOMBSTONE_SUCCESSOR_TARGET, &targets)?;
        file.column(TOMBSTONE_SUCCESSOR_ROW, &by)
    }
}
