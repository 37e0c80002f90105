//! Observation: everything visible in a store, in a form that is cheap to compare.
//!
//! Rows are converted back to the drafts that they were written from, so a field that changes on its way through log,
//! segment and merge is detected. Row addresses are left out, since sealing changes them.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    CorruptionError, Direction, EdgeDraft, EdgeFilter, EdgeId, EdgeView, Filter, ItemDraft, ItemId,
    ItemView, Model, NEIGHBOURS_MAX, SearchError, Seq, Snapshot, SourceDraft, SourceId, SourceView,
    TombstoneDraft,
};

use crate::listing::ALL;

/// A word of every searchable item.
pub const EVERYONE: &str = "everyone";
/// Author of erasures, whose time is the store's own.
pub const ERASER: &str = "eraser";

/// An edge as seen from an item.
pub type Near = (EdgeId, Direction, ItemId);

/// An item with its status and edges.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownItem {
    /// Sequence number of the item's commit.
    pub seq: Seq,
    /// The item as it was written.
    pub draft: ItemDraft,
    /// `current`, `superseded` or `tombstoned`.
    pub status: &'static str,
    /// The item's edges.
    pub near: Vec<Near>,
}

/// Successors and chain of an item, unchanged by the erasure of any member.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownChain {
    /// The current successors.
    pub successors: Vec<ItemId>,
    /// All members of the chain, the item itself included.
    pub members: BTreeSet<ItemId>,
}

/// A source with its items.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownSource {
    /// Sequence number of the source's commit.
    pub seq: Seq,
    /// The source as it was written.
    pub draft: SourceDraft,
    /// Items that reference the source.
    pub items: Vec<ItemId>,
    /// Sources of the same URI.
    pub versions: Vec<SourceId>,
}

/// Everything visible in a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Sequence number of the newest commit.
    pub seq: Seq,
    /// The encoder that the store is bound to.
    pub model: Option<Model>,
    /// Counts of items, superseded, tombstoned, edges, sources, vectors.
    pub counts: [u64; 6],
    /// Items in order of writing.
    pub items: Vec<ShownItem>,
    /// Sources by id.
    pub sources: BTreeMap<SourceId, ShownSource>,
    /// Edges by id, with their commits; no tombstoned ones.
    pub edges: BTreeMap<EdgeId, (Seq, EdgeDraft)>,
    /// Tombstones by target, with their commits.
    pub tombstones: BTreeMap<u128, Vec<(Seq, TombstoneDraft)>>,
    /// Chains of all items, erased ones included.
    pub chains: BTreeMap<ItemId, ShownChain>,
    /// Holders of refs.
    pub refs: BTreeMap<String, ItemId>,
    /// Results of [`EVERYONE`], and its current results, by id.
    pub found: [Vec<ItemId>; 2],
}

/// Names of objects that a snapshot returns only on request.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Ids of items, possibly erased ones included.
    pub items: Vec<ItemId>,
    /// Ids of sources, possibly missing ones included.
    pub sources: Vec<SourceId>,
    /// Ids of edges.
    pub edges: Vec<EdgeId>,
    /// Refs of items.
    pub refs: BTreeSet<String>,
    /// Targets of tombstones, with a row or without.
    pub targets: Vec<u128>,
}

