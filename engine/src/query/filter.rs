//! Filters of searches. Conditions are evaluated on column codes, without reading the item. Every retriever applies
//! them in its own loop, before ranking.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::error::CorruptionError;
use crate::ids::Row;
use crate::item::Sensitivity;
use crate::layout::{ITEM_FLAGS, ITEM_KIND, ITEM_MODALITY, ITEM_SENSITIVITY};
use crate::query::as_of::TimeColumns;
use crate::query::per_segment_cache::PerSegmentCache;
use crate::query::snapshot::{RowAddress, Snapshot};
use crate::query::visibility::{SegmentMask, VisibilityMask};
use crate::segment::ColumnView;
use crate::segment_snapshot::SegmentSnapshot;

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
    pub allowlist: Option<Arc<ItemSet>>,
    /// Visibility mask of the caller: excludes denied items, and masked items if the search reads content.
    pub mask: Option<Arc<VisibilityMask>>,
    /// Returns only items that the mask hides, for reports on withheld items.
    pub only_masked: bool,
    /// Includes items that are not searchable, for lists by kind.
    pub include_unsearchable: bool,
}

/// Compares by pointer: comparing the rows would take longer than the search.
fn is_same_arc<T>(one: &Option<Arc<T>>, other: &Option<Arc<T>>) -> bool {
    one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr)
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            modality,
            kinds,
            sensitivity_max,
            current_only,
            allowlist: among,
            mask: hidden,
            only_masked: only_hidden,
            include_unsearchable: unsearchable,
        } = self;
        *modality == other.modality
            && *kinds == other.kinds
            && *sensitivity_max == other.sensitivity_max
            && *current_only == other.current_only
            && *only_hidden == other.only_masked
            && *unsearchable == other.include_unsearchable
            && is_same_arc(among, &other.allowlist)
            && is_same_arc(hidden, &other.mask)
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
            allowlist: among,
            mask: hidden,
            only_masked: only_hidden,
            include_unsearchable: unsearchable,
        } = self;
        (modality, kinds, sensitivity_max, current_only, only_hidden, unsearchable).hash(state);
        (among.as_ref().map(Arc::as_ptr), hidden.as_ref().map(Arc::as_ptr)).hash(state);
    }
}

/// A set of items, selected one by one in one snapshot. In another snapshot, the set has the items of shared segments.
#[derive(Debug, Clone, Default)]
pub struct ItemSet {
    /// Selected rows of each segment that has any, ascending.
    rows: PerSegmentCache<Arc<[Row]>>,
}

impl ItemSet {
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
    pub fn item_set(&self, places: &[RowAddress]) -> ItemSet {
        let mut sorted = places.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut chosen = ItemSet::default();
        for places in sorted.chunk_by(|one, next| one.segment_ord == next.segment_ord) {
            let rows = places.iter().map(|place| place.row).collect();
            chosen.rows.insert(&self.segment(places[0]).segment, rows);
        }
        chosen
    }

    /// Returns true if `filter` admits an item that was found without reading its content. An item whose content alone
    /// is masked is admitted.
    ///
    /// # Errors
    /// Corruption.
    pub fn admits(&self, filter: &Filter, place: RowAddress) -> Result<bool, CorruptionError> {
        SegmentFilter::new(self, filter, self.segment(place))?.admits_without_content(place.row)
    }
}

impl Filter {
    /// Returns true if the caller may learn anything from the content of the item at `place`.
    pub(crate) fn can_read_content(&self, snapshot: &Snapshot, place: RowAddress) -> bool {
        let hidden = self.mask.as_ref();
        hidden.is_some_and(|hidden| snapshot.is_masked(hidden, place)) == self.only_masked
    }
}

