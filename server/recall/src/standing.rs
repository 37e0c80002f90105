//! Successor cache: the current successors of superseded items, for one caller and one question.
//!
//! A supersession chain is walked once, however many of its items are queried. Versions with one successor each form a
//! line, and share the successors at its end.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{CHAIN_ITEMS_MAX, ChainMember, CorruptionError, Filter, ItemId, RowAddress, Status};

use crate::means::Means;
use crate::route::Plan;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Current successors promoted for one item; those of a larger split must match by their own words.
    const SUCCESSORS_MAX: usize = 32;
}

/// Cache of the successors of items in one snapshot.
pub(super) struct Standing<'a> {
    means: &'a Means<'a>,
    filter: Filter,
    /// Cached successors, at most [`CHAIN_ITEMS_MAX`] entries; further chains are walked again.
    known: HashMap<ItemId, InPlace>,
}

/// Successors of one item.
#[derive(Debug, Clone, Default)]
pub(super) struct InPlace {
    /// Current successors, in order of id.
    current: Arc<[RowAddress]>,
    /// Current successors visible to the caller, at most `SUCCESSORS_MAX`.
    shown: Arc<[RowAddress]>,
    /// True if there are more.
    cut_short: bool,
    /// If no current successor is visible: the newest visible successor.
    newest: Option<RowAddress>,
}

impl InPlace {
    /// Successors to rank in the item's place: the visible current ones. If there are none, the newest visible
    /// successor, the last version that the caller may learn of.
    pub(super) fn given(&self) -> &[RowAddress] {
        if self.shown.is_empty() { self.newest.as_slice() } else { &self.shown }
    }

    /// All current successors, visible to the caller or not.
    pub(super) fn current(&self) -> &Arc<[RowAddress]> {
        &self.current
    }

    /// Returns true if there are more successors than this lists.
    pub(super) fn is_cut_short(&self) -> bool {
        self.cut_short
    }
}

impl<'a> Standing<'a> {
    pub(super) fn of(means: &'a Means<'a>, plan: &Plan) -> Self {
        // Quoted phrases must be in the matched item, not in its successors.
        let filter = Filter { allowlist: None, ..plan.filter.clone() };
        Self { means, filter, known: HashMap::new() }
    }

    /// Returns the successors of a superseded item.
    pub(super) fn in_place_of(&mut self, id: ItemId) -> Result<InPlace, CorruptionError> {
        let mut line: Vec<(ItemId, ChainMember)> = Vec::new();
        let mut at = id;
        let mut found = loop {
            if let Some(known) = self.known.get(&at) {
                break known.clone();
            }
            match self.next_on_line(at)? {
                // The bound ends a cycle in a damaged chain.
                Some(next) if line.len() < CHAIN_ITEMS_MAX => {
                    line.push((at, next));
                    at = next.id;
                }
                _ => {
                    let found = self.walked(at)?;
                    self.keep(at, &found);
                    break found;
                }
            }
        };
        for (at, next) in line.into_iter().rev() {
            if found.given().is_empty()
                && let Some(place) = next.address
                && self.is_shown(place)?
            {
                found.newest = Some(place);
            }
            self.keep(at, &found);
        }
        Ok(found)
    }

    fn keep(&mut self, id: ItemId, found: &InPlace) {
        if self.known.len() < CHAIN_ITEMS_MAX {
            self.known.insert(id, found.clone());
        }
    }

    /// Returns the only direct successor, unless the successor is current.
    fn next_on_line(&self, id: ItemId) -> Result<Option<ChainMember>, CorruptionError> {
        let snapshot = self.means.snapshot;
        let Some(next) = snapshot.sole_successor(id)? else { return Ok(None) };
        let stands = match next.address {
            Some(place) => snapshot.status(place)? == Status::Current,
            None => false,
        };
        Ok((!stands).then_some(next))
    }

    /// Walks all later versions of the item.
    fn walked(&self, id: ItemId) -> Result<InPlace, CorruptionError> {
        let snapshot = self.means.snapshot;
        let successors = snapshot.current_successors(id)?;
        let mut found = InPlace { cut_short: successors.truncated, ..InPlace::default() };
        let mut shown = Vec::new();
        for &place in &successors.addresses {
            if !self.is_shown(place)? {
                continue;
            }
            if shown.len() == SUCCESSORS_MAX {
                found.cut_short = true;
                break;
            }
            shown.push(place);
        }
        found.current = successors.addresses.into();
        found.shown = shown.into();
        if found.shown.is_empty() {
            let chain = snapshot.chain(id)?;
            let newer = chain.members.iter().rev().take_while(|member| member.id != id);
            for place in newer.filter_map(|member| member.address) {
                if self.is_shown(place)? {
                    found.newest = Some(place);
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Returns true if the plan's filter, quotes aside, admits the item and the caller may learn of it.
    pub(super) fn is_shown(&self, place: RowAddress) -> Result<bool, CorruptionError> {
        let snapshot = self.means.snapshot;
        Ok(snapshot.admits(&self.filter, place)? && snapshot.may_know(&snapshot.item(place)?))
    }
}
