//! Salvage: recovers all readable rows of a damaged store.
//!
//! Needs no manifest: every segment, state and log of the directory is read as far as its pages and frames are intact,
//! and a row that several files have is emitted once. Rows hidden by a tombstone or a state stay hidden, and rows
//! pending erasure are not emitted. Changes nothing on disk.
//!
//! Memory: about 100 bytes per row, the logs and their rows, and segments with ranges that the disk cannot read; other
//! segments are mapped.

mod directory_reader;
mod report;

pub use report::{DroppedCounts, FileReport, LOSSES_MAX, RecordCounts, SalvageReport};

use std::collections::{HashMap, HashSet};

use crate::error::{CorruptionError, OpenError};
use crate::ids::{ItemId, Row, Seq, SourceId};
use crate::item::Batch;
use crate::layout;
use crate::os::disk::Disk;
use crate::query::erased_tombstones::ErasedTombstones;
use crate::query::records::{Record, TombstoneTarget};
use crate::query::snapshot::Status;
use crate::segment::{ItemView, SourceView};
use directory_reader::{SalvagedFile, read_all};

/// Row of a salvaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SalvagedRow {
    file: u32,
    row: Row,
}

/// Record kinds, in the export order of the rows of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RecordKind {
    Sources,
    Items,
    Edges,
    Tombstones,
}

/// Recoverable rows of a directory.
pub struct Salvage {
    files: Vec<SalvagedFile>,
    items: HashMap<u128, SalvagedRow>,
    sources: HashMap<u128, SalvagedRow>,
    edges: HashMap<u128, SalvagedRow>,
    /// Ids hidden by tombstones and states; true if the id is pending erasure, too.
    hidden: HashMap<u128, bool>,
    /// Targets of the emitted tombstones that erase.
    erased: HashSet<u128>,
    /// Rows to emit, in export order.
    export_order: Vec<(Seq, RecordKind, SalvagedRow)>,
    report: SalvageReport,
}

impl std::fmt::Debug for Salvage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "salvage of {} rows", self.export_order.len())
    }
}

