//! Supersession: which items replace which, and which stands now.
//!
//! Owns the walks along chains; knows rows, not files. Links are those that writers gave, never
//! guessed. An item may be replaced by several (a split) and replace several (a merge), so a
//! chain is a graph without cycles: an item can only replace ones that were there before it. A
//! walk visits every item at most once, so one through a damaged file ends too, and a history is
//! followed however long it is.

use std::collections::{BTreeSet, VecDeque};

use crate::error::Damage;
use crate::ids::ItemId;
use crate::snapshot::{Place, Snapshot, Status};

impl Snapshot {
    /// The items that directly replace `id`, in order of id; tombstoned ones too.
    pub fn direct_successors(&self, id: ItemId) -> Result<Vec<Place>, Damage> {
        let mut places = Vec::new();
        for (part, it) in (0u32..).zip(self.parts.iter()) {
            let rows = it.segment.successor_rows(id)?;
            places.extend(rows.iter().map(|&row| Place { part, row }));
        }
        self.in_order_of_id(places)
    }

    /// The items that stand in place of `id` now: the ends of every way along its successors
    /// that are current. Empty when `id` itself is current, or when all ends are tombstoned.
    pub fn current_successors(&self, id: ItemId) -> Result<Vec<Place>, Damage> {
        let reached = self.walk(id, |snapshot, id| snapshot.direct_successors(id))?;
        let standing = reached.into_iter().filter(|&place| self.status(place) == Status::Current);
        self.in_order_of_id(standing.collect())
    }

    /// Everything that `id` replaced or that replaced it, itself included, oldest first.
    pub fn chain(&self, id: ItemId) -> Result<Vec<Place>, Damage> {
        let mut all: BTreeSet<Place> = self.find(id)?.into_iter().collect();
        all.extend(self.walk(id, |snapshot, id| snapshot.direct_successors(id))?);
        all.extend(self.walk(id, |snapshot, id| snapshot.direct_predecessors(id))?);
        let mut dated = Vec::with_capacity(all.len());
        for place in all {
            let item = self.item(place)?;
            dated.push((item.seq, item.recorded_at, item.id, place));
        }
        dated.sort_unstable_by_key(|&(seq, at, id, _)| (seq, at, id));
        Ok(dated.into_iter().map(|(.., place)| place).collect())
    }

    /// The items that `id` directly replaces.
    pub fn direct_predecessors(&self, id: ItemId) -> Result<Vec<Place>, Damage> {
        let Some(place) = self.find(id)? else { return Ok(Vec::new()) };
        let replaced = self.item(place)?.supersedes;
        let found = replaced.into_iter().map(|id| self.find(id));
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Everything reached from `id` by `step`, without `id`, each once.
    fn walk(
        &self,
        id: ItemId,
        step: impl Fn(&Self, ItemId) -> Result<Vec<Place>, Damage>,
    ) -> Result<Vec<Place>, Damage> {
        let mut seen = BTreeSet::from([id]);
        let mut reached = Vec::new();
        let mut ahead = VecDeque::from([id]);
        while let Some(id) = ahead.pop_front() {
            for place in step(self, id)? {
                let next = self.id(place)?;
                if !seen.insert(next) {
                    continue;
                }
                reached.push(place);
                ahead.push_back(next);
            }
        }
        Ok(reached)
    }

    fn in_order_of_id(&self, places: Vec<Place>) -> Result<Vec<Place>, Damage> {
        let keyed = places.into_iter().map(|place| Ok((self.id(place)?, place)));
        let mut keyed = keyed.collect::<Result<Vec<_>, Damage>>()?;
        keyed.sort_unstable();
        Ok(keyed.into_iter().map(|(_, place)| place).collect())
    }
}
