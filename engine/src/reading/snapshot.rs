//! A frozen view of the store. Every read starts here.
//!
//! A snapshot is a list of sealed segments, each with the state its rows had at one commit. It
//! shares them with other snapshots and never changes; a writer never waits for its readers. It may
//! look from a [`Moment`] other than now; every read then answers from there.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::error::{Damage, SearchError};
use crate::ids::{EdgeId, ItemId, Row, Seq, SourceId};
use crate::layout::{
    Column, ITEM_KIND, ITEM_MODALITY, ITEM_RECORDED_AT, SOURCE_RECORDED_AT, VECTOR_ITEM,
};
use crate::manifest::Model;
use crate::os::clock::Micros;
use crate::part::Part;
use crate::reading::moment::{Moment, Times};
use crate::reading::searching::Searching;
use crate::segment::{EdgeView, ItemView, SourceView, TombstoneView};
use crate::stop::Stop;

/// Rows that are counted between two looks at whether the counts are still wanted.
const ROWS_TOGETHER: u32 = 1 << 14;

/// Where an item lies in one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub(crate) part: u32,
    pub(crate) row: Row,
}

/// What an item is at the snapshot's moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It stands.
    Current,
    /// A newer item replaces it.
    Superseded,
    /// It is hidden.
    Tombstoned,
}

impl Status {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Superseded => "superseded",
            Self::Tombstoned => "tombstoned",
        }
    }
}

/// How many of each there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Items that are not tombstoned.
    pub items: u64,
    /// Of these, items that a newer one replaces.
    pub superseded: u64,
    /// Items that are tombstoned.
    pub tombstoned: u64,
    /// Edges that are not tombstoned.
    pub edges: u64,
    /// Sources.
    pub sources: u64,
    /// Embeddings.
    pub vectors: u64,
    /// Sealed segments and parts of the tail.
    pub parts: u64,
}

/// Which state of a store a snapshot shows: a newer one is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edition {
    view: u64,
    seq: Seq,
}

/// A frozen view of a store.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) parts: Arc<[Part]>,
    pub(crate) seq: Seq,
    pub(crate) model: Option<Model>,
    /// Which of a writer's snapshots it is.
    pub(crate) view: u64,
    pub(crate) moment: Moment,
    /// When what is read of it is to end early.
    pub(crate) stop: Stop,
    /// How it is searched by meaning.
    pub(crate) searching: Searching,
}

impl Snapshot {
    /// These parts as of commit `seq`, which is their newest, at no moment in particular.
    pub(crate) fn of(parts: &[Part], seq: Seq, model: Option<Model>) -> Self {
        let (moment, stop) = (Moment::default(), Stop::default());
        let searching = Searching::default();
        Self { parts: parts.into(), seq, model, moment, stop, searching, view: 0 }
    }

    /// The same commit, looked at from another moment. Places stay good between the two; those of
    /// items that `moment` does not know are answered for as if it did.
    pub fn at(&self, moment: Moment) -> Self {
        Self { moment, ..self.clone() }
    }

    /// The same; reads of it whose work grows with the store end once `stop` says so.
    #[must_use]
    pub fn until(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Whether what is read of it is still wanted: for loops over what it gives.
    ///
    /// # Errors
    /// [`SearchError::Interrupted`] where it is not.
    pub fn check(&self) -> Result<(), SearchError> {
        self.stop.check()
    }

    /// From when it looks.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// The newest commit that it shows.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// Which state of its store it shows. Two of one opened [`Store`](crate::Store) that have the same
    /// edition show the same, but for their moments, and places in one are places in the other.
    pub fn edition(&self) -> Edition {
        Edition { view: self.view, seq: self.seq }
    }

    /// The encoder of its embeddings.
    pub fn model(&self) -> Option<Model> {
        self.model
    }

    /// How many of each there are. Counts what is in the states at once, and row by row where the
    /// snapshot looks from an earlier time.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn counts(&self) -> Result<Counts, SearchError> {
        let mut counts = Counts { parts: self.parts.len() as u64, ..Counts::default() };
        for part in self.parts.iter() {
            match self.moment.as_of {
                None => count_all(part, &mut counts),
                Some(_) => self.count_known(part, &mut counts)?,
            }
        }
        Ok(counts)
    }

