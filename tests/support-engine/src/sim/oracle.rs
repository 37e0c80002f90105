//! The expected contents of a store: plain lists of the written rows, in order.
//!
//! The oracle knows the meaning of rows (current items, holders of refs, ends of edges), independent of files and
//! segments.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    Batch, Direction, EdgeDraft, ItemDraft, ItemId, Model, Seq, SourceDraft, TombstoneDraft,
};

use super::shown::{Names, Near, Shown, ShownChain, ShownItem, ShownSource};
use crate::other_model::OtherModel;

/// Everything written up to some moment. Every draft has its id and its time.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    seq: Seq,
    model: Option<Model>,
    items: Vec<(Seq, ItemDraft)>,
    sources: Vec<(Seq, SourceDraft)>,
    edges: Vec<(Seq, EdgeDraft)>,
    tombstones: Vec<(Seq, TombstoneDraft)>,
    /// Rows ever written, erased ones included.
    written: usize,
    /// Names of all objects ever written.
    named: Names,
    /// Objects to be erased, which may exist in part.
    pending: BTreeSet<u128>,
    /// Erased items, with the items that each replaced: chains continue through them.
    erased: BTreeMap<ItemId, Vec<ItemId>>,
    /// Marks of erased bytes, which no file may contain.
    gone: BTreeSet<u64>,
}

fn id(item: &ItemDraft) -> ItemId {
    item.id.expect("every draft of a simulation has its id")
}

impl Oracle {
    /// Applies the next commit.
    pub fn write(&mut self, batch: &Batch) {
        self.seq += 1;
        let seq = self.seq;
        self.items.extend(batch.items.iter().cloned().map(|item| (seq, item)));
        self.sources.extend(batch.sources.iter().cloned().map(|source| (seq, source)));
        self.edges.extend(batch.edges.iter().cloned().map(|edge| (seq, edge)));
        for stone in &batch.tombstones {
            let mut stone = stone.clone();
            if stone.erase {
                stone.supersedes = self.replaced_by(ItemId(stone.target));
            }
            self.tombstones.push((seq, stone));
        }
        self.written += batch.record_count();
        self.named.sources.extend(batch.sources.iter().filter_map(|source| source.id));
        self.named.items.extend(batch.items.iter().filter_map(|item| item.id));
        self.named.edges.extend(batch.edges.iter().filter_map(|edge| edge.id));
        self.named.refs.extend(batch.items.iter().filter_map(|item| item.reference.clone()));
        self.named.targets.extend(batch.tombstones.iter().map(|stone| stone.target));
        let erasures = batch.tombstones.iter().filter(|stone| stone.erase);
        self.pending.extend(erasures.map(|stone| stone.target));
    }