/// Passes every readable row to `take`, in export order, and reports the losses. See [`Salvage::records`] for
/// references to lost rows.
pub fn salvage<E>(
    disk: &dyn Disk,
    take: &mut dyn FnMut(&Salvage, Record<'_>) -> Result<(), E>,
) -> Result<Result<SalvageReport, E>, OpenError> {
    let salvage = Salvage::read(disk, &mut |_| {})?;
    Ok(salvage.records(take))
}

impl Salvage {
    /// Reads a directory. `told` is called with the name of each file before the file is read.
    ///
    /// # Errors
    /// The directory cannot be listed, or has no file of a store. An unreadable file is no error: the report lists it
    /// as lost.
    pub fn read(disk: &dyn Disk, told: &mut dyn FnMut(&str)) -> Result<Self, OpenError> {
        let names = disk.names()?;
        if !names.iter().any(|name| layout::is_store_file(name)) {
            return Err(OpenError::NoStore);
        }
        let (parts, erasures, report) = read_all(disk, &names, told);
        let mut salvage = Self {
            files: parts,
            items: HashMap::new(),
            sources: HashMap::new(),
            edges: HashMap::new(),
            hidden: erasures.into_iter().map(|id| (id, true)).collect(),
            erased: HashSet::new(),
            export_order: Vec::new(),
            report,
        };
        salvage.collect_hidden();
        salvage.choose_rows();
        Ok(salvage)
    }

    /// Collects the hidden ids before any row is chosen: from tombstones, and from states in case the tombstones are
    /// lost.
    fn collect_hidden(&mut self) {
        for part in &self.files {
            for row in 0..part.counts().tombstones {
                if let Ok((target, erase)) = part.segment.tombstone_effect(row) {
                    *self.hidden.entry(target).or_default() |= erase;
                }
            }
            for row in (0..part.counts().items).filter(|&row| part.tombstoned.contains(&row)) {
                if let Ok(id) = part.segment.segment.item_id(row) {
                    self.hidden.entry(id.0).or_default();
                }
            }
            for &row in &part.edges_tombstoned {
                if let Ok(edge) = part.segment.edge(row) {
                    self.hidden.entry(edge.id.0).or_default();
                }
            }
        }
    }

    fn is_erased(&self, id: u128) -> bool {
        self.hidden.get(&id).copied().unwrap_or(false)
    }

    /// Chooses one readable row for each id: from the listed files first, then from leftover files.
    fn choose_rows(&mut self) {
        let mut losses = LostRows::default();
        for at in 0..self.files.len() {
            self.choose_items(at, &mut losses);
        }
        for at in 0..self.files.len() {
            self.choose_edges(at, &mut losses);
        }
        self.choose_sources(&mut losses);
        self.choose_tombstones(&mut losses);
        losses.report(self);
        self.export_order.sort_unstable();
        self.count_orphans();
    }

    fn choose_items(&mut self, at: usize, losses: &mut LostRows) {
        for row in 0..self.files[at].counts().items {
            let part = &self.files[at];
            let read = part.segment.item(row).and_then(|item| {
                check_row(Batch { items: vec![item.to_draft()], ..Batch::default() })?;
                check_content_hash(&item)?;
                Ok((item.id.0, item.seq))
            });
            match read {
                Ok((id, _)) if self.is_erased(id) => self.report.dropped.erased += 1,
                Ok((id, seq)) => {
                    let place = row_at(at, row);
                    if let std::collections::hash_map::Entry::Vacant(free) = self.items.entry(id) {
                        free.insert(place);
                        self.export_order.push((seq, RecordKind::Items, place));
                    }
                }
                Err(damage) => {
                    let id = part.segment.segment.item_id(row).ok().map(|id| id.0);
                    losses.add(at, RecordKind::Items, id, damage);
                }
            }
        }
    }

    fn choose_edges(&mut self, at: usize, losses: &mut LostRows) {
        for row in 0..self.files[at].counts().edges {
            let read = self.files[at].segment.edge(row).and_then(|edge| {
                check_row(Batch { edges: vec![edge.to_draft()], ..Batch::default() })?;
                Ok((edge.id.0, edge.seq, [edge.from.0, edge.to.0]))
            });
            match read {
                Ok((id, _, ends))
                    if [id, ends[0], ends[1]].iter().any(|&id| self.is_erased(id)) =>
                {
                    self.report.dropped.erased += 1;
                }
                Ok((id, ..)) if self.edges.contains_key(&id) => {}
                Ok((_, _, ends)) if !ends.iter().all(|end| self.items.contains_key(end)) => {
                    self.report.dropped.edges += 1;
                }
                Ok((id, seq, _)) => {
                    self.edges.insert(id, row_at(at, row));
                    self.export_order.push((seq, RecordKind::Edges, row_at(at, row)));
                }
                Err(damage) => {
                    let id = self.files[at].segment.edge_id(row);
                    losses.add(at, RecordKind::Edges, id, damage);
                }
            }
        }
    }

    /// Chooses the sources. A source found only in a leftover file may belong to an erased item, so it is emitted only
    /// if an emitted row references it.
    fn choose_sources(&mut self, losses: &mut LostRows) {
        let mut named = HashSet::new();
        for place in self.items.values() {
            named.extend(self.item(*place).ok().and_then(|item| item.source));
        }
        for place in self.edges.values() {
            let edge = self.files[place.file as usize].segment.edge(place.row);
            named.extend(edge.ok().and_then(|edge| edge.source));
        }
        for at in 0..self.files.len() {
            for row in 0..self.files[at].counts().sources {
                let part = &self.files[at];
                let read = part.segment.source(row).and_then(|source| {
                    check_row(Batch { sources: vec![source.to_draft()], ..Batch::default() })?;
                    Ok((source.id, source.seq))
                });
                match read {
                    Ok((id, _)) if self.sources.contains_key(&id.0) => {}
                    Ok((id, _)) if !part.is_listed && !named.contains(&id) => {
                        self.report.dropped.sources += 1;
                    }
                    Ok((id, seq)) => {
                        self.sources.insert(id.0, row_at(at, row));
                        self.export_order.push((seq, RecordKind::Sources, row_at(at, row)));
                    }
                    Err(damage) => {
                        let id = part.segment.source_id(row);
                        losses.add(at, RecordKind::Sources, id, damage);
                    }
                }
            }
        }
        let lost = named.iter().filter(|id| !self.sources.contains_key(&id.0)).count();
        self.report.dropped.source_references = lost as u64;
    }

    /// Chooses the tombstones, those without a row to hide too: the erased id stays in use, and the record of who
    /// erased it stays.
    fn choose_tombstones(&mut self, losses: &mut LostRows) {
        let mut seen = HashSet::new();
        for at in 0..self.files.len() {
            for row in 0..self.files[at].counts().tombstones {
                let read = self.files[at].segment.tombstone(row).and_then(|stone| {
                    check_row(Batch { tombstones: vec![stone.to_draft()], ..Batch::default() })?;
                    let said = (stone.at, stone.by.to_owned(), stone.reason.to_owned());
                    Ok((stone.target, stone.seq, stone.erase, said))
                });
                match read {
                    Ok(said) => {
                        let (target, seq, erase, _) = said;
                        // Leftover files may repeat a tombstone, so only its first copy counts.
                        if seen.insert(said) {
                            self.erased.extend(erase.then_some(target));
                            self.export_order.push((seq, RecordKind::Tombstones, row_at(at, row)));
                        }
                    }
                    Err(damage) => losses.add(at, RecordKind::Tombstones, None, damage),
                }
            }
        }
    }

    /// Counts supersession links that are lost: superseded ids that are missing, and items whose successor is missing.
    fn count_orphans(&mut self) {
        let mut replaced = HashSet::new();
        for place in self.items.values() {
            if let Ok(item) = self.item(*place) {
                replaced.extend(item.supersedes.iter().map(|id| id.0));
            }
        }
        for (_, _, place) in self.export_order.iter().filter(|row| row.1 == RecordKind::Tombstones)
        {
            let stone = self.files[place.file as usize].segment.tombstone(place.row);
            replaced.extend(stone.iter().flat_map(|stone| &stone.supersedes).map(|id| id.0));
        }
        let missing = replaced.iter().filter(|id| !self.can_be_superseded(**id));
        self.report.dropped.supersedes = missing.count() as u64;
        let stands = |(id, place): &(&u128, &SalvagedRow)| {
            let part = &self.files[place.file as usize];
            part.superseded.contains(&place.row) && !replaced.contains(id)
        };
        self.report.dropped.successors = self.items.iter().filter(stands).count() as u64;
    }

    /// Returns true if emitted rows may reference an id as superseded: an emitted or erased item.
    fn can_be_superseded(&self, id: u128) -> bool {
        self.items.contains_key(&id) || self.erased.contains(&id)
    }

    /// Returns true if a tombstone of this target hides no emitted row.
    fn is_dangling_tombstone(&self, target: u128) -> bool {
        !self.items.contains_key(&target) && !self.edges.contains_key(&target)
    }

    fn item(&self, place: SalvagedRow) -> Result<ItemView<'_>, CorruptionError> {
        self.files[place.file as usize].segment.item(place.row)
    }

    /// Kind of a recovered item; `None` if the item is not recovered.
    pub fn kind(&self, id: ItemId) -> Result<Option<&str>, CorruptionError> {
        let place = self.items.get(&id.0);
        place.map(|place| self.item(*place).map(|item| item.kind)).transpose()
    }

    /// Recovered source; `None` if the source is not recovered.
    pub fn source(&self, id: SourceId) -> Result<Option<SourceView<'_>>, CorruptionError> {
        let place = self.sources.get(&id.0);
        let source =
            |place: &SalvagedRow| self.files[place.file as usize].segment.source(place.row);
        place.map(source).transpose()
    }

    /// Target of a tombstone.
    pub fn target(&self, number: u128) -> Result<TombstoneTarget<'_>, CorruptionError> {
        Ok(match self.kind(ItemId(number))? {
            Some(kind) => TombstoneTarget::Item(kind),
            None if self.edges.contains_key(&number) => TombstoneTarget::Edge,
            None => TombstoneTarget::Erased,
        })
    }

    /// Report of the rows read and lost.
    pub fn report(&self) -> &SalvageReport {
        &self.report
    }

    /// Passes every row to `take`, in export order. A row's references to rows that are not emitted are removed. An
    /// error of `take` ends the export.
    pub fn records<E>(
        &self,
        take: &mut dyn FnMut(&Self, Record<'_>) -> Result<(), E>,
    ) -> Result<SalvageReport, E> {
        let mut report = self.report.clone();
        let mut gone = self.erased_tombstones();
        let mut rest = self.export_order.iter();
        loop {
            let next = rest.next();
            while let Some(stones) = gone.next_ready(next.is_none()) {
                for place in stones {
                    if let Some(record) = self.reread(RecordKind::Tombstones, place, &mut report) {
                        report.recovered.count(&record);
                        take(self, record)?;
                    }
                }
            }
            let Some(&(_, table, place)) = next else { break };
            let Some(record) = self.reread(table, place, &mut report) else { continue };
            match &record {
                Record::Item(item, _) => gone.mark_emitted(item.id.0),
                Record::Tombstone(stone) if gone.contains(stone.target) => continue,
                _ => {}
            }
            report.recovered.count(&record);
            take(self, record)?;
        }
        Ok(report)
    }

    /// Reads a chosen row again; a disk that has failed meanwhile may lose the row still.
    fn reread(
        &self,
        table: RecordKind,
        place: SalvagedRow,
        report: &mut SalvageReport,
    ) -> Option<Record<'_>> {
        match self.record(table, place) {
            Ok(record) => Some(record),
            Err(damage) => {
                let file = self.files[place.file as usize].file;
                report.files[file].count_lost(table, damage.to_string());
                None
            }
        }
    }

    /// Tombstones whose target is not emitted.
    fn erased_tombstones(&self) -> ErasedTombstones<SalvagedRow> {
        let mut gone = ErasedTombstones::default();
        for &(_, _, place) in self.export_order.iter().filter(|row| row.1 == RecordKind::Tombstones)
        {
            if let Ok(Record::Tombstone(stone)) = self.record(RecordKind::Tombstones, place)
                && self.is_dangling_tombstone(stone.target)
            {
                gone.add(stone.target, place, stone.supersedes.iter().map(|id| id.0));
            }
        }
        let is_row = |id: u128| Ok::<_, std::convert::Infallible>(self.items.contains_key(&id));
        match gone.resolve(is_row) {
            Ok(()) => gone,
        }
    }

    fn record(&self, table: RecordKind, place: SalvagedRow) -> Result<Record<'_>, CorruptionError> {
        let rows = &self.files[place.file as usize].segment;
        let named = |source: Option<SourceId>| source.filter(|id| self.sources.contains_key(&id.0));
        Ok(match table {
            RecordKind::Sources => Record::Source(rows.source(place.row)?),
            RecordKind::Items => {
                let mut item = rows.item(place.row)?;
                item.supersedes.retain(|id| self.can_be_superseded(id.0));
                item.source = named(item.source);
                let is_hidden = self.hidden.contains_key(&item.id.0);
                let status = if is_hidden { Status::Tombstoned } else { Status::Current };
                Record::Item(item, status)
            }
            RecordKind::Edges => {
                let mut edge = rows.edge(place.row)?;
                edge.source = named(edge.source);
                let id = edge.id.0;
                // If an item and an edge have the same number, the tombstone is for the item.
                let is_hidden = self.hidden.contains_key(&id) && !self.items.contains_key(&id);
                Record::Edge(edge, is_hidden)
            }
            RecordKind::Tombstones => {
                let mut stone = rows.tombstone(place.row)?;
                stone.supersedes.retain(|id| self.can_be_superseded(id.0));
                Record::Tombstone(stone)
            }
        })
    }
}

