//! Which items a search may give.
//!
//! Owns the conditions and how each is asked of a row: by codes, without reading the item. Every lane
//! asks here, inside its own loop, before anything is ranked. Must not know how rows are scored.

use crate::error::Damage;
use crate::ids::Row;
use crate::item::Sensitivity;
use crate::layout::{ITEM_FLAGS, ITEM_KIND, ITEM_MODALITY, ITEM_SENSITIVITY};
use crate::part::Part;
use crate::reading::moment::Times;
use crate::reading::snapshot::Snapshot;
use crate::segment::View;

/// Which items a search may give.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Only this modality.
    pub modality: Option<String>,
    /// Only these kinds; all where empty.
    pub kinds: Vec<String>,
    /// Nothing more sensitive than this.
    pub sensitivity_max: Option<Sensitivity>,
    /// Only items that no newer one replaces.
    pub current_only: bool,
}

/// A [`Filter`] in the terms of one part: codes instead of names.
pub(crate) struct PartFilter<'a> {
    snapshot: &'a Snapshot,
    part: &'a Part,
    times: Times<'a>,
    current_only: bool,
    modality: Option<(View<'a, u32>, Option<u32>)>,
    kinds: Option<(View<'a, u32>, Vec<u32>)>,
    sensitivity: Option<(View<'a, u8>, u8)>,
    flags: View<'a, u8>,
}

impl<'a> PartFilter<'a> {
    pub(crate) fn of(
        snapshot: &'a Snapshot,
        filter: &Filter,
        part: &'a Part,
    ) -> Result<Self, Damage> {
        let segment = &*part.segment;
        let modality = match &filter.modality {
            Some(name) => Some((segment.view(ITEM_MODALITY)?, segment.symbol_code(name)?)),
            None => None,
        };
        let kinds = if filter.kinds.is_empty() {
            None
        } else {
            let codes = filter.kinds.iter().map(|kind| segment.symbol_code(kind));
            let codes = codes.collect::<Result<Vec<_>, _>>()?;
            Some((segment.view(ITEM_KIND)?, codes.into_iter().flatten().collect()))
        };
        let sensitivity = match filter.sensitivity_max {
            Some(most) => Some((segment.view(ITEM_SENSITIVITY)?, most as u8)),
            None => None,
        };
        Ok(Self {
            snapshot,
            part,
            times: Times::of_items(snapshot.moment, segment)?,
            current_only: filter.current_only,
            modality,
            kinds,
            sensitivity,
            flags: segment.view(ITEM_FLAGS)?,
        })
    }

    /// Whether a search may give the item of this row.
    pub(crate) fn admits(&self, row: Row) -> Result<bool, Damage> {
        let at = row as usize;
        if self.part.state.tombstoned.contains(row)
            || self.flags.get(at)? & 1 == 0
            || !self.times.shows(row)?
            || self.current_only && self.snapshot.is_superseded(self.part, row)?
        {
            return Ok(false);
        }
        if let Some((codes, wanted)) = &self.modality
            && Some(codes.get(at)?) != *wanted
        {
            return Ok(false);
        }
        if let Some((codes, wanted)) = &self.kinds
            && !wanted.contains(&codes.get(at)?)
        {
            return Ok(false);
        }
        if let Some((codes, most)) = &self.sensitivity
            && codes.get(at)? > *most
        {
            return Ok(false);
        }
        Ok(true)
    }
}
