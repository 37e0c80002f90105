//! Supersession: predecessors, successors and chains of items.
//!
//! Links are the ids that writers list in an item's `supersedes`; they are never inferred, and no edge supersedes an
//! item, whatever its relation. An item may be superseded by several items (a split) and supersede several (a merge). A
//! chain is an acyclic graph, as an item can only supersede items that existed before.
//!
//! A traversal visits every id at most once, so it ends even in a corrupt cycle. After [`CHAIN_ITEMS_MAX`] ids, the
//! traversal ends and is marked as truncated. Tombstoned and erased items are traversed: the tombstone of an erased
//! item retains the ids that the item superseded. Items not known at the snapshot's transaction time are ignored; an
//! erased item is known at every time.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::error::CorruptionError;
use crate::ids::ItemId;
use crate::query::as_of::TimeColumns;
use crate::query::snapshot::{RowAddress, Snapshot, Status};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Ids visited by one traversal of a chain. Each id costs a look-up in every segment and a few dozen bytes.
    pub const CHAIN_ITEMS_MAX: usize = 1 << 18;
}

/// Current items that replace an item, directly or through others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Successors {
    /// Row addresses of the items, in order of id.
    pub addresses: Vec<RowAddress>,
    /// True if the traversal ended at its bound, so there may be more.
    pub truncated: bool,
}

/// Item of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainMember {
    /// Id of the item.
    pub id: ItemId,
    /// Row address of the item; `None` if its bytes were erased.
    pub address: Option<RowAddress>,
}

/// An item, with all items that it superseded and that superseded it, directly or through others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// Items in write order, so a superseded item precedes its successors.
    pub members: Vec<ChainMember>,
    /// True if the traversal ended at its bound, so there may be more.
    pub truncated: bool,
}

/// Position of an erased item in a chain. Rows are in write order; the erased item precedes the first row that
/// supersedes it, directly or through other erased items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ErasedRank {
    before_row: RowAddress,
    /// Longest run of erased items from here to `before`: of two erased items before the same row, the item superseded
    /// first has the longer run.
    steps: usize,
}

impl ErasedRank {
    /// Rank of an erased item that no existing row supersedes.
    const LAST: Self =
        Self { before_row: RowAddress { segment_ord: u32::MAX, row: u32::MAX }, steps: 0 };

    /// Moves the rank before the successor `next`.
    fn ahead_of(self, next: &ChainMember, ranks: &HashMap<ItemId, Self>) -> Self {
        let next = match next.address {
            Some(place) => Self { before_row: place, steps: 0 },
            None => ranks.get(&next.id).map_or(Self::LAST, |next| Self {
                before_row: next.before_row,
                steps: next.steps + 1,
            }),
        };
        Self { before_row: self.before_row.min(next.before_row), steps: self.steps.max(next.steps) }
    }
}

impl Snapshot {
    /// Items that directly supersede `id`, in order of id; tombstoned items included.
    ///
    /// # Errors
    /// Corruption.
    pub fn direct_successors(&self, id: ItemId) -> Result<Vec<RowAddress>, CorruptionError> {
        let found = self.successors_with_erased(id)?;
        self.sorted_by_id(found.into_iter().filter_map(|member| member.address).collect())
    }

    /// The only item that directly supersedes `id`, tombstoned and erased items included; `None` if there is none, or
    /// several.
    ///
    /// # Errors
    /// Corruption.
    pub fn sole_successor(&self, id: ItemId) -> Result<Option<ChainMember>, CorruptionError> {
        let found = self.successors_with_erased(id)?;
        Ok(<[ChainMember; 1]>::try_from(found).ok().map(|[only]| only))
    }

    /// Items that `id` directly supersedes, in the order of its list; tombstoned items included.
    ///
    /// # Errors
    /// Corruption.
    pub fn direct_predecessors(&self, id: ItemId) -> Result<Vec<RowAddress>, CorruptionError> {
        let found = self.predecessors_with_erased(id)?;
        Ok(found.into_iter().filter_map(|member| member.address).collect())
    }

    /// Items that replace `id`: all transitive successors that are current and valid. Empty if `id` itself is current,
    /// if all ends of the chain are tombstoned, or if the id is not known.
    ///
    /// # Errors
    /// Corruption.
    pub fn current_successors(&self, id: ItemId) -> Result<Successors, CorruptionError> {
        self.current_within(id, CHAIN_ITEMS_MAX)
    }

    /// The chain of `id`: the item, with all items that it superseded and that superseded it. Empty if the id is not
    /// known.
    ///
    /// # Errors
    /// Corruption.
    pub fn chain(&self, id: ItemId) -> Result<Chain, CorruptionError> {
        self.chain_within(id, CHAIN_ITEMS_MAX)
    }

