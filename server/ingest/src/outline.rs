//! Records of one document: its item, its chunks, and the older chunks that they supersede.

use std::collections::{HashMap, VecDeque};

use engine::limits::TITLE_BYTES_MAX;
use engine::{
    Batch, CorruptionError, EdgeDraft, ItemDraft, ItemId, Model, Sensitivity, Snapshot,
    SourceDraft, SourceId, Span, Status,
};
use half::f16;
use serde_json::json;

use super::held::Held;
use recalld_common::names;
use recalld_documents::Document;
use recalld_documents::chunk::{Chunk, headings};

/// Maximum number of characters of a document's own text: its fields and headings.
const OUTLINE_CHARS_MAX: usize = 2_000;
/// Attribute of a document with the requested sensitivity, set if a secret raised the stored one.
pub(super) const ASKED: &str = "sensitivity_asked";
/// Source kinds: a file below a root, and a text sent by a client.
pub(super) const FROM_FILE: &str = "file";
pub(super) const FROM_CLIENT: &str = "given";
/// Weight of the edge from a chunk to its document.
const PART_OF_WEIGHT: f32 = 0.5;

/// A document ready to be stored.
pub(super) struct Prepared {
    /// Path below the root, for links.
    pub(super) relative: String,
    pub(super) root: String,
    /// Kind of the source.
    pub(super) from: &'static str,
    pub(super) uri: String,
    pub(super) bytes: u64,
    pub(super) sha256: [u8; 32],
    /// SHA-256 of an image's sidecar text, in hex.
    pub(super) beside: Option<String>,
    pub(super) document: Document,
    pub(super) chunks: Vec<Chunk>,
    /// Title and text hash of each chunk, by which chunks of two versions are compared.
    pub(super) named: Vec<(String, [u8; 32])>,
    /// The existing version.
    pub(super) older: Option<Older>,
    /// Requested sensitivity of the items.
    pub(super) sensitivity: Sensitivity,
    /// True if the existing version was requested with a higher sensitivity.
    pub(super) is_lowered: bool,
    /// Secret findings in the document.
    pub(super) held: Held,
}

/// The existing version that a document replaces.
pub(super) struct Older {
    pub(super) document: ItemId,
    /// Chunks in order, with heading and hash of the embedded text.
    chunks: Vec<OldChunk>,
    /// Model of the chunks' embeddings.
    model: Option<Model>,
    /// Number of versions so far.
    pub(super) version: u64,
}

struct OldChunk {
    id: ItemId,
    title: String,
    sha256: [u8; 32],
    embedding: Vec<f16>,
}

impl Older {
    /// Loads the current chunks of one version of a file.
    pub(super) fn of(
        snapshot: &Snapshot,
        source: SourceId,
        document: ItemId,
        version: u64,
    ) -> Result<Self, CorruptionError> {
        let mut chunks = Vec::new();
        for place in snapshot.items_by_source(source)? {
            let item = snapshot.item(place)?;
            if item.kind == "chunk" && snapshot.status(place)? == Status::Current {
                chunks.push(OldChunk {
                    id: item.id,
                    title: item.title.to_owned(),
                    sha256: item.content_sha256,
                    embedding: snapshot.embedding(place)?.unwrap_or_default().to_vec(),
                });
            }
        }
        Ok(Self { document, chunks, model: snapshot.model(), version })
    }

