//! Filters of searches. Conditions are evaluated on column codes, without reading the item. Every retriever applies
//! them in its own loop, before ranking.

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

/// Conditions on the items that a search returns.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Required modality; any if `None`.
    pub modality: Option<String>,
    /// Allowed kinds; all if empty.
    pub kinds: Vec<String>,
    /// Highest allowed sensitivity; any if `None`.
    pub sensitivity_max: Option<Sensitivity>,
    /// Excludes superseded items.
    pub current_only: bool,
    /// Allowlist of items; all if `None`.
    pub among: Option<Arc<Chosen>>,
    /// Visibility mask of the caller: excludes denied items, and masked items if the search reads content.
    pub hidden: Option<Arc<Hidden>>,
    /// Returns only items that the mask hides, for reports on withheld items.
    pub only_hidden: bool,
    /// Includes items that are not searchable, for lists by kind.
    pub unsearchable: bool,
}

/// Compares by pointer: comparing the rows would take longer than the search.
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

/// A set of items, selected one by one in one snapshot. In another snapshot, the set has the items of shared segments.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// Selected rows of each segment that has any, ascending.
    rows: BySegment<Arc<[Row]>>,
}

impl Chosen {
    /// Returns true if the set has no items.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.rows.values().map(|rows| rows.len()).sum()
    }
}

impl Snapshot {
    /// Makes the set of the items at these row addresses.
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

    /// Returns true if `filter` admits an item that was found without reading its content. An item whose content alone
    /// is masked is admitted.
    ///
    /// # Errors
    /// Corruption.
    pub fn admits(&self, filter: &Filter, place: Place) -> Result<bool, Damage> {
        PartFilter::of(self, filter, self.part(place))?.admits_unread(place.row)
    }
}

impl Filter {
    /// Returns true if the caller may learn anything from the content of the item at `place`.
    pub(crate) fn reads(&self, snapshot: &Snapshot, place: Place) -> bool {
        let hidden = self.hidden.as_ref();
        hidden.is_some_and(|hidden| snapshot.is_veiled(hidden, place)) == self.only_hidden
    }
}

/// A [`Filter`] resolved for one segment: symbol codes in place of names.
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

    /// Returns true if no row can be admitted, so the segment need not be searched.
    pub(crate) fn admits_nothing(&self) -> bool {
        self.among.as_ref().is_some_and(|rows| rows.is_empty())
            || self.kinds.as_ref().is_some_and(|(_, codes)| codes.is_empty())
            || self.only_hidden && self.hidden.is_none()
            || !self.only_hidden && matches!(self.hidden, Some(HiddenOf::All))
    }

    /// Rows of the filter's allowlist, if the filter has one.
    pub(crate) fn chosen(&self) -> Option<&[Row]> {
        self.among.as_deref()
    }

    /// Returns true if a search that reads content may return the item of this row.
    #[inline]
    pub(crate) fn admits(&self, row: Row) -> Result<bool, Damage> {
        let is_veiled = self.hidden.as_ref().is_some_and(|hidden| hidden.veils(row));
        Ok(is_veiled == self.only_hidden && self.admits_class(row)?)
    }

    /// Returns true if the item of this row is admitted when found without reading its content.
    pub(crate) fn admits_unread(&self, row: Row) -> Result<bool, Damage> {
        let is_denied = self.hidden.as_ref().is_some_and(|hidden| hidden.denies(row));
        Ok(is_denied == self.only_hidden && self.admits_class(row)?)
    }

    /// Returns true if the row is masked and would be admitted without the mask.
    pub(crate) fn would_admit(&self, row: Row) -> Result<bool, Damage> {
        let is_veiled = self.hidden.as_ref().is_some_and(|hidden| hidden.veils(row));
        Ok(is_veiled && !self.only_hidden && self.admits_class(row)?)
    }

    /// Evaluates all conditions but the mask.
    fn admits_class(&self, row: Row) -> Result<bool, Damage> {
        let at = row as usize;
        // The cheapest and most selective condition comes first.
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
