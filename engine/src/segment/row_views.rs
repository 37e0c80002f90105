//! Views of single rows: whole items, sources, edges and tombstones that borrow from their segment.

use half::f16;

use super::header::SegmentHeader;
use super::reader::Segment;
use crate::error::CorruptionError;
use crate::ids::{EdgeId, ItemId, Row, Seq, SourceId};
use crate::item::{EdgeDraft, ItemDraft, Sensitivity, SourceDraft, Span, TombstoneDraft};
use crate::layout::*;
use crate::os::clock::Micros;

/// Item that borrows from its segment.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemView<'seg> {
    /// Item id.
    pub id: ItemId,
    /// Commit that wrote the item.
    pub seq: Seq,
    /// Caller's own id.
    pub reference: Option<&'seg str>,
    /// Kind of item: `note`, `decision`, `document`, `chunk`, ...
    pub kind: &'seg str,
    /// Kind of content: `text`, `code`, `image`, ...
    pub modality: &'seg str,
    /// Title, one line.
    pub title: &'seg str,
    /// Text of the item.
    pub text: &'seg str,
    /// JSON object, or empty.
    pub attributes: &'seg str,
    /// Labels.
    pub tags: Vec<&'seg str>,
    /// Named flags for policy.
    pub gates: Vec<&'seg str>,
    /// Items that this item supersedes.
    pub supersedes: Vec<ItemId>,
    /// Source of the item.
    pub source: Option<SourceId>,
    /// Span of the item within its source.
    pub span: Option<Span>,
    /// Time of recording.
    pub recorded_at: Micros,
    /// Principal that recorded the item.
    pub recorded_by: &'seg str,
    /// Tool or job that recorded the item.
    pub via: &'seg str,
    /// Start of the valid time; `None` if unbounded.
    pub valid_from: Option<Micros>,
    /// End of the valid time; `None` if unbounded.
    pub valid_to: Option<Micros>,
    /// Sensitivity class.
    pub sensitivity: Sensitivity,
    /// True if searches find the item.
    pub searchable: bool,
    /// SHA-256 of the text.
    pub content_sha256: [u8; 32],
    /// Row of the item's embedding in the segment's embedding columns.
    pub(crate) embedding: Option<Row>,
}

/// Source that borrows from its segment.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceView<'seg> {
    /// Source id.
    pub id: SourceId,
    /// Commit that wrote the source.
    pub seq: Seq,
    /// Kind of source: `file`, `text`, ...
    pub kind: &'seg str,
    /// Location of the source.
    pub uri: &'seg str,
    /// Title, one line.
    pub title: &'seg str,
    /// SHA-256 of the content as read.
    pub content_sha256: [u8; 32],
    /// Length of the content, in bytes.
    pub bytes: u64,
    /// Time at which the source was read.
    pub recorded_at: Micros,
    /// Principal that had the source read.
    pub recorded_by: &'seg str,
    /// Tool or job that recorded the source.
    pub via: &'seg str,
}

/// Edge that borrows from its segment.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeView<'seg> {
    /// Edge id.
    pub id: EdgeId,
    /// Commit that wrote the edge.
    pub seq: Seq,
    /// Start of the edge.
    pub from: ItemId,
    /// End of the edge.
    pub to: ItemId,
    /// Name of the relation.
    pub relation: &'seg str,
    /// Weight, 0 to 1.
    pub weight: f32,
    /// Source in which the link was found.
    pub source: Option<SourceId>,
    /// Time of recording.
    pub recorded_at: Micros,
    /// Principal that recorded the edge.
    pub recorded_by: &'seg str,
    /// Start of the valid time; `None` if unbounded.
    pub valid_from: Option<Micros>,
    /// End of the valid time; `None` if unbounded.
    pub valid_to: Option<Micros>,
    /// Note on the edge, one line.
    pub note: &'seg str,
}

/// Tombstone that borrows from its segment.
#[derive(Debug, Clone, PartialEq)]
pub struct TombstoneView<'seg> {
    /// Number of the hidden item's or edge's id.
    pub target: u128,
    /// Commit that wrote the tombstone.
    pub seq: Seq,
    /// Time of recording.
    pub at: Micros,
    /// Principal that recorded the tombstone.
    pub by: &'seg str,
    /// Reason for the tombstone.
    pub reason: &'seg str,
    /// True if the bytes of the target are to be erased.
    pub erase: bool,
    /// True if the target was already erased when the tombstone was written.
    pub target_erased: bool,
    /// Items that an erased target superseded.
    pub supersedes: Vec<ItemId>,
}

