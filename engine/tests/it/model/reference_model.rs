//! The plain model: the contents that the store should have and show, by the definitions and without an index.

use std::collections::{BTreeMap, BTreeSet};

use engine::{AsOf, Direction, EdgeFilter, EdgeId, ItemId, Micros, SourceId, Status};

pub(crate) const RELATIONS: [&str; 2] = ["links_to", "updates"];

/// Transaction time and validity period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BitemporalStamp {
    pub(crate) recorded: i64,
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
}

impl BitemporalStamp {
    pub(crate) fn known(&self, moment: AsOf) -> bool {
        moment.known_at.is_none_or(|as_of| self.recorded <= as_of.0)
    }

    pub(crate) fn shown(&self, moment: AsOf) -> bool {
        let holds = |at: Micros| {
            self.from.is_none_or(|from| from <= at.0) && self.to.is_none_or(|to| at.0 < to)
        };
        self.known(moment) && moment.valid_at.is_none_or(holds)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ModelItem {
    /// A word that no other item has.
    pub(crate) word: String,
    pub(crate) supersedes: Vec<ItemId>,
    pub(crate) reference: Option<String>,
    pub(crate) source: Option<SourceId>,
    pub(crate) times: BitemporalStamp,
    pub(crate) hidden: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct ModelEdge {
    pub(crate) from: ItemId,
    pub(crate) to: ItemId,
    pub(crate) weight: f32,
    pub(crate) relation: usize,
    pub(crate) times: BitemporalStamp,
    pub(crate) hidden: bool,
}

/// The contents that the store should have. Ids ascend, so the maps are in order of writing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) items: BTreeMap<ItemId, ModelItem>,
    pub(crate) edges: BTreeMap<EdgeId, ModelEdge>,
    /// Erased items, with the items that each replaced.
    pub(crate) erased: BTreeMap<ItemId, Vec<ItemId>>,
    pub(crate) sources: Vec<(SourceId, String, BitemporalStamp)>,
    pub(crate) commits: u64,
}

/// An edge seen from an item: weight, edge, direction, the item at the other end.
pub(crate) type ModelItemView = (f32, EdgeId, Direction, ItemId);

impl Model {
    pub(crate) fn pick(&self, number: usize) -> Option<ItemId> {
        let count = self.items.len();
        (count > 0).then(|| self.items.keys().nth(number % count).copied()).flatten()
    }

    /// Removes an existing item, with everything that depends on it.
    pub(crate) fn erase(&mut self, id: ItemId) {
        let item = self.items.remove(&id).expect("it was picked among those that are there");
        self.erased.insert(id, item.supersedes);
        self.edges.retain(|_, edge| edge.from != id && edge.to != id);
        // Each item has its own source, or none.
        self.sources.retain(|(source, ..)| item.source != Some(*source));
    }

    pub(crate) fn at(&self, moment: AsOf) -> View<'_> {
        View { model: self, moment }
    }
}

/// The model as of a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) model: &'a Model,
    pub(crate) moment: AsOf,
}

impl<'a> View<'a> {
    pub(crate) fn known(self) -> impl DoubleEndedIterator<Item = (ItemId, &'a ModelItem)> {
        let items = self.model.items.iter().map(|(&id, item)| (id, item));
        items.filter(move |(_, item)| item.times.known(self.moment))
    }

    pub(crate) fn is_erased(self, id: ItemId) -> bool {
        self.model.erased.contains_key(&id)
    }

    /// The transaction time of an erased item is not stored, so the item counts as known at every moment.
    pub(crate) fn knows(self, id: ItemId) -> bool {
        self.is_erased(id) || self.model.items[&id].times.known(self.moment)
    }

    pub(crate) fn shows(self, id: ItemId) -> bool {
        let item = self.model.items.get(&id);
        item.is_some_and(|item| !item.hidden && item.times.shown(self.moment))
    }

    pub(crate) fn successors(self, id: ItemId) -> BTreeSet<ItemId> {
        let newer = self.known().filter(|(_, item)| item.supersedes.contains(&id));
        let erased = self.model.erased.iter().filter(|(_, list)| list.contains(&id));
        newer.map(|(id, _)| id).chain(erased.map(|(&id, _)| id)).collect()
    }