impl Shown {
    /// Reads all of a snapshot. Also checks that every item is found by its id.
    pub fn of(snapshot: &Snapshot, names: &Names) -> Result<Self, SearchError> {
        let counts = snapshot.row_counts()?;
        let mut shown = Self {
            seq: snapshot.seq(),
            model: snapshot.model(),
            counts: [
                counts.items,
                counts.superseded,
                counts.tombstoned,
                counts.edges,
                counts.sources,
                counts.vectors,
            ],
            items: Vec::new(),
            sources: BTreeMap::new(),
            edges: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            chains: BTreeMap::new(),
            refs: BTreeMap::new(),
            found: [found(snapshot, false)?, found(snapshot, true)?],
        };
        let mut targets: Vec<u128> = names.edges.iter().map(|id| id.0).collect();
        targets.extend(&names.targets);
        for place in snapshot.item_addresses()? {
            let view = snapshot.item(place)?;
            if snapshot.find(view.id)? != Some(place) {
                return Err(CorruptionError::new(
                    "none",
                    format!("{} is not where it is", view.id),
                )
                .into());
            }
            targets.push(view.id.0);
            let embedding = snapshot.embedding(place)?;
            let mut near = Vec::new();
            for one in snapshot.neighbours(view.id, NEIGHBOURS_MAX, &EdgeFilter::default())? {
                near.push((one.edge.id, one.direction, snapshot.id(one.address)?));
            }
            shown.items.push(ShownItem {
                seq: view.seq,
                draft: ItemDraft {
                    embedding: embedding.map(<[_]>::to_vec).unwrap_or_default(),
                    ..item_draft(&view)
                },
                status: snapshot.status(place)?.name(),
                near,
            });
        }
        for &id in &names.sources {
            if let Some(view) = snapshot.source(id)? {
                let items = ids(snapshot, snapshot.items_by_source(id)?)?;
                let versions = snapshot.sources_by_uri(view.uri)?;
                let versions = versions.iter().map(|one| one.id).collect();
                let (seq, draft) = (view.seq, source_draft(&view));
                shown.sources.insert(id, ShownSource { seq, draft, items, versions });
            }
        }
        for &id in &names.edges {
            shown.edges.extend(snapshot.edge(id)?.map(|view| (id, (view.seq, edge_draft(&view)))));
        }
        for target in targets {
            let stones = snapshot.tombstones(target)?;
            let stones = stones.iter().map(|stone| {
                let (by, reason) = (stone.by.to_owned(), stone.reason.to_owned());
                let at = (by != ERASER).then_some(stone.at);
                let (erase, gone) = (stone.erase, stone.target_erased);
                let supersedes = stone.supersedes.clone();
                (
                    stone.seq,
                    TombstoneDraft {
                        target,
                        at,
                        by,
                        reason,
                        erase,
                        target_erased: gone,
                        supersedes,
                    },
                )
            });
            let stones: Vec<_> = stones.collect();
            if !stones.is_empty() {
                shown.tombstones.insert(target, stones);
            }
        }
        for &id in &names.items {
            let members = chain(snapshot, id)?;
            if !members.is_empty() {
                let successors = ids(snapshot, snapshot.current_successors(id)?.addresses)?;
                shown.chains.insert(id, ShownChain { successors, members });
            }
        }
        for reference in &names.refs {
            let place = snapshot.find_ref(reference)?;
            let holder = place.map(|place| snapshot.id(place)).transpose()?;
            shown.refs.extend(holder.map(|id| (reference.clone(), id)));
        }
        Ok(shown)
    }

    /// Returns the observation without rows that are being erased, which may exist or not.
    pub fn without(&self, going: &BTreeSet<u128>) -> Self {
        let mut left = self.clone();
        let stays = |id: u128| !going.contains(&id);
        let id = |item: &ShownItem| item.draft.id.map_or(0, |id| id.0);
        let gone = self.items.iter().filter(|item| !stays(id(item)));
        let [.., tombstoned, edges, sources, vectors] = &mut left.counts;
        *vectors -= gone.clone().filter(|item| !item.draft.embedding.is_empty()).count() as u64;
        *tombstoned -= gone.count() as u64;
        left.items.retain(|item| stays(id(item)));
        left.edges.retain(|id, _| stays(id.0));
        *edges -= (self.edges.len() - left.edges.len()) as u64;
        left.sources.retain(|id, _| stays(id.0));
        *sources -= (self.sources.len() - left.sources.len()) as u64;
        for source in left.sources.values_mut() {
            source.items.retain(|id| stays(id.0));
            source.versions.retain(|id| stays(id.0));
        }
        left
    }

