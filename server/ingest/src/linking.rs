//! Resolves links between files into edges.
//!
//! Owns the resolution of links after all files of a job are stored, and the batching of edges. Must not know how a
//! file is read or stored.

use std::collections::{BTreeMap, HashMap};

use engine::{
    Batch, CorruptionError, Direction, EdgeDraft, EdgeFilter, ItemId, NEIGHBOURS_MAX, SearchError,
    Snapshot, Status, Store,
};

use super::job::JobError;
use super::links::candidates;
use super::stored::document_of;
use recalld_documents::Link;
use recalld_fs_util::uri;

/// Weight of a link between files.
const LINK_WEIGHT: f32 = 0.8;
/// Relation of a link between files.
const LINKS_TO: &str = "links_to";
/// Maximum number of links of one document that become edges.
const LINKS_MAX: usize = 1_000;
/// Number of pending edges that triggers a write.
const EDGES_TOGETHER: usize = 4_096;

/// Id, first and last line of a chunk.
pub(super) type Piece = (ItemId, u32, u32);

/// A stored document with unresolved links.
pub(super) struct Unlinked {
    pub(super) document: ItemId,
    /// Documents that this document replaced, whose incoming links are transferred.
    pub(super) older: Vec<ItemId>,
    /// Path below the root.
    pub(super) relative: String,
    pub(super) root: String,
    pub(super) links: Vec<Link>,
    pub(super) chunks: Vec<Piece>,
}

impl Unlinked {
    /// Each link with the chunk that contains the link, or with the document if there is no such chunk.
    fn links(&self) -> impl Iterator<Item = (ItemId, &Link)> {
        self.links.iter().map(|link| {
            let holds = |chunk: &&Piece| (chunk.1..=chunk.2).contains(&link.line);
            (self.chunks.iter().find(holds).map_or(self.document, |chunk| chunk.0), link)
        })
    }
}

/// Edges by source and target.
type Edges = BTreeMap<(ItemId, ItemId), EdgeDraft>;

/// Resolves the links of one document after the other.
pub(super) struct Linking<'a> {
    store: &'a Store,
    /// Snapshot after all files are stored; lacks only the pending edges.
    snapshot: Snapshot,
    /// Documents by URI, including failed lookups.
    known: HashMap<String, Option<ItemId>>,
    /// Pending edges by source and target.
    edges: Edges,
    by: &'a str,
    /// Number of edges written.
    made: u64,
}

impl<'a> Linking<'a> {
    pub(super) fn new(store: &'a Store, by: &'a str) -> Self {
        let snapshot = store.snapshot();
        Self { store, snapshot, known: HashMap::new(), edges: Edges::new(), by, made: 0 }
    }

    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Adds the missing edges of a document.
    pub(super) fn link(&mut self, one: &Unlinked) -> Result<(), JobError> {
        let mut edges = Edges::new();
        for (from, link) in one.links() {
            for relative in candidates(link, &one.relative) {
                let path = format!("{}/{relative}", one.root.trim_end_matches('/'));
                let to = self.document_at(&path)?;
                if let Some(to) = to.filter(|&to| to != one.document) {
                    let edge = || edge(from, to, &link.label, self.by);
                    edges.entry((from, to)).or_insert_with(edge);
                    break;
                }
            }
            if edges.len() >= LINKS_MAX {
                break;
            }
        }
        self.keep_incoming(one, &mut edges)?;
        for ((from, to), edge) in edges {
            if !self.edges.contains_key(&(from, to)) && !is_linked(&self.snapshot, from, to)? {
                self.edges.insert((from, to), edge);
            }
        }
        if self.edges.len() >= EDGES_TOGETHER { self.write() } else { Ok(()) }
    }

    /// Number of edges written.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Writes the pending edges.
    pub(super) fn write(&mut self) -> Result<(), JobError> {
        let edges: Vec<EdgeDraft> = std::mem::take(&mut self.edges).into_values().collect();
        if !edges.is_empty() {
            let made = edges.len() as u64;
            self.store.write(Batch { edges, ..Batch::default() })?;
            self.made += made;
            self.snapshot = self.store.snapshot();
        }
        Ok(())
    }

    fn document_at(&mut self, path: &str) -> Result<Option<ItemId>, CorruptionError> {
        let uri = uri::of_path(path);
        if let Some(&known) = self.known.get(&uri) {
            return Ok(known);
        }
        let document = document_of(&self.snapshot, &uri)?;
        self.known.insert(uri, document);
        Ok(document)
    }

    /// Adds links to old versions of a document as links to the new version.
    fn keep_incoming(&self, one: &Unlinked, edges: &mut Edges) -> Result<(), JobError> {
        let links = EdgeFilter { current_only: true, ..links(Direction::In) };
        for &older in &one.older {
            for neighbour in self.snapshot.neighbours(older, NEIGHBOURS_MAX, &links)? {
                let from = neighbour.edge.from;
                let edge = || edge(from, one.document, neighbour.edge.note, self.by);
                edges.entry((from, one.document)).or_insert_with(edge);
            }
        }
        Ok(())
    }
}

/// Returns true if the edge exists. Superseded targets are skipped, so links to many old versions do not exhaust the
/// limit; except if `to` itself is superseded, by something other than a new version of its file.
fn is_linked(snapshot: &Snapshot, from: ItemId, to: ItemId) -> Result<bool, SearchError> {
    let Some(place) = snapshot.find(to)? else { return Ok(false) };
    let current_only = snapshot.status(place)? == Status::Current;
    let which = EdgeFilter { current_only, ..links(Direction::Out) };
    let neighbours = snapshot.neighbours(from, NEIGHBOURS_MAX, &which)?;
    Ok(neighbours.iter().any(|one| one.edge.to == to))
}

/// Filter for links of this direction.
fn links(direction: Direction) -> EdgeFilter {
    let relations = vec![LINKS_TO.to_owned()];
    EdgeFilter { relations, direction: Some(direction), ..EdgeFilter::default() }
}

fn edge(from: ItemId, to: ItemId, note: &str, by: &str) -> EdgeDraft {
    const NOTE_BYTES: usize = 200;
    EdgeDraft {
        id: None,
        from,
        to,
        relation: LINKS_TO.to_owned(),
        weight: LINK_WEIGHT,
        source: None,
        recorded_at: None,
        recorded_by: by.to_owned(),
        valid_from: None,
        valid_to: None,
        note: super::outline::cut(note, NOTE_BYTES),
    }
}