    fn count_known(&self, part: &Part, counts: &mut Counts) -> Result<(), SearchError> {
        let mut steps = self.stop.each(ROWS_TOGETHER);
        let (segment, header) = (&*part.segment, part.segment.header());
        let times = Times::of_items(self.moment, segment)?;
        for row in 0..header.items {
            steps.step()?;
            if !times.knows(row)? {
                continue;
            }
            if part.state.tombstoned.contains(row) {
                counts.tombstoned += 1;
            } else {
                counts.items += 1;
                counts.superseded += u64::from(self.is_superseded(part, row)?);
            }
        }
        for &row in segment.view::<u32>(VECTOR_ITEM)?.all()? {
            steps.step()?;
            counts.vectors += u64::from(times.knows(row)?);
        }
        let times = Times::of_edges(self.moment, segment)?;
        for row in 0..header.edges {
            steps.step()?;
            let shown = !part.state.edges_tombstoned.contains(row) && times.knows(row)?;
            counts.edges += u64::from(shown);
        }
        let recorded = segment.view::<i64>(SOURCE_RECORDED_AT)?.all()?.iter();
        counts.sources += recorded.filter(|&&at| self.moment.knows(Micros(at))).count() as u64;
        Ok(())
    }

    pub(crate) fn part(&self, place: Place) -> &Part {
        &self.parts[place.part as usize]
    }

    pub(crate) fn parts_newest_first(&self) -> impl Iterator<Item = (u32, &Part)> {
        let count = u32::try_from(self.parts.len()).expect("limits.rs bounds segments and tail");
        (0..count).rev().map(|part| (part, &self.parts[part as usize]))
    }

    /// Where an item lies; tombstoned ones too.
    ///
    /// # Errors
    /// Damage.
    pub fn find(&self, id: ItemId) -> Result<Option<Place>, Damage> {
        match self.find_row(id)? {
            Some(place) if self.knows(place)? => Ok(Some(place)),
            _ => Ok(None),
        }
    }

    /// Whether the item at a place was known at the snapshot's moment.
    pub(crate) fn knows(&self, place: Place) -> Result<bool, Damage> {
        Times::of_items(self.moment, &self.part(place).segment)?.knows(place.row)
    }

    /// Whether the item at a place was known and is true at the snapshot's moment.
    pub(crate) fn shows(&self, place: Place) -> Result<bool, Damage> {
        Times::of_items(self.moment, &self.part(place).segment)?.shows(place.row)
    }

    /// Where an item lies, whenever it was recorded.
    pub(crate) fn find_row(&self, id: ItemId) -> Result<Option<Place>, Damage> {
        for (part, it) in self.parts_newest_first() {
            if let Some(row) = it.segment.row_of_item(id)? {
                return Ok(Some(Place { part, row }));
            }
        }
        Ok(None)
    }

    /// The newest item with this ref that is neither superseded nor tombstoned.
    ///
    /// # Errors
    /// Damage.
    pub fn find_ref(&self, reference: &str) -> Result<Option<Place>, Damage> {
        for (part, it) in self.parts_newest_first() {
            let rows = it.segment.rows_of_ref(reference)?;
            if rows.is_empty() {
                continue;
            }
            let times = Times::of_items(self.moment, &it.segment)?;
            for &row in rows.iter().rev() {
                let hidden = it.state.tombstoned.contains(row);
                if !hidden && times.shows(row)? && !self.is_superseded(it, row)? {
                    return Ok(Some(Place { part, row }));
                }
            }
        }
        Ok(None)
    }