/// Unreadable rows: file, table, id if readable, and error.
#[derive(Default)]
struct LostRows {
    rows: Vec<(usize, RecordKind, Option<u128>, CorruptionError)>,
}

impl LostRows {
    fn add(&mut self, part: usize, table: RecordKind, id: Option<u128>, damage: CorruptionError) {
        self.rows.push((part, table, id, damage));
    }

    /// Reports the rows that no other file has and that were not pending erasure.
    fn report(self, salvage: &mut Salvage) {
        for (part, table, id, damage) in self.rows {
            let is_given = |id: u128| match table {
                RecordKind::Items => salvage.items.contains_key(&id),
                RecordKind::Edges => salvage.edges.contains_key(&id),
                RecordKind::Sources => salvage.sources.contains_key(&id),
                RecordKind::Tombstones => false,
            };
            if id.is_some_and(is_given) {
                continue;
            }
            if id.is_some_and(|id| salvage.is_erased(id)) {
                salvage.report.dropped.erased += 1;
                continue;
            }
            let file = salvage.files[part].file;
            salvage.report.files[file].count_lost(table, damage.to_string());
        }
    }
}

impl FileReport {
    /// Counts a lost row of a table, with the reason.
    fn count_lost(&mut self, table: RecordKind, why: String) {
        match table {
            RecordKind::Sources => self.lost.sources += 1,
            RecordKind::Items => self.lost.items += 1,
            RecordKind::Edges => self.lost.edges += 1,
            RecordKind::Tombstones => self.lost.tombstones += 1,
        }
        self.add_reason(why);
    }
}

fn row_at(part: usize, row: Row) -> SalvagedRow {
    SalvagedRow { file: u32::try_from(part).expect("a directory has fewer files"), row }
}

/// Checks a row against the rules that a writer enforces, as bytes with valid checksums can break them too (SEG-25).
fn check_row(batch: Batch) -> Result<(), CorruptionError> {
    batch.recheck(None).map_err(|damage| CorruptionError::new("SEG-25", damage.detail))
}

fn check_content_hash(item: &ItemView<'_>) -> Result<(), CorruptionError> {
    use sha2::{Digest, Sha256};
    if Sha256::digest(item.text.as_bytes())[..] == item.content_sha256 {
        return Ok(());
    }
    Err(CorruptionError::new(
        "SEG-25",
        format!("the hash of item {} is not that of its text", item.id),
    ))
}