fn optional_time(time: i64) -> Option<Micros> {
    (time != NO_TIME).then_some(Micros(time))
}

fn source_id(number: u128) -> Option<SourceId> {
    (number != 0).then_some(SourceId(number))
}

impl Segment {
    fn cell<T: bytemuck::AnyBitPattern>(
        &self,
        column: Column,
        row: Row,
    ) -> Result<T, CorruptionError> {
        self.column(column)?.get(row as usize)
    }

    fn text(&self, offsets: Column, bytes: Column, row: Row) -> Result<&str, CorruptionError> {
        self.var_len_column::<u64, u8>(offsets, bytes)?.text(row as usize)
    }

    pub(super) fn list<T: bytemuck::AnyBitPattern>(
        &self,
        offsets: Column,
        cells: Column,
        row: Row,
    ) -> Result<&[T], CorruptionError> {
        self.var_len_column::<u32, T>(offsets, cells)?.get(row as usize)
    }

    pub(crate) fn symbol(&self, code: u32) -> Result<&str, CorruptionError> {
        self.text(SYMBOL_OFFSETS, SYMBOL_BYTES, code)
    }

    /// Returns the symbol of a code that `row` of `column` contains.
    fn symbol_named(&self, column: Column, row: Row, code: u32) -> Result<&str, CorruptionError> {
        let symbols = self.header().symbols;
        if code >= symbols {
            let detail = format!("row {row}: symbol {code} of {symbols}");
            return Err(self.damage("SEG-12", column, detail));
        }
        self.symbol(code)
    }

    fn symbol_at(&self, column: Column, row: Row) -> Result<&str, CorruptionError> {
        self.symbol_named(column, row, self.cell(column, row)?)
    }

    fn symbols_at(
        &self,
        offsets: Column,
        codes: Column,
        row: Row,
    ) -> Result<Vec<&str>, CorruptionError> {
        let list: &[u32] = self.list(offsets, codes, row)?;
        list.iter().map(|&code| self.symbol_named(codes, row, code)).collect()
    }

    pub(crate) fn title(&self, row: Row) -> Result<&str, CorruptionError> {
        self.text(TITLE_OFFSETS, TITLE_BYTES, row)
    }

    pub(crate) fn title_and_text(&self, row: Row) -> Result<(&str, &str), CorruptionError> {
        let title = self.title(row)?;
        Ok((title, self.text(TEXT_OFFSETS, TEXT_BYTES, row)?))
    }

    /// Total length of title and text of an item.
    pub(crate) fn title_and_text_bytes(&self, row: Row) -> Result<u64, CorruptionError> {
        let bytes = |offsets: Column| {
            let offsets = self.column::<u64>(offsets)?;
            let (from, to) = (offsets.get(row as usize)?, offsets.get(row as usize + 1)?);
            Ok::<_, CorruptionError>(to.saturating_sub(from))
        };
        Ok(bytes(TITLE_OFFSETS)?.saturating_add(bytes(TEXT_OFFSETS)?))
    }