    /// Returns true if an erasure has begun and not ended.
    pub fn is_erasing(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Marks of everything erased, made by [`super::step::mark`] and [`super::step::embedding_mark`].
    pub fn gone(&self) -> &BTreeSet<u64> {
        &self.gone
    }

    /// Items that an existing item replaced.
    fn replaced_by(&self, of: ItemId) -> Vec<ItemId> {
        let item = self.items().find(|item| id(item) == of);
        item.map(|item| item.supersedes.clone()).unwrap_or_default()
    }

    /// Returns everything that an erasure removes: its targets, the edges of its items, and the sources that only
    /// removed rows reference.
    pub fn going(&self) -> BTreeSet<u128> {
        let mut ids = self.pending.clone();
        let goes = |ids: &BTreeSet<u128>, edge: &EdgeDraft| {
            edge.id.is_some_and(|id| ids.contains(&id.0))
                || ids.contains(&edge.from.0)
                || ids.contains(&edge.to.0)
        };
        let edges: Vec<u128> = self
            .edges()
            .filter(|edge| goes(&self.pending, edge))
            .filter_map(|edge| edge.id.map(|id| id.0))
            .collect();
        let items = self.items().filter(|item| ids.contains(&id(item).0));
        let of_edges = self.edges().filter(|edge| goes(&self.pending, edge));
        let of_edges = of_edges.filter_map(|edge| edge.source);
        let named: BTreeSet<_> = items.filter_map(|item| item.source).chain(of_edges).collect();
        let stays = |source: &engine::SourceId| {
            let source = Some(*source);
            let by_item = self.items().any(|it| it.source == source && !ids.contains(&id(it).0));
            by_item || self.edges().any(|it| it.source == source && !goes(&self.pending, it))
        };
        let sources: Vec<u128> =
            named.into_iter().filter(|it| !stays(it)).map(|source| source.0).collect();
        ids.extend(edges.into_iter().chain(sources));
        ids
    }

    /// Completes all pending erasures.
    pub fn erase(&mut self) {
        let ids = self.going();
        self.gone.extend(ids.iter().map(|&id| super::step::mark(id)));
        for (_, item) in self.items.iter().filter(|(_, item)| ids.contains(&id(item).0)) {
            self.erased.insert(id(item), item.supersedes.clone());
            self.gone.extend(super::step::embedding_mark(item));
        }
        self.items.retain(|(_, item)| !ids.contains(&id(item).0));
        self.edges.retain(|(_, edge)| edge.id.is_none_or(|id| !ids.contains(&id.0)));
        self.sources.retain(|(_, source)| source.id.is_none_or(|id| !ids.contains(&id.0)));
        self.pending.clear();
    }

    /// Binds the store to an encoder.
    pub fn bind(&mut self, model: Model) {
        self.model = Some(model);
    }

    /// Replaces every embedding by that of another model, to which the store is bound from now on.
    pub fn move_to(&mut self, encoder: OtherModel) {
        self.model = Some(encoder.model());
        for (_, item) in self.items.iter_mut().filter(|(_, item)| !item.embedding.is_empty()) {
            item.embedding = encoder.embedding(id(item));
        }
    }

    /// The encoder that the store is bound to.
    pub fn model(&self) -> Option<Model> {
        self.model
    }

    /// Number of rows of all kinds ever written, from which ids are made.
    pub fn rows(&self) -> usize {
        self.written
    }

    /// All items.
    pub fn items(&self) -> impl ExactSizeIterator<Item = &ItemDraft> {
        self.items.iter().map(|(_, item)| item)
    }

    /// All sources.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = &SourceDraft> {
        self.sources.iter().map(|(_, source)| source)
    }

