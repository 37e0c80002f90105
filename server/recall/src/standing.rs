//! What stands in place of superseded items, for one caller and one question.
//!
//! Owns the way along a chain, which is gone once however many of its items are asked for: versions that
//! have one successor each lie on a line, and what stands at its end stands in place of them all. Must not
//! know how items are ranked.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{CHAIN_ITEMS_MAX, Damage, Filter, ItemId, Member, Place, Status};

use crate::means::Means;
use crate::route::Plan;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items that are brought in place of one; those of a larger split are found by their own words.
    const SUCCESSORS_MAX: usize = 32;
}

/// What stands in place of the items of one snapshot.
pub(super) struct Standing<'a> {
    means: &'a Means<'a>,
    filter: Filter,
    /// At most [`CHAIN_ITEMS_MAX`]; what is beyond is walked again.
    known: HashMap<ItemId, InPlace>,
}

/// What stands in place of one item.
#[derive(Debug, Clone, Default)]
pub(super) struct InPlace {
    /// Its current successors, in order of id.
    current: Arc<[Place]>,
    /// Those of them that the caller may see, as far as they are brought.
    shown: Arc<[Place]>,
    /// Whether there are more.
    cut_short: bool,
    /// Where it may see none of them: the newest successor that it may see.
    newest: Option<Place>,
}

impl InPlace {
    /// What is given in its place: its current successors; where the caller may see none of them, the newest
    /// successor that it may see, for that is the last that it can know.
    pub(super) fn given(&self) -> &[Place] {
        if self.shown.is_empty() { self.newest.as_slice() } else { &self.shown }
    }

    /// All that stands in its place, whether or not the caller may see it.
    pub(super) fn current(&self) -> &Arc<[Place]> {
        &self.current
    }

    /// Whether more stands in its place than is given.
    pub(super) fn is_cut_short(&self) -> bool {
        self.cut_short
    }
}

impl<'a> Standing<'a> {
    pub(super) fn of(means: &'a Means<'a>, plan: &Plan) -> Self {
        // What is quoted is asked of what was found, not of what stands in its place.
        let filter = Filter { among: None, ..plan.filter.clone() };
        Self { means, filter, known: HashMap::new() }
    }

    /// What stands in place of a superseded item.
    pub(super) fn in_place_of(&mut self, id: ItemId) -> Result<InPlace, Damage> {
        let mut line: Vec<(ItemId, Member)> = Vec::new();
        let mut at = id;
        let mut found = loop {
            if let Some(known) = self.known.get(&at) {
                break known.clone();
            }
            match self.next_on_line(at)? {
                // A damaged circle ends there.
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
                && let Some(place) = next.place
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

    /// The only item that replaces another, unless that one stands.
    fn next_on_line(&self, id: ItemId) -> Result<Option<Member>, Damage> {
        let snapshot = self.means.snapshot;
        let Some(next) = snapshot.only_successor(id)? else { return Ok(None) };
        let stands = match next.place {
            Some(place) => snapshot.status(place)? == Status::Current,
            None => false,
        };
        Ok((!stands).then_some(next))
    }

    /// The same, by walking all that came after it.
    fn walked(&self, id: ItemId) -> Result<InPlace, Damage> {
        let snapshot = self.means.snapshot;
        let successors = snapshot.current_successors(id)?;
        let mut found = InPlace { cut_short: successors.truncated, ..InPlace::default() };
        let mut shown = Vec::new();
        for &place in &successors.places {
            if !self.is_shown(place)? {
                continue;
            }
            if shown.len() == SUCCESSORS_MAX {
                found.cut_short = true;
                break;
            }
            shown.push(place);
        }
        found.current = successors.places.into();
        found.shown = shown.into();
        if found.shown.is_empty() {
            let chain = snapshot.chain(id)?;
            let newer = chain.members.iter().rev().take_while(|member| member.id != id);
            for place in newer.filter_map(|member| member.place) {
                if self.is_shown(place)? {
                    found.newest = Some(place);
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Whether the question may find it, whatever it has in quotes, and the caller see it.
    pub(super) fn is_shown(&self, place: Place) -> Result<bool, Damage> {
        let snapshot = self.means.snapshot;
        Ok(snapshot.admits(&self.filter, place)?
            && self.means.access.may_know(&snapshot.item(place)?))
    }
}