    pub(crate) fn item(&self, row: Row) -> Result<ItemView<'_>, CorruptionError> {
        let [byte_start, byte_end] = self.cell::<[u64; 2]>(SPAN_BYTES, row)?;
        let [line_start, line_end] = self.cell::<[u32; 2]>(SPAN_LINES, row)?;
        let span = Span { byte_start, byte_end, line_start, line_end };
        let reference = self.text(REF_OFFSETS, REF_BYTES, row)?;
        let flags: u8 = self.cell(ITEM_FLAGS, row)?;
        let code: u8 = self.cell(ITEM_SENSITIVITY, row)?;
        let Some(sensitivity) = Sensitivity::from_code(code) else {
            let detail = format!("row {row}: no sensitivity has code {code}");
            return Err(self.damage("SEG-15", ITEM_SENSITIVITY, detail));
        };
        if flags > 1 {
            let detail = format!("row {row}: unknown flags {flags:#x}");
            return Err(self.damage("SEG-15", ITEM_FLAGS, detail));
        }
        let replaced: &[u128] = self.list(SUPERSEDES_OFFSETS, SUPERSEDES_IDS, row)?;
        Ok(ItemView {
            id: self.item_id(row)?,
            seq: self.cell(ITEM_SEQ, row)?,
            reference: (!reference.is_empty()).then_some(reference),
            kind: self.symbol_at(ITEM_KIND, row)?,
            modality: self.symbol_at(ITEM_MODALITY, row)?,
            title: self.title(row)?,
            text: self.text(TEXT_OFFSETS, TEXT_BYTES, row)?,
            attributes: self.text(ATTRIBUTE_OFFSETS, ATTRIBUTE_BYTES, row)?,
            tags: self.symbols_at(TAG_OFFSETS, TAG_CODES, row)?,
            gates: self.symbols_at(GATE_OFFSETS, GATE_CODES, row)?,
            supersedes: replaced.iter().copied().map(ItemId).collect(),
            source: source_id(self.cell(ITEM_SOURCE, row)?),
            span: (span != Span::default()).then_some(span),
            recorded_at: Micros(self.cell(ITEM_RECORDED_AT, row)?),
            recorded_by: self.symbol_at(ITEM_RECORDED_BY, row)?,
            via: self.symbol_at(ITEM_VIA, row)?,
            valid_from: optional_time(self.cell(ITEM_VALID_FROM, row)?),
            valid_to: optional_time(self.cell(ITEM_VALID_TO, row)?),
            sensitivity,
            searchable: flags == 1,
            content_sha256: self.cell(ITEM_SHA256, row)?,
            embedding: self.embedding_row(row)?,
        })
    }

    pub(crate) fn item_id(&self, row: Row) -> Result<ItemId, CorruptionError> {
        self.cell(ITEM_ID, row).map(ItemId)
    }

    /// Returns the row of an item's embedding in the embedding columns; `None` if the item has no embedding.
    pub(crate) fn embedding_row(&self, row: Row) -> Result<Option<Row>, CorruptionError> {
        let embedding: u32 = self.cell(ITEM_EMBEDDING, row)?;
        Ok((embedding != NO_ROW).then_some(embedding))
    }

    /// Returns the embedding in a row of the embedding columns.
    pub(crate) fn vector(&self, row: Row) -> Result<&[f16], CorruptionError> {
        let SegmentHeader { dimensions, vectors, .. } = *self.header();
        if row >= vectors {
            let detail = format!("vector {row} of {vectors}");
            return Err(self.damage("SEG-12", ITEM_EMBEDDING, detail));
        }
        let from = row as usize * halves_per_row(dimensions);
        self.column::<f16>(VECTOR_HALVES)?.range(from, from + dimensions as usize)
    }

    pub(crate) fn source(&self, row: Row) -> Result<SourceView<'_>, CorruptionError> {
        Ok(SourceView {
            id: SourceId(self.cell(SOURCE_ID, row)?),
            seq: self.cell(SOURCE_SEQ, row)?,
            kind: self.symbol_at(SOURCE_KIND, row)?,
            uri: self.text(SOURCE_URI_OFFSETS, SOURCE_URI_BYTES, row)?,
            title: self.text(SOURCE_TITLE_OFFSETS, SOURCE_TITLE_BYTES, row)?,
            content_sha256: self.cell(SOURCE_SHA256, row)?,
            bytes: self.cell(SOURCE_BYTES, row)?,
            recorded_at: Micros(self.cell(SOURCE_RECORDED_AT, row)?),
            recorded_by: self.symbol_at(SOURCE_RECORDED_BY, row)?,
            via: self.symbol_at(SOURCE_VIA, row)?,
        })
    }

    pub(crate) fn edge(&self, row: Row) -> Result<EdgeView<'_>, CorruptionError> {
        let (from, to) = self.edge_nodes(row)?;
        self.edge_between(row, self.node_id(from)?, self.node_id(to)?)
    }

    /// Returns an edge whose endpoints the caller has read, because each version stores them differently.
    pub(super) fn edge_between(
        &self,
        row: Row,
        from: ItemId,
        to: ItemId,
    ) -> Result<EdgeView<'_>, CorruptionError> {
        Ok(EdgeView {
            id: EdgeId(self.cell(EDGE_ID, row)?),
            seq: self.cell(EDGE_SEQ, row)?,
            from,
            to,
            relation: self.symbol_at(EDGE_RELATION, row)?,
            weight: self.cell(EDGE_WEIGHT, row)?,
            source: source_id(self.cell(EDGE_SOURCE, row)?),
            recorded_at: Micros(self.cell(EDGE_RECORDED_AT, row)?),
            recorded_by: self.symbol_at(EDGE_RECORDED_BY, row)?,
            valid_from: optional_time(self.cell(EDGE_VALID_FROM, row)?),
            valid_to: optional_time(self.cell(EDGE_VALID_TO, row)?),
            note: self.text(EDGE_NOTE_OFFSETS, EDGE_NOTE_BYTES, row)?,
        })
    }

    pub(crate) fn tombstone(&self, row: Row) -> Result<TombstoneView<'_>, CorruptionError> {
        let flags: u8 = self.cell(TOMBSTONE_FLAGS, row)?;
        if flags & !(FLAG_ERASE | FLAG_TARGET_ERASED) != 0 {
            let detail = format!("row {row}: unknown flags {flags:#x}");
            return Err(self.damage("SEG-15", TOMBSTONE_FLAGS, detail));
        }
        Ok(TombstoneView {
            erase: flags & FLAG_ERASE != 0,
            target_erased: flags & FLAG_TARGET_ERASED != 0,
            supersedes: self.erased_supersedes(row)?.iter().copied().map(ItemId).collect(),
            ..self.tombstone_v1(row)?
        })
    }

    pub(crate) fn tombstone_target(&self, row: Row) -> Result<u128, CorruptionError> {
        self.cell(TOMBSTONE_TARGET, row)
    }

    /// Returns the items that the erased target of a tombstone superseded.
    pub(crate) fn erased_supersedes(&self, row: Row) -> Result<&[u128], CorruptionError> {
        self.list(TOMBSTONE_SUPERSEDES_OFFSETS, TOMBSTONE_SUPERSEDES_IDS, row)
    }

    /// Returns a tombstone of version 1, which has neither flags nor a list of superseded items.
    pub(super) fn tombstone_v1(&self, row: Row) -> Result<TombstoneView<'_>, CorruptionError> {
        Ok(TombstoneView {
            target: self.cell(TOMBSTONE_TARGET, row)?,
            seq: self.cell(TOMBSTONE_SEQ, row)?,
            at: Micros(self.cell(TOMBSTONE_AT, row)?),
            by: self.symbol_at(TOMBSTONE_BY, row)?,
            reason: self.text(TOMBSTONE_REASON_OFFSETS, TOMBSTONE_REASON_BYTES, row)?,
            erase: false,
            target_erased: false,
            supersedes: Vec::new(),
        })
    }
}