    fn current_within(&self, id: ItemId, ids_max: usize) -> Result<Successors, CorruptionError> {
        if self.chain_member(id)?.is_none() {
            return Ok(Successors::default());
        }
        let (reached, truncated) = self.walk(id, ids_max, Self::successors_with_erased)?;
        let mut standing = Vec::new();
        for place in reached.into_iter().filter_map(|member| member.address) {
            if self.status(place)? == Status::Current && self.is_visible(place)? {
                standing.push(place);
            }
        }
        Ok(Successors { addresses: self.sorted_by_id(standing)?, truncated })
    }

    fn chain_within(&self, id: ItemId, ids_max: usize) -> Result<Chain, CorruptionError> {
        let Some(own) = self.chain_member(id)? else { return Ok(Chain::default()) };
        if own.address.is_none() && !self.has_tombstone(id.0)? {
            return Ok(Chain::default());
        }
        let (newer, cut_newer) = self.walk(id, ids_max, Self::successors_with_erased)?;
        let (older, cut_older) = self.walk(id, ids_max, Self::predecessors_with_erased)?;
        let mut members: Vec<ChainMember> = older.into_iter().chain([own]).chain(newer).collect();
        let ranks = self.ranks(&members)?;
        let rank = |member: &ChainMember| match member.address {
            Some(place) => (place, true, Reverse(0)),
            None => {
                let ErasedRank { before_row: before, steps } = ranks[&member.id];
                (before, false, Reverse(steps))
            }
        };
        members.sort_unstable_by_key(|member| (rank(member), member.id));
        members.dedup_by_key(|member| member.id); // both ways reach it only where bytes lie
        Ok(Chain { members, truncated: cut_newer || cut_older })
    }

    /// Ranks the erased members. Successors of an erased item are ranked before the item, so each item is examined
    /// twice, whatever the shape of the chain.
    fn ranks(
        &self,
        members: &[ChainMember],
    ) -> Result<HashMap<ItemId, ErasedRank>, CorruptionError> {
        let mut ranks = HashMap::new();
        let erased = members.iter().filter(|member| member.address.is_none());
        let mut ahead: Vec<(ItemId, bool)> = erased.map(|member| (member.id, false)).collect();
        let erased: HashSet<ItemId> = ahead.iter().map(|(id, _)| *id).collect();
        while let Some((id, is_ready)) = ahead.pop() {
            // The id is ranked, or being ranked: a corrupt cycle ends there.
            if !is_ready && ranks.contains_key(&id) {
                continue;
            }
            let after = self.successors_with_erased(id)?;
            if is_ready {
                let rank = after
                    .iter()
                    .fold(ErasedRank::LAST, |rank, member| rank.ahead_of(member, &ranks));
                ranks.insert(id, rank);
                continue;
            }
            ranks.insert(id, ErasedRank::LAST);
            ahead.push((id, true));
            let unknown = after.iter().map(|member| member.id);
            let unknown = unknown.filter(|id| erased.contains(id) && !ranks.contains_key(id));
            ahead.extend(unknown.map(|id| (id, false)));
        }
        Ok(ranks)
    }

    /// The member with this id; `None` if its row is not known at the snapshot's transaction time.
    fn chain_member(&self, id: ItemId) -> Result<Option<ChainMember>, CorruptionError> {
        match self.find_any_time(id)? {
            Some(place) if !self.is_known(place)? => Ok(None),
            place => Ok(Some(ChainMember { id, address: place })),
        }
    }

    /// Known items that supersede `id`, and erased items that did.
    fn successors_with_erased(&self, id: ItemId) -> Result<Vec<ChainMember>, CorruptionError> {
        let mut members = Vec::new();
        for (part, it) in (0u32..).zip(self.segments.iter()) {
            let rows = it.segment.successor_rows(id)?;
            if rows.is_empty() {
                continue;
            }
            let times = TimeColumns::for_items(self.as_of, &it.segment)?;
            for &row in rows {
                if times.is_known(row)? {
                    let place = Some(RowAddress { segment_ord: part, row });
                    members.push(ChainMember { id: it.segment.item_id(row)?, address: place });
                }
            }
        }
        let erased = self.erased_successors(id)?;
        members.extend(erased.into_iter().map(|id| ChainMember { id, address: None }));
        Ok(members)
    }

    /// Known items that `id` supersedes, or superseded until its erasure.
    fn predecessors_with_erased(&self, id: ItemId) -> Result<Vec<ChainMember>, CorruptionError> {
        let replaced = match self.find_any_time(id)? {
            Some(place) => self.item(place)?.supersedes,
            None => self.superseded_by_erased(id)?,
        };
        let mut members = Vec::new();
        for id in replaced {
            members.extend(self.chain_member(id)?);
        }
        Ok(members)
    }