/// A [`Filter`] resolved for one segment: symbol codes in place of names.
pub(crate) struct SegmentFilter<'a> {
    snapshot: &'a Snapshot,
    segment: &'a SegmentSnapshot,
    time_columns: TimeColumns<'a>,
    current_only: bool,
    modality: Option<(ColumnView<'a, u32>, Option<u32>)>,
    kinds: Option<(ColumnView<'a, u32>, Vec<u32>)>,
    sensitivity: Option<(ColumnView<'a, u8>, u8)>,
    flags: ColumnView<'a, u8>,
    allowlist: Option<Arc<[Row]>>,
    mask: Option<SegmentMask>,
    only_masked: bool,
    include_unsearchable: bool,
}

impl<'a> SegmentFilter<'a> {
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        filter: &Filter,
        part: &'a SegmentSnapshot,
    ) -> Result<Self, CorruptionError> {
        let segment = &*part.segment;
        let modality = match &filter.modality {
            Some(name) => Some((segment.column(ITEM_MODALITY)?, segment.symbol_code(name)?)),
            None => None,
        };
        let kinds = if filter.kinds.is_empty() {
            None
        } else {
            let codes = filter.kinds.iter().map(|kind| segment.symbol_code(kind));
            let codes = codes.collect::<Result<Vec<_>, _>>()?;
            Some((segment.column(ITEM_KIND)?, codes.into_iter().flatten().collect()))
        };
        let sensitivity = match filter.sensitivity_max {
            Some(most) => Some((segment.column(ITEM_SENSITIVITY)?, most as u8)),
            None => None,
        };
        Ok(Self {
            snapshot,
            segment: part,
            time_columns: TimeColumns::for_items(snapshot.as_of, segment)?,
            current_only: filter.current_only,
            modality,
            kinds,
            sensitivity,
            flags: segment.column(ITEM_FLAGS)?,
            allowlist: filter.allowlist.as_ref().map(|chosen| {
                chosen.rows.get(&part.segment).map_or_else(|| Arc::from([]), Arc::clone)
            }),
            mask: filter.mask.as_ref().and_then(|hidden| hidden.for_segment(part)),
            only_masked: filter.only_masked,
            include_unsearchable: filter.include_unsearchable,
        })
    }

    /// Returns true if no row can be admitted, so the segment need not be searched.
    pub(crate) fn admits_nothing(&self) -> bool {
        self.allowlist.as_ref().is_some_and(|rows| rows.is_empty())
            || self.kinds.as_ref().is_some_and(|(_, codes)| codes.is_empty())
            || self.only_masked && self.mask.is_none()
            || !self.only_masked && matches!(self.mask, Some(SegmentMask::All))
    }

    /// Rows of the filter's allowlist, if the filter has one.
    pub(crate) fn allowlist(&self) -> Option<&[Row]> {
        self.allowlist.as_deref()
    }

    /// Returns true if a search that reads content may return the item of this row.
    #[inline]
    pub(crate) fn admits(&self, row: Row) -> Result<bool, CorruptionError> {
        let is_veiled = self.mask.as_ref().is_some_and(|hidden| hidden.is_masked(row));
        Ok(is_veiled == self.only_masked && self.matches_conditions(row)?)
    }

    /// Returns true if the item of this row is admitted when found without reading its content.
    pub(crate) fn admits_without_content(&self, row: Row) -> Result<bool, CorruptionError> {
        let is_denied = self.mask.as_ref().is_some_and(|hidden| hidden.is_denied(row));
        Ok(is_denied == self.only_masked && self.matches_conditions(row)?)
    }

    /// Returns true if the row is masked and would be admitted without the mask.
    pub(crate) fn admits_unmasked(&self, row: Row) -> Result<bool, CorruptionError> {
        let is_veiled = self.mask.as_ref().is_some_and(|hidden| hidden.is_masked(row));
        Ok(is_veiled && !self.only_masked && self.matches_conditions(row)?)
    }

    /// Evaluates all conditions but the mask.
    fn matches_conditions(&self, row: Row) -> Result<bool, CorruptionError> {
        let at = row as usize;
        // The cheapest and most selective condition comes first.
        if let Some((codes, wanted)) = &self.kinds
            && !wanted.contains(&codes.get(at)?)
        {
            return Ok(false);
        }
        if self.segment.state.tombstoned.contains(row)
            || !self.include_unsearchable && self.flags.get(at)? & 1 == 0
            || !self.time_columns.is_visible(row)?
            || self.current_only && self.snapshot.is_superseded(self.segment, row)?
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
        Ok(self.allowlist.as_ref().is_none_or(|rows| rows.binary_search(&row).is_ok()))
    }
}
