//! Visibility masks: rows of a snapshot that searches ignore for a caller.
//!
//! The mask is computed per segment and reused across snapshots. The caller's policy decides which classes of items are
//! hidden, and from whom.
//!
//! A masked row is excluded before ranking, counts in no word statistics, and is no neighbour if denied. So no result
//! of a caller depends on a hidden row.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::error::{Damage, SearchError};
use crate::ids::Row;
use crate::item::Sensitivity;
use crate::layout::{GATE_CODES, GATE_OFFSETS, ITEM_KIND, ITEM_SENSITIVITY};
use crate::part::Part;
use crate::reading::by_segment::BySegment;
use crate::reading::filter::{Filter, PartFilter};
use crate::reading::snapshot::{Place, Snapshot};
use crate::segment::Segment;
use crate::state::Bits;
use crate::stop::Stop;
use crate::words::{Kept, Without};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Cached classes of one segment while its rows are scanned. If a segment has more classes, the cache is cleared
    /// and the policy evaluated again.
    const CLASSES_KEPT_MAX: usize = 1024;
}

/// Rows scanned between two cancellation checks.
const ROWS_TOGETHER: u32 = 1 << 14;

/// Properties by which policy decides on an item without reading its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class<'a> {
    /// Kind of the items.
    pub kind: &'a str,
    /// Sensitivity of the items.
    pub sensitivity: Sensitivity,
    /// Gates of the items, in the order of the drafts.
    pub gates: &'a [&'a str],
}

/// Visibility of a class of items to a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// The items are visible with their content.
    Whole,
    /// The items and their edges are visible, their content is not and does not match queries.
    Outline,
    /// The items are denied: not visible at all.
    Nothing,
}

/// The rows of a snapshot that are denied to a caller, or masked. The mask applies to other snapshots of the store as
/// far as they share segments; all rows of an unknown segment are hidden.
#[derive(Debug, Clone, Default)]
pub struct Hidden {
    /// Hidden rows per segment; `None` if all rows are visible.
    rows: BySegment<Option<Arc<HiddenRows>>>,
}

/// Hidden rows of one segment.
#[derive(Debug)]
pub(crate) struct HiddenRows {
    /// Rows that are not visible at all.
    denied: Bits,
    /// Rows whose content is not visible; includes the denied rows.
    veiled: Bits,
    /// Number of masked rows that have words, and number of their words; computed by the first query that needs them.
    words: OnceLock<(u32, u64)>,
    /// Cache of the frequencies of query terms in masked rows.
    kept: Kept,
}

impl Snapshot {
    /// Computes the visibility mask of this snapshot; `sight` decides on each class. Segments that `known`, a mask made
    /// with the same `sight`, covers are copied, so only new segments are scanned.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn hide(
        &self,
        known: &Hidden,
        mut sight: impl FnMut(&Class<'_>) -> Sight,
    ) -> Result<Hidden, SearchError> {
        let mut hidden = Hidden::default();
        for part in self.parts.iter() {
            let rows = match known.rows.get(&part.segment) {
                Some(rows) => rows.clone(),
                None => HiddenRows::of(&part.segment, &self.stop, &mut sight)?.map(Arc::new),
            };
            hidden.rows.insert(&part.segment, rows);
        }
        Ok(hidden)
    }

    /// Returns true if `hidden` hides the content of the item at `place`, whether or not the item itself is visible.
    pub fn is_veiled(&self, hidden: &Hidden, place: Place) -> bool {
        hidden.of(self.part(place)).is_some_and(|hidden| hidden.veils(place.row))
    }

    /// Returns the row addresses of the masked items that `filter` (with `only_hidden`) admits, in order, or `None` if
    /// more than `most` rows are masked.
    ///
    /// # Errors
    /// Corruption, or cancellation.
    pub fn veiled_places(
        &self,
        filter: &Filter,
        most: usize,
    ) -> Result<Option<Vec<Place>>, SearchError> {
        let (mut places, mut left) = (Vec::new(), most);
        let mut steps = self.stop.each(ROWS_TOGETHER);
        for (at, part) in (0..).zip(self.parts.iter()) {
            let hidden = filter.hidden.as_ref().and_then(|hidden| hidden.of(part));
            let veiled = match &hidden {
                None => continue,
                Some(HiddenOf::All) => return Ok(None),
                Some(HiddenOf::Rows(rows)) => &rows.veiled,
            };
            let Some(fewer) = left.checked_sub(veiled.count() as usize) else { return Ok(None) };
            left = fewer;
            let admitted = PartFilter::of(self, filter, part)?;
            let mut next = veiled.first_from(0);
            while let Some(row) = next {
                steps.step()?;
                if admitted.admits(row)? {
                    places.push(Place { part: at, row });
                }
                next = veiled.first_from(row + 1);
            }
        }
        Ok(Some(places))
    }

    /// Returns true if `hidden` denies the item at `place`.
    pub fn is_denied(&self, hidden: &Hidden, place: Place) -> bool {
        hidden.of(self.part(place)).is_some_and(|hidden| hidden.denies(place.row))
    }
}

impl Hidden {
    /// Returns true if no row of the covered segments is hidden.
    pub fn is_empty(&self) -> bool {
        self.rows.values().all(Option::is_none)
    }

    /// Returns true if the mask covers exactly the segments of `snapshot`.
    pub fn is_of(&self, snapshot: &Snapshot) -> bool {
        let knows = |part: &Part| self.rows.get(&part.segment).is_some();
        self.rows.len() == snapshot.parts.len() && snapshot.parts.iter().all(knows)
    }

