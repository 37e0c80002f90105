//! Visibility masks: rows of a snapshot that searches ignore for a caller.
//!
//! The mask is computed per segment and reused across snapshots. The caller's policy decides which classes of items are
//! hidden, and from whom.
//!
//! A masked row is excluded from searches of content before ranking, and counts in no word statistics. A denied row is
//! also excluded from searches that read no content, and is no neighbour. So no score or rank of a caller's result
//! depends on content that the caller may not see.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::cancel::CancelToken;
use crate::error::{CorruptionError, SearchError};
use crate::fulltext::{ExcludedRows, FrequencyCache};
use crate::ids::Row;
use crate::item::Sensitivity;
use crate::layout::{GATE_CODES, GATE_OFFSETS, ITEM_KIND, ITEM_SENSITIVITY};
use crate::query::filter::{Filter, SegmentFilter};
use crate::query::per_segment_cache::PerSegmentCache;
use crate::query::snapshot::{RowAddress, Snapshot};
use crate::row_state::RowBitmap;
use crate::segment::Segment;
use crate::segment_snapshot::SegmentSnapshot;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Cached classes of one segment while its rows are scanned. If a segment has more classes, the cache is cleared
    /// and the policy evaluated again.
    const CLASSES_KEPT_MAX: usize = 1024;
}

/// Rows scanned between two cancellation checks.
const ROWS_PER_CANCEL_CHECK: u32 = 1 << 14;

/// Properties by which policy decides on an item without reading its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessClass<'a> {
    /// Kind of the items.
    pub kind: &'a str,
    /// Sensitivity of the items.
    pub sensitivity: Sensitivity,
    /// Gates of the items, in the order of the drafts.
    pub gates: &'a [&'a str],
}

/// Visibility of a class of items to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// The items are visible with their content.
    Full,
    /// The items and their edges are visible, their content is not and does not match queries.
    MetadataOnly,
    /// The items are denied: not visible at all.
    Denied,
}

/// The rows of a snapshot that are denied to a caller, or masked. The mask applies to other snapshots of the store as
/// far as they share segments; all rows of an unknown segment are hidden.
#[derive(Debug, Clone, Default)]
pub struct VisibilityMask {
    /// Hidden rows per segment; `None` if all rows are visible.
    rows: PerSegmentCache<Option<Arc<MaskedRows>>>,
}

/// Hidden rows of one segment.
#[derive(Debug)]
pub(crate) struct MaskedRows {
    /// Rows that are not visible at all.
    denied: RowBitmap,
    /// Rows whose content is not visible; includes the denied rows.
    masked: RowBitmap,
    /// Number of masked rows that have words, and number of their words; computed by the first query that needs them.
    masked_word_counts: OnceLock<(u32, u64)>,
    /// Cache of the frequencies of query terms in masked rows.
    frequency_cache: FrequencyCache,
}

impl Snapshot {
    /// Computes the visibility mask of this snapshot; `sight` decides on each class. Segments that `known`, a mask made
    /// with the same `sight`, covers are copied, so only new segments are scanned.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn mask(
        &self,
        known: &VisibilityMask,
        mut sight: impl FnMut(&AccessClass<'_>) -> Visibility,
    ) -> Result<VisibilityMask, SearchError> {
        let mut hidden = VisibilityMask::default();
        for part in self.segments.iter() {
            let rows = match known.rows.get(&part.segment) {
                Some(rows) => rows.clone(),
                None => MaskedRows::build(&part.segment, &self.cancel, &mut sight)?.map(Arc::new),
            };
            hidden.rows.insert(&part.segment, rows);
        }
        Ok(hidden)
    }

    /// Returns true if `hidden` hides the content of the item at `place`, whether or not the item itself is visible.
    pub fn is_masked(&self, hidden: &VisibilityMask, place: RowAddress) -> bool {
        hidden.for_segment(self.segment(place)).is_some_and(|hidden| hidden.is_masked(place.row))
    }