    /// Collects everything reachable from `id` by `step`, without `id`, each id once and nearest first. Returns true as
    /// well if the traversal was cut after `ids_max` ids.
    fn walk(
        &self,
        id: ItemId,
        ids_max: usize,
        step: impl Fn(&Self, ItemId) -> Result<Vec<ChainMember>, CorruptionError>,
    ) -> Result<(Vec<ChainMember>, bool), CorruptionError> {
        let mut seen = HashSet::from([id]);
        let mut reached = Vec::new();
        let mut ahead = VecDeque::from([id]);
        while let Some(id) = ahead.pop_front() {
            for member in step(self, id)? {
                if seen.contains(&member.id) {
                    continue;
                }
                if reached.len() == ids_max {
                    return Ok((reached, true));
                }
                seen.insert(member.id);
                reached.push(member);
                ahead.push_back(member.id);
            }
        }
        Ok((reached, false))
    }

    fn sorted_by_id(&self, places: Vec<RowAddress>) -> Result<Vec<RowAddress>, CorruptionError> {
        let keyed = places.into_iter().map(|place| Ok((self.id(place)?, place)));
        let mut keyed = keyed.collect::<Result<Vec<_>, CorruptionError>>()?;
        keyed.sort_unstable();
        Ok(keyed.into_iter().map(|(_, place)| place).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{Batch, ItemDraft, TombstoneDraft};
    use crate::os::clock::Micros;
    use crate::query::as_of::AsOf;
    use crate::row_state::RowState;
    use crate::segment::{Segment, SegmentBuilder};
    use crate::segment_snapshot::SegmentSnapshot;

    fn item(id: u128, supersedes: &[u128], recorded_at: i64) -> ItemDraft {
        ItemDraft {
            id: Some(ItemId(id)),
            kind: "note".to_owned(),
            modality: "text".to_owned(),
            supersedes: supersedes.iter().copied().map(ItemId).collect(),
            recorded_at: Some(Micros(recorded_at)),
            ..ItemDraft::default()
        }
    }

    /// A segment of these rows, with the row state that their links imply, and with the tombstones of erased items and
    /// the ids that those superseded.
    fn snapshot(items: Vec<ItemDraft>, erased: &[(u128, &[u128])]) -> Snapshot {
        let stone = |&(target, replaced): &(u128, &[u128])| TombstoneDraft {
            target,
            at: Some(Micros(9)),
            erase: true,
            supersedes: replaced.iter().copied().map(ItemId).collect(),
            ..TombstoneDraft::default()
        };
        let tombstones: Vec<TombstoneDraft> = erased.iter().map(stone).collect();
        let by_items = items.iter().flat_map(|item| &item.supersedes);
        let by_erased = tombstones.iter().flat_map(|stone| &stone.supersedes);
        let replaced: HashSet<ItemId> = by_items.chain(by_erased).copied().collect();
        let mut state = RowState::empty(items.len(), 0);
        for (row, item) in (0..).zip(&items) {
            if replaced.contains(&item.id.unwrap()) {
                state.superseded.insert(row);
            }
        }
        let mut builder = SegmentBuilder::default();
        builder.push_batch(1, &Batch { items, tombstones, ..Batch::default() });
        let segment = Segment::from_heap(builder.finish()).into();
        Snapshot::new(&[SegmentSnapshot { segment, state: state.into() }], 1, None)
    }

    fn ids(chain: &Chain) -> Vec<u128> {
        chain.members.iter().map(|member| member.id.0).collect()
    }

    #[test]
    fn chain_walk_stops_at_its_limit_and_reports_truncation() {
        let items = (1..9).map(|id| item(id + 1, &[id], 0));
        let long = snapshot([item(1, &[], 0)].into_iter().chain(items).collect(), &[]);
        let cut = long.chain_within(ItemId(5), 3).unwrap();
        assert_eq!((ids(&cut), cut.truncated), (vec![2, 3, 4, 5, 6, 7, 8], true));
        let whole = long.chain_within(ItemId(5), 4).unwrap();
        assert_eq!((ids(&whole), whole.truncated), ((1..=9).collect(), false));
        let cut = long.current_within(ItemId(5), 3).unwrap();
        assert_eq!((cut.addresses.len(), cut.truncated), (0, true));
        let whole = long.current_within(ItemId(5), 4).unwrap();
        assert_eq!((whole.addresses.len(), whole.truncated), (1, false));
    }

    #[test]
    fn chain_walk_ends_in_a_corrupt_cycle() {
        let circle = snapshot(vec![item(1, &[2], 0), item(2, &[1], 0)], &[]);
        let chain = circle.chain(ItemId(1)).unwrap();
        assert_eq!((ids(&chain), chain.truncated), (vec![1, 2], false));
        assert_eq!(circle.current_successors(ItemId(1)).unwrap(), Successors::default());
    }

    /// 2 and 5 were erased: 4 superseded 2, which had superseded 1; 6 superseded 4 and 5.
    #[test]
    fn chain_walk_passes_through_erased_items() {
        let items = vec![item(1, &[], 0), item(4, &[2], 3), item(6, &[4, 5], 7)];
        let there = snapshot(items, &[(2, &[1]), (5, &[])]);
        let chain = there.chain(ItemId(6)).unwrap();
        assert_eq!(ids(&chain), [1, 2, 4, 5, 6]);
        let erased: Vec<bool> = chain.members.iter().map(|one| one.address.is_none()).collect();
        assert_eq!(erased, [false, true, false, true, false]);
        for id in [1, 2, 4, 5] {
            let standing = there.current_successors(ItemId(id)).unwrap().addresses;
            assert_eq!(standing, [there.find(ItemId(6)).unwrap().unwrap()], "of {id}");
        }
        for id in [1, 2] {
            assert_eq!(ids(&there.chain(ItemId(id)).unwrap()), [1, 2, 4, 6], "of {id}");
        }
        assert_eq!(there.direct_predecessors(ItemId(6)).unwrap().len(), 1);
        assert_eq!(there.direct_successors(ItemId(1)).unwrap(), []);
        assert_eq!(there.direct_predecessors(ItemId(2)).unwrap().len(), 1);
        let next = |id| {
            there.sole_successor(ItemId(id)).unwrap().map(|one| (one.id.0, one.address.is_some()))
        };
        assert_eq!(
            [next(1), next(2), next(5), next(6)],
            [Some((2, false)), Some((4, true)), Some((6, true)), None]
        );
        // An id that no record ever named has an empty chain.
        assert_eq!(there.chain(ItemId(99)).unwrap(), Chain::default());
        // As of a time at which only 1 and 4 were known.
        let then = there.with_as_of(AsOf { known_at: Some(Micros(5)), valid_at: None });
        assert_eq!(ids(&then.chain(ItemId(4)).unwrap()), [1, 2, 4]);
        assert_eq!(ids(&then.chain(ItemId(6)).unwrap()), [] as [u128; 0]);
    }

    /// Each of 1 to 7 superseded its predecessor; only some still have rows.
    #[test]
    fn erased_members_keep_their_position_in_the_chain() {
        for there in 0u32..1 << 7 {
            let is_there = |id: &u128| there >> (id - 1) & 1 == 1;
            let list = |id: u128| if id == 1 { vec![] } else { vec![id - 1] };
            let items = (1..=7).filter(is_there).map(|id| item(id, &list(id), 0)).collect();
            let lists: Vec<(u128, Vec<u128>)> =
                (1..=7).filter(|id| !is_there(id)).map(|id| (id, list(id))).collect();
            let erased: Vec<_> = lists.iter().map(|(id, list)| (*id, &list[..])).collect();
            let snapshot = snapshot(items, &erased);
            for id in 1..=7 {
                let chain = snapshot.chain(ItemId(id)).unwrap();
                assert_eq!(ids(&chain), [1, 2, 3, 4, 5, 6, 7], "of {id}, {there:b}");
                let ends = snapshot.current_successors(ItemId(id)).unwrap().addresses;
                assert_eq!(ends.len(), usize::from(id < 7 && is_there(&7)), "of {id}, {there:b}");
            }
        }
    }

    #[test]
    fn chain_walk_ends_in_a_corrupt_cycle_of_erased_items() {
        let circle = snapshot(vec![item(9, &[1], 0)], &[(1, &[2]), (2, &[1])]);
        let chain = circle.chain(ItemId(9)).unwrap();
        assert_eq!((chain.members.len(), ids(&chain)[2]), (3, 9));
        let here = circle.find(ItemId(9)).unwrap().unwrap();
        assert_eq!(circle.current_successors(ItemId(2)).unwrap().addresses, [here]);
    }

    /// The successor of 1 was erased, so the time of the supersession is unknown.
    #[test]
    fn item_with_only_erased_successors_stays_superseded() {
        let there = snapshot(vec![item(1, &[], 0)], &[(2, &[1])]);
        let then = there.with_as_of(AsOf { known_at: Some(Micros(0)), valid_at: None });
        for snapshot in [there, then] {
            let place = snapshot.find(ItemId(1)).unwrap().unwrap();
            assert_eq!(snapshot.status(place), Ok(Status::Superseded));
            assert_eq!(snapshot.current_successors(ItemId(1)).unwrap(), Successors::default());
            assert_eq!(ids(&snapshot.chain(ItemId(1)).unwrap()), [1, 2]);
        }
    }
}