    /// Mask of one segment; `None` if all its rows are visible.
    pub(crate) fn of(&self, part: &Part) -> Option<HiddenOf> {
        match self.rows.get(&part.segment) {
            Some(rows) => rows.clone().map(HiddenOf::Rows),
            None => Some(HiddenOf::All),
        }
    }
}

/// Mask of one segment.
pub(crate) enum HiddenOf {
    /// These rows are hidden.
    Rows(Arc<HiddenRows>),
    /// All rows are hidden, because the mask does not cover the segment.
    All,
}

impl HiddenOf {
    /// Returns true if the row is not visible at all.
    pub(crate) fn denies(&self, row: Row) -> bool {
        match self {
            Self::Rows(rows) => rows.denied.contains(row),
            Self::All => true,
        }
    }

    /// Returns true if the row's content is not visible.
    pub(crate) fn veils(&self, row: Row) -> bool {
        match self {
            Self::Rows(rows) => rows.veiled.contains(row),
            Self::All => true,
        }
    }

    /// Rows to exclude from word statistics; `None` if no row of the segment counts.
    pub(crate) fn without(
        &self,
        segment: &Segment,
        stop: &Stop,
    ) -> Result<Option<Without<'_, Bits>>, SearchError> {
        let Self::Rows(hidden) = self else { return Ok(None) };
        let (documents, length_total) = match hidden.words.get() {
            Some(&words) => words,
            None => {
                let words = segment.words()?.words_of(&hidden.veiled, stop)?;
                *hidden.words.get_or_init(|| words)
            }
        };
        Ok(Some(Without { rows: &hidden.veiled, documents, length_total, kept: &hidden.kept }))
    }
}

impl HiddenRows {
    /// Returns `None` if all rows are visible with their content.
    fn of(
        segment: &Segment,
        stop: &Stop,
        sight: &mut dyn FnMut(&Class<'_>) -> Sight,
    ) -> Result<Option<Self>, SearchError> {
        let rows = segment.header().items;
        let mut denied = Bits::none(rows as usize);
        let mut veiled = Bits::none(rows as usize);
        let mut classes = Classes::of(segment)?;
        let mut steps = stop.each(ROWS_TOGETHER);
        for row in 0..rows {
            steps.step()?;
            let seen = classes.sight(row, sight)?;
            if seen != Sight::Whole {
                veiled.insert(row);
            }
            if seen == Sight::Nothing {
                denied.insert(row);
            }
        }
        Ok((veiled.count() > 0).then(|| Self {
            denied,
            veiled,
            words: OnceLock::new(),
            kept: Kept::default(),
        }))
    }
}

/// Symbol codes of a class: kind, sensitivity, gates.
type Codes<'a> = (u32, u8, &'a [u32]);

/// Cache of the visibility of classes while one segment is scanned.
struct Classes<'a> {
    segment: &'a Segment,
    kinds: &'a [u32],
    sensitivities: &'a [u8],
    gates: &'a [u32],
    gate_codes: &'a [u32],
    /// Class of the previous row: neighbouring rows mostly share a class.
    last: Option<(Codes<'a>, Sight)>,
    known: HashMap<Codes<'a>, Sight>,
}

impl<'a> Classes<'a> {
    fn of(segment: &'a Segment) -> Result<Self, Damage> {
        let (gates, gate_codes) = segment.pieces::<u32, u32>(GATE_OFFSETS, GATE_CODES)?.whole()?;
        Ok(Self {
            segment,
            kinds: segment.view(ITEM_KIND)?.all()?,
            sensitivities: segment.view(ITEM_SENSITIVITY)?.all()?,
            gates,
            gate_codes: gate_codes.all()?,
            last: None,
            known: HashMap::new(),
        })
    }

    fn sight(
        &mut self,
        row: Row,
        ask: &mut dyn FnMut(&Class<'_>) -> Sight,
    ) -> Result<Sight, Damage> {
        let at = row as usize;
        // `whole` has checked that the offsets ascend and end where the codes do.
        let gates = &self.gate_codes[self.gates[at] as usize..self.gates[at + 1] as usize];
        let codes = (self.kinds[at], self.sensitivities[at], gates);
        if let Some((last, sight)) = self.last
            && last == codes
        {
            return Ok(sight);
        }
        let sight = match self.known.get(&codes) {
            Some(&sight) => sight,
            None => {
                let sight = self.ask(row, codes, ask)?;
                if self.known.len() == CLASSES_KEPT_MAX {
                    self.known.clear();
                }
                self.known.insert(codes, sight);
                sight
            }
        };
        self.last = Some((codes, sight));
        Ok(sight)
    }

    fn ask(
        &self,
        row: Row,
        (kind, sensitivity, gates): Codes<'_>,
        ask: &mut dyn FnMut(&Class<'_>) -> Sight,
    ) -> Result<Sight, Damage> {
        let gates = gates.iter().map(|&code| self.segment.symbol(code));
        let gates = gates.collect::<Result<Vec<_>, _>>()?;
        let Some(sensitivity) = Sensitivity::of_code(sensitivity) else {
            let detail = format!("row {row}: no sensitivity has code {sensitivity}");
            return Err(self.segment.wrong("SEG-15", ITEM_SENSITIVITY, detail));
        };
        Ok(ask(&Class { kind: self.segment.symbol(kind)?, sensitivity, gates: &gates }))
    }
}