fn to_owned_strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

impl ItemView<'_> {
    /// Converts the item, without its embedding, to a draft that writes an equal row.
    pub(crate) fn to_draft(&self) -> ItemDraft {
        ItemDraft {
            id: Some(self.id),
            reference: self.reference.map(str::to_owned),
            kind: self.kind.to_owned(),
            modality: self.modality.to_owned(),
            title: self.title.to_owned(),
            text: self.text.to_owned(),
            attributes: self.attributes.to_owned(),
            tags: to_owned_strings(&self.tags),
            gates: to_owned_strings(&self.gates),
            supersedes: self.supersedes.clone(),
            source: self.source,
            span: self.span,
            recorded_at: Some(self.recorded_at),
            recorded_by: self.recorded_by.to_owned(),
            via: self.via.to_owned(),
            valid_from: self.valid_from,
            valid_to: self.valid_to,
            sensitivity: self.sensitivity,
            searchable: self.searchable,
            embedding: Vec::new(),
        }
    }
}

impl SourceView<'_> {
    pub(crate) fn to_draft(&self) -> SourceDraft {
        SourceDraft {
            id: Some(self.id),
            kind: self.kind.to_owned(),
            uri: self.uri.to_owned(),
            title: self.title.to_owned(),
            content_sha256: self.content_sha256,
            bytes: self.bytes,
            recorded_at: Some(self.recorded_at),
            recorded_by: self.recorded_by.to_owned(),
            via: self.via.to_owned(),
        }
    }
}

impl EdgeView<'_> {
    pub(crate) fn to_draft(&self) -> EdgeDraft {
        EdgeDraft {
            id: Some(self.id),
            from: self.from,
            to: self.to,
            relation: self.relation.to_owned(),
            weight: self.weight,
            source: self.source,
            recorded_at: Some(self.recorded_at),
            recorded_by: self.recorded_by.to_owned(),
            valid_from: self.valid_from,
            valid_to: self.valid_to,
            note: self.note.to_owned(),
        }
    }
}

impl TombstoneView<'_> {
    pub(crate) fn to_draft(&self) -> TombstoneDraft {
        TombstoneDraft {
            target: self.target,
            at: Some(self.at),
            by: self.by.to_owned(),
            reason: self.reason.to_owned(),
            erase: self.erase,
            target_erased: self.target_erased,
            supersedes: self.supersedes.clone(),
        }
    }
}