    /// All edges.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = &EdgeDraft> {
        self.edges.iter().map(|(_, edge)| edge)
    }

    fn hidden(&self) -> BTreeSet<u128> {
        self.tombstones.iter().map(|(_, stone)| stone.target).collect()
    }

    fn replaced(&self) -> BTreeMap<ItemId, BTreeSet<ItemId>> {
        let mut newer: BTreeMap<ItemId, BTreeSet<ItemId>> = BTreeMap::new();
        let there = self.items().map(|item| (id(item), &item.supersedes));
        for (item, list) in there.chain(self.erased.iter().map(|(&id, list)| (id, list))) {
            for &old in list {
                newer.entry(old).or_default().insert(item);
            }
        }
        newer
    }

    /// Items that are not tombstoned.
    pub fn standing(&self) -> Vec<ItemId> {
        let hidden = self.hidden();
        self.items().map(id).filter(|id| !hidden.contains(&id.0)).collect()
    }

    /// The holder of a ref: the newest current item that has it.
    pub fn holder(&self, reference: &str) -> Option<ItemId> {
        let (hidden, newer) = (self.hidden(), self.replaced());
        let named = self.items().filter(|item| item.reference.as_deref() == Some(reference));
        let current = |id: &ItemId| !hidden.contains(&id.0) && !newer.contains_key(id);
        named.map(id).filter(current).last()
    }

    /// Names for an observation of the whole store, erased objects included.
    pub fn names(&self) -> Names {
        self.named.clone()
    }

    /// The expected observation.
    pub fn shown(&self) -> Shown {
        let (hidden, newer) = (self.hidden(), self.replaced());
        let status = |id: ItemId| match () {
            () if hidden.contains(&id.0) => "tombstoned",
            () if newer.contains_key(&id) => "superseded",
            () => "current",
        };
        let is_hidden = |id: ItemId| hidden.contains(&id.0);
        let items = self.items.iter().map(|(seq, draft)| ShownItem {
            seq: *seq,
            draft: draft.clone(),
            status: status(id(draft)),
            near: self.near(id(draft), &hidden),
        });
        let items: Vec<ShownItem> = items.collect();
        let of = |wanted| items.iter().filter(|item| item.status == wanted).count() as u64;
        let mut found = Vec::new();
        for current_only in [false, true] {
            let mut ids: Vec<ItemId> = items
                .iter()
                .filter(|item| item.draft.searchable && !is_hidden(id(&item.draft)))
                .filter(|item| !current_only || item.status == "current")
                .map(|item| id(&item.draft))
                .collect();
            ids.sort_unstable();
            found.push(ids);
        }
        let edges = self.edges.iter().filter_map(|(seq, edge)| {
            let id = edge.id.expect("every draft of a simulation has its id");
            (!hidden.contains(&id.0)).then(|| (id, (*seq, edge.clone())))
        });
        let edges: BTreeMap<_, _> = edges.collect();
        let mut tombstones: BTreeMap<u128, Vec<_>> = BTreeMap::new();
        for (seq, stone) in &self.tombstones {
            tombstones.entry(stone.target).or_default().push((*seq, stone.clone()));
        }
        let refs = self.named.refs.iter().filter_map(|reference| {
            let holder = self.holder(reference)?;
            Some((reference.clone(), holder))
        });
        let vectors = self.items().filter(|item| !item.embedding.is_empty()).count() as u64;
        let [all, current] = found.try_into().expect("two were made");
        Shown {
            seq: self.seq,
            model: self.model,
            counts: [
                items.len() as u64 - of("tombstoned"),
                of("superseded"),
                of("tombstoned"),
                edges.len() as u64,
                self.sources.len() as u64,
                vectors,
            ],
            sources: self.shown_sources(),
            items,
            edges,
            tombstones,
            chains: self.chains(&newer, status),
            refs: refs.collect(),
            found: [all, current],
        }
    }

    /// Computes the current successors and the chain of every item ever written.
    fn chains(
        &self,
        newer: &BTreeMap<ItemId, BTreeSet<ItemId>>,
        status: impl Fn(ItemId) -> &'static str,
    ) -> BTreeMap<ItemId, ShownChain> {
        let mut older = self.erased.clone();
        older.extend(self.items().map(|item| (id(item), item.supersedes.clone())));
        let reached = |from: ItemId, step: &dyn Fn(ItemId) -> Vec<ItemId>| {
            let mut reached = BTreeSet::new();
            let mut ahead = vec![from];
            while let Some(next) = ahead.pop() {
                ahead.extend(step(next).into_iter().filter(|&id| reached.insert(id)));
            }
            reached
        };
        let chain = |&id: &ItemId| {
            let after = reached(id, &|id| newer.get(&id).into_iter().flatten().copied().collect());
            let mut members = reached(id, &|id| older.get(&id).cloned().unwrap_or_default());
            members.extend(&after);
            members.insert(id);
            let successors = after.into_iter().filter(|&id| status(id) == "current").collect();
            (id, ShownChain { successors, members })
        };
        older.keys().map(chain).collect()
    }

    /// Strongest first, then in order of edges; an edge to itself is listed first as outgoing, then as incoming.
    fn near(&self, id: ItemId, hidden: &BTreeSet<u128>) -> Vec<Near> {
        let mut near = Vec::new();
        for edge in self.edges() {
            let edge_id = edge.id.expect("every draft of a simulation has its id");
            let ends = [(edge.from, edge.to, Direction::Out), (edge.to, edge.from, Direction::In)];
            for (here, other, direction) in ends {
                let is_seen = !hidden.contains(&edge_id.0) && !hidden.contains(&other.0);
                if here == id && is_seen {
                    near.push((edge.weight, (edge_id, direction, other)));
                }
            }
        }
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1.0, a.1.1).cmp(&(b.1.0, b.1.1))));
        near.into_iter().map(|(_, near)| near).collect()
    }

    fn shown_sources(&self) -> BTreeMap<engine::SourceId, ShownSource> {
        let shown = self.sources.iter().map(|(seq, draft)| {
            let source = draft.id.expect("every draft of a simulation has its id");
            let of = self.items().filter(|item| item.source == Some(source)).map(id);
            let versions = self.sources().filter(|other| other.uri == draft.uri);
            let shown = ShownSource {
                seq: *seq,
                draft: draft.clone(),
                items: of.collect(),
                versions: versions.filter_map(|other| other.id).collect(),
            };
            (source, shown)
        });
        shown.collect()
    }
}