    /// Returns the row addresses of the masked items that `filter` (with `only_masked`) admits, in order, or `None` if
    /// more than `most` rows are masked.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn masked_items(
        &self,
        filter: &Filter,
        most: usize,
    ) -> Result<Option<Vec<RowAddress>>, SearchError> {
        let (mut places, mut left) = (Vec::new(), most);
        let mut steps = self.cancel.every(ROWS_PER_CANCEL_CHECK);
        for (at, part) in (0..).zip(self.segments.iter()) {
            let hidden = filter.mask.as_ref().and_then(|hidden| hidden.for_segment(part));
            let veiled = match &hidden {
                None => continue,
                Some(SegmentMask::All) => return Ok(None),
                Some(SegmentMask::Rows(rows)) => &rows.masked,
            };
            let Some(fewer) = left.checked_sub(veiled.count() as usize) else { return Ok(None) };
            left = fewer;
            let admitted = SegmentFilter::new(self, filter, part)?;
            let mut next = veiled.next_set(0);
            while let Some(row) = next {
                steps.tick()?;
                if admitted.admits(row)? {
                    places.push(RowAddress { segment_ord: at, row });
                }
                next = veiled.next_set(row + 1);
            }
        }
        Ok(Some(places))
    }

    /// Returns true if `hidden` denies the item at `place`.
    pub fn is_denied(&self, hidden: &VisibilityMask, place: RowAddress) -> bool {
        hidden.for_segment(self.segment(place)).is_some_and(|hidden| hidden.is_denied(place.row))
    }
}

impl VisibilityMask {
    /// Returns true if no row of the covered segments is hidden.
    pub fn is_empty(&self) -> bool {
        self.rows.values().all(Option::is_none)
    }

    /// Returns true if the mask covers exactly the segments of `snapshot`.
    pub fn covers(&self, snapshot: &Snapshot) -> bool {
        let knows = |part: &SegmentSnapshot| self.rows.get(&part.segment).is_some();
        self.rows.len() == snapshot.segments.len() && snapshot.segments.iter().all(knows)
    }

    /// Mask of one segment; `None` if all its rows are visible.
    pub(crate) fn for_segment(&self, part: &SegmentSnapshot) -> Option<SegmentMask> {
        match self.rows.get(&part.segment) {
            Some(rows) => rows.clone().map(SegmentMask::Rows),
            None => Some(SegmentMask::All),
        }
    }
}

/// Mask of one segment.
pub(crate) enum SegmentMask {
    /// These rows are hidden.
    Rows(Arc<MaskedRows>),
    /// All rows are hidden, because the mask does not cover the segment.
    All,
}

impl SegmentMask {
    /// Returns true if the row is not visible at all.
    pub(crate) fn is_denied(&self, row: Row) -> bool {
        match self {
            Self::Rows(rows) => rows.denied.contains(row),
            Self::All => true,
        }
    }

    /// Returns true if the row's content is not visible.
    pub(crate) fn is_masked(&self, row: Row) -> bool {
        match self {
            Self::Rows(rows) => rows.masked.contains(row),
            Self::All => true,
        }
    }

    /// Rows to exclude from word statistics; `None` if no row of the segment counts.
    pub(crate) fn excluded_rows(
        &self,
        segment: &Segment,
        stop: &CancelToken,
    ) -> Result<Option<ExcludedRows<'_, RowBitmap>>, SearchError> {
        let Self::Rows(hidden) = self else { return Ok(None) };
        let (documents, length_total) = match hidden.masked_word_counts.get() {
            Some(&words) => words,
            None => {
                let words = segment.postings()?.count_words(&hidden.masked, stop)?;
                *hidden.masked_word_counts.get_or_init(|| words)
            }
        };
        Ok(Some(ExcludedRows {
            rows: &hidden.masked,
            documents,
            length_total,
            cache: &hidden.frequency_cache,
        }))
    }
}