    pub(crate) fn predecessors(self, id: ItemId) -> BTreeSet<ItemId> {
        let there = self.model.items.get(&id).map(|item| &item.supersedes);
        let older = there.unwrap_or_else(|| &self.model.erased[&id]).iter().copied();
        older.filter(|&id| self.knows(id)).collect()
    }

    pub(crate) fn status(self, id: ItemId) -> Status {
        if self.is_erased(id) || self.model.items[&id].hidden {
            Status::Tombstoned
        } else if self.successors(id).is_empty() {
            Status::Current
        } else {
            Status::Superseded
        }
    }

    /// Returns all items reachable from `id`, without `id` itself.
    pub(crate) fn reached(
        self,
        id: ItemId,
        step: &dyn Fn(ItemId) -> BTreeSet<ItemId>,
    ) -> BTreeSet<ItemId> {
        let mut reached = BTreeSet::new();
        let mut ahead = vec![id];
        while let Some(next) = ahead.pop() {
            ahead.extend(step(next).into_iter().filter(|&id| reached.insert(id)));
        }
        reached
    }

    pub(crate) fn current_successors(self, id: ItemId) -> Vec<ItemId> {
        if !self.knows(id) {
            return Vec::new();
        }
        let newer = self.reached(id, &|id| self.successors(id)).into_iter();
        newer.filter(|&id| self.shows(id) && self.status(id) == Status::Current).collect()
    }

    pub(crate) fn chain(self, id: ItemId) -> Vec<ItemId> {
        if !self.knows(id) {
            return Vec::new();
        }
        let mut chain = self.reached(id, &|id| self.successors(id));
        chain.extend(self.reached(id, &|id| self.predecessors(id)));
        chain.insert(id);
        chain.into_iter().collect()
    }

    pub(crate) fn holder(self, reference: &str) -> Option<ItemId> {
        let named = |item: &ModelItem| item.reference.as_deref() == Some(reference);
        let holders = self.known().filter(|(_, item)| named(item)).map(|(id, _)| id);
        holders.rev().find(|&id| self.shows(id) && self.status(id) == Status::Current)
    }

    /// Strongest first, then in order of edges; an edge to itself is listed first as outgoing, then as incoming.
    pub(crate) fn neighbours(self, id: ItemId, which: &EdgeFilter) -> Vec<ModelItemView> {
        let mut found = Vec::new();
        let shown = self.model.edges.iter();
        let shown = shown.filter(|(_, it)| !it.hidden && it.times.shown(self.moment));
        for (&edge, it) in shown.filter(|_| self.knows(id)) {
            let relation = RELATIONS[it.relation].to_owned();
            let ends = [(it.from, it.to, Direction::Out), (it.to, it.from, Direction::In)];
            for (here, other, direction) in ends {
                let wanted = (which.relations.is_empty() || which.relations.contains(&relation))
                    && which.direction.is_none_or(|wanted| wanted == direction)
                    && !(which.current_only && self.status(other) != Status::Current);
                if here == id && self.shows(other) && wanted {
                    found.push((it.weight, edge, direction, other));
                }
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        found
    }

    /// Ids, hops and edges of an item's neighbourhood, in traversal order.
    pub(crate) fn around(
        self,
        id: ItemId,
        hops: usize,
        which: &EdgeFilter,
    ) -> Vec<(ItemId, usize, Option<EdgeId>)> {
        if !self.knows(id) || self.model.items[&id].hidden {
            return Vec::new();
        }
        let mut around = vec![(id, 0, None)];
        for hop in 1..=hops {
            let mut next: BTreeMap<ItemId, ModelItemView> = BTreeMap::new();
            for &(from, ..) in around.iter().filter(|(_, distance, _)| distance + 1 == hop) {
                for seen in self.neighbours(from, which) {
                    let best = next.entry(seen.3).or_insert(seen);
                    if seen.0.total_cmp(&best.0).then(best.1.cmp(&seen.1)).is_gt() {
                        *best = seen;
                    }
                }
            }
            next.retain(|id, _| around.iter().all(|(known, ..)| known != id));
            let mut next: Vec<_> = next.into_values().collect();
            next.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.3.cmp(&b.3)));
            around.extend(next.into_iter().map(|(_, edge, _, id)| (id, hop, Some(edge))));
        }
        around
    }
}