    /// The item at a place.
    ///
    /// # Errors
    /// Damage.
    pub fn item(&self, place: Place) -> Result<ItemView<'_>, Damage> {
        self.part(place).segment.item(place.row)
    }

    /// The title of the item at a place, for which no more of it is read.
    ///
    /// # Errors
    /// Damage.
    pub fn title(&self, place: Place) -> Result<&str, Damage> {
        self.part(place).segment.title(place.row)
    }

    /// The id of the item at a place.
    ///
    /// # Errors
    /// Damage.
    pub fn id(&self, place: Place) -> Result<ItemId, Damage> {
        self.part(place).segment.item_id(place.row)
    }

    /// What the item at a place is. A tombstone hides whatever else it is, at every moment.
    ///
    /// # Errors
    /// Damage.
    pub fn status(&self, place: Place) -> Result<Status, Damage> {
        let part = self.part(place);
        Ok(if part.state.tombstoned.contains(place.row) {
            Status::Tombstoned
        } else if self.is_superseded(part, place.row)? {
            Status::Superseded
        } else {
            Status::Current
        })
    }

    /// Whether an item is superseded. The bit answers first; only where it is set, and a time is
    /// asked for, are the successors looked at.
    pub(crate) fn is_superseded(&self, part: &Part, row: Row) -> Result<bool, Damage> {
        if !part.state.superseded.contains(row) {
            return Ok(false);
        }
        match self.moment.as_of {
            None => Ok(true),
            Some(_) => self.was_superseded(part.segment.item_id(row)?),
        }
    }

    /// Whether a successor was known. Since when an erased one was, nobody can say: what it replaced
    /// counts as superseded at every moment rather than as what stands.
    fn was_superseded(&self, id: ItemId) -> Result<bool, Damage> {
        for it in self.parts.iter() {
            let times = Times::of_items(self.moment, &it.segment)?;
            for &row in it.segment.successor_rows(id)? {
                if times.knows(row)? {
                    return Ok(true);
                }
            }
        }
        Ok(!self.erased_successors(id)?.is_empty())
    }

    /// The erased items that replaced `id`, in the order of their tombstones; since when they did is
    /// not kept, so they are given at every moment.
    ///
    /// # Errors
    /// Damage.
    pub fn erased_successors(&self, id: ItemId) -> Result<Vec<ItemId>, Damage> {
        let mut erased = Vec::new();
        for it in self.parts.iter() {
            for &row in it.segment.erased_successor_rows(id)? {
                let target = ItemId(it.segment.tombstone_target(row)?);
                // Until its row has left, the row says it.
                if self.find_row(target)?.is_none() && !erased.contains(&target) {
                    erased.push(target);
                }
            }
        }
        Ok(erased)
    }

    /// What an erased item replaced, in the order in which it named it.
    pub(crate) fn replaced_by_erased(&self, id: ItemId) -> Result<Vec<ItemId>, Damage> {
        let mut replaced = Vec::new();
        let mut seen = HashSet::new();
        for it in self.parts.iter() {
            for &row in it.segment.tombstone_rows(id.0)? {
                let list = it.segment.replaced_by_erased(row)?;
                replaced.extend(list.iter().map(|&id| ItemId(id)).filter(|&id| seen.insert(id)));
            }
        }
        Ok(replaced)
    }

    /// The embedding of an item, as stored.
    ///
    /// # Errors
    /// Damage.
    pub fn embedding(&self, place: Place) -> Result<Option<&[half::f16]>, Damage> {
        let segment = &self.part(place).segment;
        segment.embedding_of(place.row)?.map(|row| segment.vector(row)).transpose()
    }

    /// Items of a source, in the order in which they were written.
    ///
    /// # Errors
    /// Damage.
    pub fn items_of_source(&self, id: SourceId) -> Result<Vec<Place>, Damage> {
        let mut places = Vec::new();
        for (part, it) in (0u32..).zip(self.parts.iter()) {
            let times = Times::of_items(self.moment, &it.segment)?;
            for &row in it.segment.rows_of_source(id)? {
                if times.knows(row)? {
                    places.push(Place { part, row });
                }
            }
        }
        Ok(places)
    }

    /// A source by its id.
    ///
    /// # Errors
    /// Damage.
    pub fn source(&self, id: SourceId) -> Result<Option<SourceView<'_>>, Damage> {
        for (_, it) in self.parts_newest_first() {
            if let Some(row) = it.segment.row_of_source(id)? {
                let source = it.segment.source(row)?;
                return Ok(self.moment.knows(source.recorded_at).then_some(source));
            }
        }
        Ok(None)
    }

    /// All versions of the source at a uri, oldest first.
    ///
    /// # Errors
    /// Damage.
    pub fn sources_of_uri(&self, uri: &str) -> Result<Vec<SourceView<'_>>, Damage> {
        let mut sources = Vec::new();
        for it in self.parts.iter() {
            for &row in it.segment.source_rows_of_uri(uri)? {
                let source = it.segment.source(row)?;
                if self.moment.knows(source.recorded_at) {
                    sources.push(source);
                }
            }
        }
        Ok(sources)
    }

    /// An edge by its id, unless it is tombstoned.
    ///
    /// # Errors
    /// Damage.
    pub fn edge(&self, id: EdgeId) -> Result<Option<EdgeView<'_>>, Damage> {
        for (_, it) in self.parts_newest_first() {
            if let Some(row) = it.segment.row_of_edge(id)? {
                if it.state.edges_tombstoned.contains(row) {
                    return Ok(None);
                }
                let edge = it.segment.edge(row)?;
                return Ok(self.moment.knows(edge.recorded_at).then_some(edge));
            }
        }
        Ok(None)
    }

    /// Whether there is an edge of this id, tombstoned or not.
    pub(crate) fn has_edge(&self, id: EdgeId) -> Result<bool, Damage> {
        for it in self.parts.iter() {
            if it.segment.row_of_edge(id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a tombstone names this id, be there a row of it or not.
    pub(crate) fn has_tombstone(&self, target: u128) -> Result<bool, Damage> {
        for it in self.parts.iter() {
            if !it.segment.tombstone_rows(target)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a tombstone says that this id is erased.
    ///
    /// # Errors
    /// Damage.
    pub fn is_erased(&self, id: u128) -> Result<bool, Damage> {
        Ok(self.tombstones(id)?.iter().any(|stone| stone.erase))
    }

    /// The tombstones of an item or edge, oldest first; of all times, as they hide at all times.
    ///
    /// # Errors
    /// Damage.
    pub fn tombstones(&self, target: u128) -> Result<Vec<TombstoneView<'_>>, Damage> {
        let mut stones = Vec::new();
        for it in self.parts.iter() {
            for &row in it.segment.tombstone_rows(target)? {
                stones.push(it.segment.tombstone(row)?);
            }
        }
        Ok(stones)
    }

    /// Every item, in the order in which they were written; tombstoned ones too.
    ///
    /// # Errors
    /// Damage.
    pub fn places(&self) -> Result<impl Iterator<Item = Place> + '_, Damage> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for (part, it) in (0u32..).zip(self.parts.iter()) {
            let recorded = match self.moment.as_of {
                None => None,
                Some(as_of) => Some((it.segment.view::<i64>(ITEM_RECORDED_AT)?.all()?, as_of.0)),
            };
            parts.push((part, it.segment.header().items, recorded));
        }
        Ok(parts.into_iter().flat_map(|(part, items, recorded)| {
            let knows = move |row: &Row| {
                recorded.is_none_or(|(recorded, as_of)| recorded[*row as usize] <= as_of)
            };
            (0..items).filter(knows).map(move |row| Place { part, row })
        }))
    }

    /// How many items that are not tombstoned there are of each kind and each modality.
    ///
    /// # Errors
    /// Damage, or the snapshot's stop.
    pub fn census(&self) -> Result<Census, SearchError> {
        let mut census = Census::default();
        for it in self.parts.iter() {
            let times = Times::of_items(self.moment, &it.segment)?;
            let count = |column, into| count_codes(it, &times, &self.stop, column, into);
            count(ITEM_KIND, &mut census.kinds)?;
            count(ITEM_MODALITY, &mut census.modalities)?;
        }
        Ok(census)
    }
}

/// Adds what a part holds, by its header and its states.
fn count_all(part: &Part, counts: &mut Counts) {
    let header = part.segment.header();
    let tombstoned = u64::from(part.state.tombstoned.count());
    counts.items += u64::from(header.items) - tombstoned;
    counts.tombstoned += tombstoned;
    counts.superseded += u64::from(part.state.superseded.count_outside(&part.state.tombstoned));
    counts.edges += u64::from(header.edges) - u64::from(part.state.edges_tombstoned.count());
    counts.sources += u64::from(header.sources);
    counts.vectors += u64::from(header.vectors);
}

/// Adds up a column of codes over the rows that are known and not tombstoned; names each code once.
fn count_codes(
    part: &Part,
    times: &Times<'_>,
    stop: &Stop,
    column: Column,
    into: &mut BTreeMap<String, u64>,
) -> Result<(), SearchError> {
    let mut steps = stop.each(ROWS_TOGETHER);
    let mut counts = vec![0u64; part.segment.header().symbols as usize];
    for (row, &code) in (0..).zip(part.segment.view::<u32>(column)?.all()?) {
        steps.step()?;
        if !part.state.tombstoned.contains(row) && times.knows(row)? {
            let unknown = || Damage::new("SEG-12", format!("row {row}: there is no symbol {code}"));
            *counts.get_mut(code as usize).ok_or_else(unknown)? += 1;
        }
    }
    for (code, count) in (0u32..).zip(counts).filter(|(_, count)| *count > 0) {
        *into.entry(part.segment.symbol(code)?.to_owned()).or_default() += count;
    }
    Ok(())
}

/// How many items there are of each kind and each modality.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// By kind.
    pub kinds: BTreeMap<String, u64>,
    /// By modality.
    pub modalities: BTreeMap<String, u64>,
}
