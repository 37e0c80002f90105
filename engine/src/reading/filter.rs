//! Which items a search may give.
//!
//! Owns the conditions and how each is asked of a row: by codes, without reading the item. Every lane
//! asks here, inside its own loop, before anything is ranked. Must not know how rows are scored.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::error::Damage;
use crate::ids::Row;
use crate::item::Sensitivity;
use crate::layout::{ITEM_FLAGS, ITEM_KIND, ITEM_MODALITY, ITEM_SENSITIVITY};
use crate::part::Part;
use crate::reading::by_segment::BySegment;
use crate::reading::hidden::{Hidden, HiddenOf};
use crate::reading::moment::Times;
use crate::reading::snapshot::{Place, Snapshot};
use crate::segment::View;

/// Which items a search may give.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only this modality.
    pub modality: Option<String>,
    /// Only these kinds; all where empty.
    pub kinds: Vec<String>,
    /// Nothing more sensitive than this.
    pub sensitivity_max: Option<Sensitivity>,
    /// Only items that no newer one replaces.
    pub current_only: bool,
    /// Only these.
    pub among: Option<Arc<Chosen>>,
    /// Nothing that is hidden from the caller, be it whole or in what it says.
    pub hidden: Option<Arc<Hidden>>,
    /// Only what is hidden, for those who note it.
    pub only_hidden: bool,
    /// Items that searches do not find, too: for those who list by kind.
    pub unsearchable: bool,
}

/// What was chosen or hidden for one question is the same only as itself: comparing rows would take longer
/// than the search.
fn same<T>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
    one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr)
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            modality,
            kinds,
            sensitivity_max,
            current_only,
            among,
            hidden,
            only_hidden,
            unsearchable,
        } = self;
        *modality == other.modality
            && *kinds == other.kinds
            && *sensitivity_max == other.sensitivity_max
            && *current_only == other.current_only
            && *only_hidden == other.only_hidden
            && *unsearchable == other.unsearchable
            && same(among, &other.among)
            && same(hidden, &other.hidden)
    }
}

impl Eq for Filter {}

impl Hash for Filter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            modality,
            kinds,
            sensitivity_max,
            current_only,
            among,
            hidden,
            only_hidden,
            unsearchable,
        } = self;
        (modality, kinds, sensitivity_max, current_only, only_hidden, unsearchable).hash(state);
        (among.as_ref().map(Arc::as_ptr), hidden.as_ref().map(Arc::as_ptr)).hash(state);
    }
}

/// Items of one snapshot, chosen one by one. In another snapshot they are those whose segments it shares.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// Rows of each segment that has any, rising.
    rows: BySegment<Arc<[Row]>>,
}

impl Chosen {
    /// Whether it is nobody.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.values().map(|rows| rows.len()).sum()
    }
}

impl Snapshot {
    /// The items at these places.
    pub fn chosen(&self, places: &[Place]) -> Chosen {
        let mut sorted = places.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut chosen = Chosen::default();
        for places in sorted.chunk_by(|one, next| one.part == next.part) {
            let rows = places.iter().map(|place| place.row).collect();
            chosen.rows.insert(&self.part(places[0]).segment, rows);
        }
        chosen
    }

    /// Whether `filter` admits the item at a place, which was found otherwise than by what it says: one that
    /// is hidden in what it says alone is admitted.
    ///
    /// # Errors
    /// Damage.
    pub fn admits(&self, filter: &Filter, place: Place) -> Result<bool, Damage> {
        PartFilter::of(self, filter, self.part(place))?.admits_unread(place.row)
    }
}

impl Filter {
    /// Whether whoever asks may be told anything by what the item at a place says.
    pub(crate) fn reads(&self, snapshot: &Snapshot, place: Place) -> bool {
        let hidden = self.hidden.as_ref();
        hidden.is_some_and(|hidden| snapshot.is_veiled(hidden, place)) == self.only_hidden
    }
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
    among: Option<Arc<[Row]>>,
    hidden: Option<HiddenOf>,
    only_hidden: bool,
    unsearchable: bool,
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
            among: filter.among.as_ref().map(|chosen| {
                chosen.rows.get(&part.segment).map_or_else(|| Arc::from([]), Arc::clone)
            }),
            hidden: filter.hidden.as_ref().and_then(|hidden| hidden.of(part)),
            only_hidden: filter.only_hidden,
            unsearchable: filter.unsearchable,
        })
    }

    /// Whether there is nothing that it could admit, so that the part need not be searched.
    pub(crate) fn admits_nothing(&self) -> bool {
        self.among.as_ref().is_some_and(|rows| rows.is_empty())
            || self.kinds.as_ref().is_some_and(|(_, codes)| codes.is_empty())
            || self.only_hidden && self.hidden.is_none()
            || !self.only_hidden && matches!(self.hidden, Some(HiddenOf::All))
    }

    /// The only rows that it can admit, where they were chosen one by one.
    pub(crate) fn chosen(&self) -> Option<&[Row]> {
        self.among.as_deref()
    }

    /// Whether a search may give the item of this row.
    #[inline]
    pub(crate) fn admits(&self, row: Row) -> Result<bool, Damage> {
        let is_veiled = self.hidden.as_ref().is_some_and(|hidden| hidden.veils(row));
        Ok(is_veiled == self.only_hidden && self.admits_class(row)?)
    }

    /// The same of an item that was found otherwise than by what it says.
    pub(crate) fn admits_unread(&self, row: Row) -> Result<bool, Damage> {
        let is_denied = self.hidden.as_ref().is_some_and(|hidden| hidden.denies(row));
        Ok(is_denied == self.only_hidden && self.admits_class(row)?)
    }

    /// Whether it would admit the row, were what the row says not hidden.
    pub(crate) fn would_admit(&self, row: Row) -> Result<bool, Damage> {
        let is_veiled = self.hidden.as_ref().is_some_and(|hidden| hidden.veils(row));
        Ok(is_veiled && !self.only_hidden && self.admits_class(row)?)
    }

    /// The same, whether or not the row is hidden.
    fn admits_class(&self, row: Row) -> Result<bool, Damage> {
        let at = row as usize;
        // First what costs least and leaves out most.
        if let Some((codes, wanted)) = &self.kinds
            && !wanted.contains(&codes.get(at)?)
        {
            return Ok(false);
        }
        if self.part.state.tombstoned.contains(row)
            || !self.unsearchable && self.flags.get(at)? & 1 == 0
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
        if let Some((codes, most)) = &self.sensitivity
            && codes.get(at)? > *most
        {
            return Ok(false);
        }
        Ok(self.among.as_ref().is_none_or(|rows| rows.binary_search(&row).is_ok()))
    }
}