    /// Pairs each new chunk with the old chunk that it replaces: first by equal title and text, then, in order, by
    /// equal heading. The second result lists unpaired old chunks.
    fn pair(&self, new: &[(String, [u8; 32])]) -> (Vec<Option<ItemId>>, Vec<ItemId>) {
        let mut same: HashMap<(&str, [u8; 32]), VecDeque<usize>> = HashMap::new();
        for (at, old) in self.chunks.iter().enumerate() {
            same.entry((&old.title, old.sha256)).or_default().push_back(at);
        }
        let mut taken = vec![false; self.chunks.len()];
        let mut pairs: Vec<Option<usize>> = new
            .iter()
            .map(|(title, sha256)| same.get_mut(&(title.as_str(), *sha256))?.pop_front())
            .collect();
        pairs.iter().flatten().for_each(|&at| taken[at] = true);
        let mut titled: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (at, old) in self.chunks.iter().enumerate().filter(|(at, _)| !taken[*at]) {
            titled.entry(&old.title).or_default().push_back(at);
        }
        for (pair, (title, _)) in pairs.iter_mut().zip(new).filter(|(pair, _)| pair.is_none()) {
            *pair = titled.get_mut(title.as_str()).and_then(VecDeque::pop_front);
            pair.iter().for_each(|&at| taken[at] = true);
        }
        let id = |at: usize| self.chunks[at].id;
        let left = (0..taken.len()).filter(|&at| !taken[at]).map(id).collect();
        (pairs.into_iter().map(|pair| pair.map(id)).collect(), left)
    }
}

/// Provenance of a job's items.
#[derive(Clone, Copy)]
pub(super) struct Marks<'a> {
    pub(super) by: &'a str,
    pub(super) via: &'a str,
}

impl Prepared {
    fn title(&self) -> String {
        title(&self.document)
    }

    /// The document's fields and headings, without its text.
    fn outline(&self) -> String {
        let mut lines: Vec<String> =
            self.document.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        for section in &self.document.sections {
            lines.extend(section.heading_path.last().cloned());
        }
        lines.dedup();
        let text = lines.join("\n");
        text.chars().take(OUTLINE_CHARS_MAX).collect()
    }

    /// For each chunk, the embedding of an older chunk with the same title, text and model.
    fn known_embeddings(&self, model: Model) -> Vec<Option<&[f16]>> {
        let mut known: HashMap<(&str, [u8; 32]), &[f16]> = HashMap::new();
        let older = self.older.iter().filter(|older| older.model == Some(model));
        for old in older.flat_map(|older| &older.chunks) {
            if !old.embedding.is_empty() {
                known.entry((&old.title, old.sha256)).or_insert(&old.embedding);
            }
        }
        self.named.iter().map(|(title, sha256)| known.get(&(title, *sha256)).copied()).collect()
    }

    /// Builds all records of the document as one batch, reusing embeddings of `model` from the older version.
    pub(super) fn batch(
        &self,
        ids: &mut dyn FnMut() -> ItemId,
        model: Model,
        marks: Marks<'_>,
    ) -> (Batch, ItemId) {
        let source = SourceId(ids().0);
        let document = ids();
        let (replaced, orphans) = match &self.older {
            Some(older) => older.pair(&self.named),
            None => (vec![None; self.named.len()], Vec::new()),
        };
        let mut batch = Batch { sources: vec![self.source(source, marks)], ..Batch::default() };
        batch.items.push(self.document_item(document, source, marks));
        let named = self.chunks.iter().zip(&self.named).zip(self.known_embeddings(model));
        for (at, (((chunk, (title, _)), known), replaced)) in named.zip(replaced).enumerate() {
            let mut item = self.chunk_item(chunk, title.clone(), (document, source), marks);
            item.sensitivity = self.held.raise(at, title, self.sensitivity);
            item.embedding = known.unwrap_or_default().to_vec();
            let id = ids();
            batch.edges.push(part_of(id, document, source, marks));
            let supersedes = replaced.into_iter().collect();
            batch.items.push(ItemDraft { id: Some(id), supersedes, ..item });
        }
        // Old chunks without a counterpart are superseded by the document itself.
        batch.items[0].supersedes.extend(orphans);
        (batch, document)
    }

    fn source(&self, id: SourceId, marks: Marks<'_>) -> SourceDraft {
        SourceDraft {
            id: Some(id),
            kind: self.from.to_owned(),
            uri: self.uri.clone(),
            title: self.title(),
            content_sha256: self.sha256,
            bytes: self.bytes,
            recorded_by: marks.by.to_owned(),
            via: marks.via.to_owned(),
            ..SourceDraft::default()
        }
    }