    /// Returns the first difference from `wanted`; `None` if they are equal.
    pub fn differs_from(&self, wanted: &Self) -> Option<String> {
        if self == wanted {
            return None;
        }
        let counts = (self.seq, self.model, self.counts);
        let wanted_counts = (wanted.seq, wanted.model, wanted.counts);
        if counts != wanted_counts {
            return Some(format!("found {counts:?}, wanted {wanted_counts:?}"));
        }
        let items = self.items.iter().zip(&wanted.items);
        if let Some((found, wanted)) = items.into_iter().find(|(found, wanted)| found != wanted) {
            return Some(format!("found {found:?}, wanted {wanted:?}"));
        }
        Some(format!("found {self:?}, wanted {wanted:?}"))
    }
}

/// Returns the members of a chain, after a check that predecessors come before successors, and that members without a
/// row are erased.
fn chain(snapshot: &Snapshot, id: ItemId) -> Result<BTreeSet<ItemId>, CorruptionError> {
    let wrong =
        |why: String| Err(CorruptionError::new("none", format!("the chain of {id}: {why}")));
    let mut before = BTreeSet::new();
    let members = snapshot.chain(id)?.members;
    let all: BTreeSet<ItemId> = members.iter().map(|member| member.id).collect();
    for member in members {
        let list = match member.address {
            Some(place) => snapshot.item(place)?.supersedes,
            None if snapshot.is_erased(member.id.0)? => {
                let stones = snapshot.tombstones(member.id.0)?;
                stones.into_iter().flat_map(|stone| stone.supersedes).collect()
            }
            None => return wrong(format!("{} is neither there nor erased", member.id)),
        };
        let late = list.iter().find(|old| all.contains(*old) && !before.contains(*old));
        if let Some(old) = late {
            return wrong(format!("{old} comes after {}, which replaced it", member.id));
        }
        before.insert(member.id);
    }
    Ok(all)
}

fn ids(
    snapshot: &Snapshot,
    places: Vec<engine::RowAddress>,
) -> Result<Vec<ItemId>, CorruptionError> {
    places.into_iter().map(|place| snapshot.id(place)).collect()
}

fn found(snapshot: &Snapshot, current_only: bool) -> Result<Vec<ItemId>, SearchError> {
    let filter = Filter { current_only, ..Filter::default() };
    let hits = snapshot.search_words(EVERYONE, ALL, &filter)?;
    let mut found = ids(snapshot, hits.into_iter().map(|hit| hit.address).collect())?;
    found.sort_unstable();
    Ok(found)
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn item_draft(view: &ItemView<'_>) -> ItemDraft {
    ItemDraft {
        id: Some(view.id),
        reference: view.reference.map(str::to_owned),
        kind: view.kind.to_owned(),
        modality: view.modality.to_owned(),
        title: view.title.to_owned(),
        text: view.text.to_owned(),
        attributes: view.attributes.to_owned(),
        tags: owned(&view.tags),
        gates: owned(&view.gates),
        supersedes: view.supersedes.clone(),
        source: view.source,
        span: view.span,
        recorded_at: Some(view.recorded_at),
        recorded_by: view.recorded_by.to_owned(),
        via: view.via.to_owned(),
        valid_from: view.valid_from,
        valid_to: view.valid_to,
        sensitivity: view.sensitivity,
        searchable: view.searchable,
        embedding: Vec::new(),
    }
}

fn source_draft(view: &SourceView<'_>) -> SourceDraft {
    SourceDraft {
        id: Some(view.id),
        kind: view.kind.to_owned(),
        uri: view.uri.to_owned(),
        title: view.title.to_owned(),
        content_sha256: view.content_sha256,
        bytes: view.bytes,
        recorded_at: Some(view.recorded_at),
        recorded_by: view.recorded_by.to_owned(),
        via: view.via.to_owned(),
    }
}

fn edge_draft(view: &EdgeView<'_>) -> EdgeDraft {
    EdgeDraft {
        id: Some(view.id),
        from: view.from,
        to: view.to,
        relation: view.relation.to_owned(),
        weight: view.weight,
        source: view.source,
        recorded_at: Some(view.recorded_at),
        recorded_by: view.recorded_by.to_owned(),
        valid_from: view.valid_from,
        valid_to: view.valid_to,
        note: view.note.to_owned(),
    }
}
