//! What a caller does not see: rows that searches pass over as if they were not there.
//!
//! Owns which rows these are, segment by segment, and keeps them from one snapshot to the next. Must not
//! know why a class of items is hidden, nor from whom: whoever asks says so.
//!
//! A hidden row is passed over before it is ranked, counts nowhere in the statistics of words, and is no
//! neighbour, so that nothing a caller is given depends on it.

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

    /// Classes of one segment whose sight is kept at hand while its rows are looked through; where there are more,
    /// it is asked for again.
    const CLASSES_KEPT_MAX: usize = 1024;
}

/// Rows that are looked at between two looks at whether that is still wanted.
const ROWS_TOGETHER: u32 = 1 << 14;

/// What items can be told apart by without being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class<'a> {
    /// What they are.
    pub kind: &'a str,
    /// How carefully they are to be shown.
    pub sensitivity: Sensitivity,
    /// Their gates, in the order in which they were given.
    pub gates: &'a [&'a str],
}

/// How much a caller sees of the items of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// All of them.
    Whole,
    /// That they are there, and how they hang together, but not what they say: they are not found by it.
    Outline,
    /// Nothing.
    Nothing,
}

/// The rows of a snapshot that a caller does not see, or not whole. It holds in other snapshots of the same
/// store as far as they share segments; of a segment that it does not know, it hides all.
#[derive(Debug, Clone, Default)]
pub struct Hidden {
    /// `None` where all is seen.
    rows: BySegment<Option<Arc<HiddenRows>>>,
}

/// Those of one segment.
#[derive(Debug)]
pub(crate) struct HiddenRows {
    /// Seen not at all.
    denied: Bits,
    /// The same, and seen in outline only.
    veiled: Bits,
    /// How many of the veiled have words, and how many words; looked for when a question needs it.
    words: OnceLock<(u32, u64)>,
    /// How often the veiled have the words that were asked for.
    kept: Kept,
}

impl Snapshot {
    /// What is hidden of this snapshot, when `sight` says how much is seen of a class. What `known`, made
    /// with the same `sight`, says of a segment is taken over, so that only new segments are looked through.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
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

    /// Whether `hidden` hides what the item at a place says, be the item itself hidden or not.
    pub fn is_veiled(&self, hidden: &Hidden, place: Place) -> bool {
        hidden.of(self.part(place)).is_some_and(|hidden| hidden.veils(place.row))
    }

    /// The places of what `filter`, which looks at just what is hidden, finds, in order, where no more than
    /// `most` are hidden.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
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

    /// Whether `hidden` hides the item at a place altogether.
    pub fn is_denied(&self, hidden: &Hidden, place: Place) -> bool {
        hidden.of(self.part(place)).is_some_and(|hidden| hidden.denies(place.row))
    }
}

impl Hidden {
    /// Whether nothing of what it knows is hidden.
    pub fn is_empty(&self) -> bool {
        self.rows.values().all(Option::is_none)
    }

    /// Whether it knows just the segments of a snapshot.
    pub fn is_of(&self, snapshot: &Snapshot) -> bool {
        let knows = |part: &Part| self.rows.get(&part.segment).is_some();
        self.rows.len() == snapshot.parts.len() && snapshot.parts.iter().all(knows)
    }

    /// What it hides of a part; `None` where that is nothing.
    pub(crate) fn of(&self, part: &Part) -> Option<HiddenOf> {
        match self.rows.get(&part.segment) {
            Some(rows) => rows.clone().map(HiddenOf::Rows),
            None => Some(HiddenOf::All),
        }
    }
}

/// What is hidden of one part.
pub(crate) enum HiddenOf {
    /// These rows.
    Rows(Arc<HiddenRows>),
    /// All of them: nobody has said what may be seen.
    All,
}

impl HiddenOf {
    /// Whether the caller sees nothing of the row.
    pub(crate) fn denies(&self, row: Row) -> bool {
        match self {
            Self::Rows(rows) => rows.denied.contains(row),
            Self::All => true,
        }
    }

    /// Whether the caller does not see what the row says.
    pub(crate) fn veils(&self, row: Row) -> bool {
        match self {
            Self::Rows(rows) => rows.veiled.contains(row),
            Self::All => true,
        }
    }

    /// The rows whose words do not count; `None` where no row's do.
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
    /// `None` where all rows are seen whole.
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

/// Kind, sensitivity and gates, by their codes.
type Codes<'a> = (u32, u8, &'a [u32]);

/// The classes of the rows of one segment, and how much is seen of those that came.
struct Classes<'a> {
    segment: &'a Segment,
    kinds: &'a [u32],
    sensitivities: &'a [u8],
    gates: &'a [u32],
    gate_codes: &'a [u32],
    /// Rows that lie side by side are mostly of one class.
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
        // `whole` has seen that the offsets rise and end where the codes do.
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