    fn document_item(&self, id: ItemId, source: SourceId, marks: Marks<'_>) -> ItemDraft {
        let lines = self.chunks.last().map_or(0, |chunk| chunk.line_end);
        let (headings, is_cut) = headings(&self.document);
        let mut attributes = json!({
            "path": self.relative, "root": self.root, "format": self.document.format.name(),
            "bytes": self.bytes, "chunks": self.chunks.len(),
            "version": self.older.as_ref().map_or(1, |older| older.version + 1),
            "notes": self.document.notes, "headings": headings,
            "headings_cut": is_cut.then_some(true),
        });
        if let Some(beside) = &self.beside {
            attributes["beside_sha256"] = beside.as_str().into();
        }
        let (title, text) = (self.title(), self.outline());
        let told = [&*title, &text, &attributes.to_string()].map(recalld_secret_scan::first);
        let sensitivity = match told.iter().flatten().next() {
            Some(_) => self.sensitivity.max(recalld_secret_scan::SENSITIVITY),
            None => self.sensitivity,
        };
        if sensitivity > self.sensitivity {
            attributes[ASKED] = self.sensitivity.name().into();
        }
        ItemDraft {
            id: Some(id),
            kind: "document".to_owned(),
            title,
            text,
            sensitivity,
            attributes: attributes.to_string(),
            supersedes: self.older.iter().map(|older| older.document).collect(),
            span: (lines > 0).then_some(Span {
                byte_start: 0,
                byte_end: self.bytes,
                line_start: 1,
                line_end: lines,
            }),
            ..self.item(source, marks)
        }
    }

    fn chunk_item(
        &self,
        chunk: &Chunk,
        title: String,
        (document, source): (ItemId, SourceId),
        marks: Marks<'_>,
    ) -> ItemDraft {
        let attributes = json!({
            "document": names::item("document", document), "ordinal": chunk.ordinal,
            "symbol": chunk.symbol,
        });
        ItemDraft {
            kind: "chunk".to_owned(),
            title,
            text: chunk.text.clone(),
            attributes: attributes.to_string(),
            span: Some(Span {
                byte_start: chunk.byte_start,
                byte_end: chunk.byte_end,
                line_start: chunk.line_start,
                line_end: chunk.line_end,
            }),
            ..self.item(source, marks)
        }
    }

    /// Common fields of the document and its chunks.
    fn item(&self, source: SourceId, marks: Marks<'_>) -> ItemDraft {
        ItemDraft {
            modality: self.document.modality.to_owned(),
            source: Some(source),
            recorded_by: marks.by.to_owned(),
            via: marks.via.to_owned(),
            sensitivity: self.sensitivity,
            searchable: true,
            ..ItemDraft::default()
        }
    }
}

fn title(document: &Document) -> String {
    cut(&document.title, TITLE_BYTES_MAX / 4)
}

pub(super) fn named(document: &Document, chunks: &[Chunk]) -> Vec<(String, [u8; 32])> {
    let name = |chunk: &Chunk| {
        (chunk_title(document, chunk), recalld_fs_util::uri::sha256(chunk.text.as_bytes()))
    };
    chunks.iter().map(name).collect()
}

fn chunk_title(document: &Document, chunk: &Chunk) -> String {
    let mut title = title(document);
    let headings = chunk.heading_path.iter().filter(|heading| **heading != title);
    let headings: Vec<&str> = headings.map(String::as_str).collect();
    for part in headings.into_iter().chain(chunk.symbol.as_deref()) {
        title.push_str(" > ");
        title.push_str(part);
    }
    cut(&title, TITLE_BYTES_MAX)
}

fn part_of(chunk: ItemId, document: ItemId, source: SourceId, marks: Marks<'_>) -> EdgeDraft {
    EdgeDraft {
        id: None,
        from: chunk,
        to: document,
        relation: "part_of".to_owned(),
        weight: PART_OF_WEIGHT,
        source: Some(source),
        recorded_at: None,
        recorded_by: marks.by.to_owned(),
        valid_from: None,
        valid_to: None,
        note: String::new(),
    }
}

/// The longest prefix of `text` within `bytes_max` bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}