impl MaskedRows {
    /// Returns `None` if all rows are visible with their content.
    fn build(
        segment: &Segment,
        stop: &CancelToken,
        sight: &mut dyn FnMut(&AccessClass<'_>) -> Visibility,
    ) -> Result<Option<Self>, SearchError> {
        let rows = segment.header().items;
        let mut denied = RowBitmap::empty(rows as usize);
        let mut veiled = RowBitmap::empty(rows as usize);
        let mut classes = ClassCache::open(segment)?;
        let mut steps = stop.every(ROWS_PER_CANCEL_CHECK);
        for row in 0..rows {
            steps.tick()?;
            let seen = classes.visibility(row, sight)?;
            if seen != Visibility::Full {
                veiled.insert(row);
            }
            if seen == Visibility::Denied {
                denied.insert(row);
            }
        }
        Ok((veiled.count() > 0).then(|| Self {
            denied,
            masked: veiled,
            masked_word_counts: OnceLock::new(),
            frequency_cache: FrequencyCache::default(),
        }))
    }
}

/// Symbol codes of a class: kind, sensitivity, gates.
type ClassCodes<'a> = (u32, u8, &'a [u32]);

/// Cache of the visibility of classes while one segment is scanned.
struct ClassCache<'a> {
    segment: &'a Segment,
    kinds: &'a [u32],
    sensitivities: &'a [u8],
    gates: &'a [u32],
    gate_codes: &'a [u32],
    /// Class of the previous row: neighbouring rows mostly share a class.
    last: Option<(ClassCodes<'a>, Visibility)>,
    by_codes: HashMap<ClassCodes<'a>, Visibility>,
}

impl<'a> ClassCache<'a> {
    fn open(segment: &'a Segment) -> Result<Self, CorruptionError> {
        let (gates, gate_codes) =
            segment.var_len_column::<u32, u32>(GATE_OFFSETS, GATE_CODES)?.checked_parts()?;
        Ok(Self {
            segment,
            kinds: segment.column(ITEM_KIND)?.all()?,
            sensitivities: segment.column(ITEM_SENSITIVITY)?.all()?,
            gates,
            gate_codes: gate_codes.all()?,
            last: None,
            by_codes: HashMap::new(),
        })
    }

    fn visibility(
        &mut self,
        row: Row,
        ask: &mut dyn FnMut(&AccessClass<'_>) -> Visibility,
    ) -> Result<Visibility, CorruptionError> {
        let at = row as usize;
        // `checked_parts` has checked that the offsets ascend and end where the codes do.
        let gates = &self.gate_codes[self.gates[at] as usize..self.gates[at + 1] as usize];
        let codes = (self.kinds[at], self.sensitivities[at], gates);
        if let Some((last, sight)) = self.last
            && last == codes
        {
            return Ok(sight);
        }
        let sight = match self.by_codes.get(&codes) {
            Some(&sight) => sight,
            None => {
                let sight = self.evaluate(row, codes, ask)?;
                if self.by_codes.len() == CLASSES_KEPT_MAX {
                    self.by_codes.clear();
                }
                self.by_codes.insert(codes, sight);
                sight
            }
        };
        self.last = Some((codes, sight));
        Ok(sight)
    }

    fn evaluate(
        &self,
        row: Row,
        (kind, sensitivity, gates): ClassCodes<'_>,
        ask: &mut dyn FnMut(&AccessClass<'_>) -> Visibility,
    ) -> Result<Visibility, CorruptionError> {
        let gates = gates.iter().map(|&code| self.segment.symbol(code));
        let gates = gates.collect::<Result<Vec<_>, _>>()?;
        let Some(sensitivity) = Sensitivity::from_code(sensitivity) else {
            let detail = format!("row {row}: no sensitivity has code {sensitivity}");
            return Err(self.segment.damage("SEG-15", ITEM_SENSITIVITY, detail));
        };
        Ok(ask(&AccessClass { kind: self.segment.symbol(kind)?, sensitivity, gates: &gates }))
    }
}
