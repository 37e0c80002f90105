//! Reads each file of a damaged directory on its own, so that a damaged file affects no other file's rows.

use std::collections::{BTreeSet, HashSet};

use super::report::{FileReport, RecordCounts, SalvageReport};
use crate::error::{CorruptionError, OpenError};
use crate::ids::{Row, StoreId};
use crate::layout::{self, FileKind};
use crate::maintenance::bad_sectors;
use crate::manifest::{Manifest, SegmentEntry};
use crate::os::disk::Disk;
use crate::record_codec;
use crate::row_state;
use crate::segment::{SalvagedSegment, Segment, SegmentBuilder, SegmentHeader, open_damaged};
use crate::wal::{WAL_FILE_BYTES_MAX, salvage_frames};

/// Readable rows of one file.
pub(super) struct SalvagedFile {
    pub(super) segment: SalvagedSegment,
    /// Index of the file in the report.
    pub(super) file: usize,
    /// True if the manifest lists the file, or if no manifest can be read.
    pub(super) is_listed: bool,
    /// Bits of the state files, as row numbers.
    pub(super) tombstoned: HashSet<Row>,
    pub(super) superseded: HashSet<Row>,
    pub(super) edges_tombstoned: HashSet<Row>,
}

impl SalvagedFile {
    pub(super) fn counts(&self) -> &SegmentHeader {
        self.segment.segment.header()
    }
}

/// Returns all files that can be opened, the ids pending erasure, and a report of the losses.
pub(super) fn read_all(
    disk: &dyn Disk,
    names: &[String],
    told: &mut dyn FnMut(&str),
) -> (Vec<SalvagedFile>, BTreeSet<u128>, SalvageReport) {
    let mut reading =
        DirectoryReader { disk, names, files: Vec::new(), report: SalvageReport::default() };
    let manifests = reading.read_manifests();
    // Each manifest lists the erasures pending at its time; ids erased since then have no row.
    let erasures = manifests.iter().flat_map(|it| it.erasures.iter().copied()).collect();
    let newest = manifests.first();
    let listed = newest.map(|it| it.segments.iter().map(|entry| entry.number).collect());
    reading.read_segments(listed.as_ref(), &manifests, told);
    reading.report_missing(newest);
    reading.read_logs(newest.map(|it| it.store), told);
    (reading.files, erasures, reading.report)
}

struct DirectoryReader<'a> {
    disk: &'a dyn Disk,
    names: &'a [String],
    files: Vec<SalvagedFile>,
    report: SalvageReport,
}

impl DirectoryReader<'_> {
    fn numbers(&self, kind: FileKind) -> BTreeSet<u64> {
        self.names.iter().filter_map(|name| layout::file_number(kind, name)).collect()
    }

    /// Reads every readable manifest, newest first.
    fn read_manifests(&mut self) -> Vec<Manifest> {
        let mut found = Vec::new();
        for number in self.numbers(FileKind::Manifest).into_iter().rev() {
            match Manifest::read(self.disk, number) {
                Ok((manifest, _)) => found.push(manifest),
                Err(error) => {
                    self.report_file_lost(layout::file_name(FileKind::Manifest, number), error)
                }
            }
        }
        if found.is_empty() {
            let name = "manifest".to_owned();
            self.report_file_lost(name, "none can be read; every file that is there is used");
        }
        found
    }

    /// Reports files that the manifest lists and that are missing.
    fn report_missing(&mut self, manifest: Option<&Manifest>) {
        let Some(manifest) = manifest else { return };
        let logs = manifest.logs.iter().map(|&log| layout::file_name(FileKind::Log, log));
        for name in manifest.listed_files().map(|file| file.name).chain(logs) {
            if !self.names.contains(&name) {
                let number = layout::file_number(FileKind::Segment, &name);
                let entry = number.and_then(|number| find_entry(number, [manifest]));
                let is_more_lost = layout::file_number(FileKind::Log, &name).is_some();
                let why = "MAN-03: the manifest names it, but it is not there";
                self.report_rows_lost(name, why, entry, is_more_lost);
            }
        }
    }

    /// Reports a lost file without rows of its own.
    fn report_file_lost(&mut self, name: String, why: impl ToString) {
        self.report_rows_lost(name, why, None, false);
    }

    /// Reports a completely unreadable file: the rows that a manifest counts in the file are lost, or an unknown number
    /// of rows.
    fn report_rows_lost(
        &mut self,
        name: String,
        why: impl ToString,
        entry: Option<&SegmentEntry>,
        is_more_lost: bool,
    ) {
        let rows = entry.map_or(RecordCounts::default(), |entry| RecordCounts {
            sources: entry.sources.into(),
            items: entry.items.into(),
            edges: entry.edges.into(),
            tombstones: entry.tombstones.into(),
        });
        let reasons = vec![why.to_string()];
        let report = FileReport {
            name,
            rows,
            lost: rows,
            has_unknown_losses: is_more_lost,
            reasons,
            more_reasons: 0,
        };
        self.report.files.push(report);
    }

    /// Reads the segments: listed ones first, then leftovers, each newest first. Without a manifest all count as
    /// listed.
    fn read_segments(
        &mut self,
        listed: Option<&HashSet<u64>>,
        manifests: &[Manifest],
        told: &mut dyn FnMut(&str),
    ) {
        let is_listed = |number: &u64| listed.is_none_or(|listed| listed.contains(number));
        let numbers = self.numbers(FileKind::Segment).into_iter().rev();
        let (first, then): (Vec<u64>, Vec<u64>) = numbers.partition(is_listed);
        let unfinished = self.names.iter().filter(|name| layout::is_unfinished(name));
        for name in unfinished.cloned().collect::<Vec<_>>() {
            // The inputs of an unfinished file are still in the directory, so its rows are not lost.
            self.report.files.push(FileReport { name, ..FileReport::default() });
        }
        for number in first.into_iter().chain(then) {
            let name = layout::file_name(FileKind::Segment, number);
            told(&name);
            match open_segment(self.disk, &name) {
                Ok((rows, reasons)) => {
                    self.add_segment(&name, rows, is_listed(&number), reasons);
                    self.read_states(number);
                }
                // The rows of a leftover are in the segment that replaced it.
                Err(why) if !is_listed(&number) => self.report_file_lost(name, why),
                Err(why) => {
                    let entry = find_entry(number, manifests);
                    self.report_rows_lost(name, why, entry, entry.is_none());
                }
            }
        }
    }

    fn add_segment(
        &mut self,
        name: &str,
        rows: SalvagedSegment,
        is_listed: bool,
        reasons: Vec<String>,
    ) {
        let header = rows.segment.header();
        let counts = RecordCounts {
            sources: header.sources.into(),
            items: header.items.into(),
            edges: header.edges.into(),
            tombstones: header.tombstones.into(),
        };
        let mut report =
            FileReport { name: name.to_owned(), rows: counts, ..FileReport::default() };
        reasons.into_iter().for_each(|why| report.add_reason(why));
        self.files.push(SalvagedFile {
            segment: rows,
            file: self.report.files.len(),
            is_listed,
            tombstoned: HashSet::new(),
            superseded: HashSet::new(),
            edges_tombstoned: HashSet::new(),
        });
        self.report.files.push(report);
    }

    /// Adds the bits of every state file of the segment that was just added. No bit is ever cleared, so all bits of an
    /// older state are still right.
    fn read_states(&mut self, segment: u64) {
        let prefix = format!("state-{segment:020}-");
        let names: Vec<&String> = self.names.iter().filter(|it| it.starts_with(&prefix)).collect();
        for name in names {
            let Some(generation) = name[prefix.len()..].parse().ok() else { continue };
            let part = self.files.last_mut().expect("it was just added");
            let (items, edges) = (part.counts().items, part.counts().edges);
            let of = row_state::StateKey { segment, generation, items, edges };
            let read = self.disk.read(name, row_state::state_file_bytes(items, edges) + 1);
            match read.map_err(OpenError::from).and_then(|bytes| row_state::decode(of, &bytes)) {
                Ok(found) => {
                    let rows = |bits: &row_state::RowBitmap, count: Row| -> Vec<Row> {
                        (0..count).filter(|&row| bits.contains(row)).collect()
                    };
                    part.tombstoned.extend(rows(&found.tombstoned, items));
                    part.superseded.extend(rows(&found.superseded, items));
                    part.edges_tombstoned.extend(rows(&found.edges_tombstoned, edges));
                }
                Err(error) => self.report_file_lost(name.clone(), error),
            }
        }
    }

    fn read_logs(&mut self, store: Option<StoreId>, told: &mut dyn FnMut(&str)) {
        for number in self.numbers(FileKind::Log) {
            let name = layout::file_name(FileKind::Log, number);
            told(&name);
            match bad_sectors::read_readable(self.disk, &name, WAL_FILE_BYTES_MAX) {
                Ok((bytes, unreadable)) => {
                    let reasons = unreadable.reasons().collect();
                    self.read_log(&name, number, &bytes, reasons, store);
                }
                Err(error) => self.report_rows_lost(name, error, None, true),
            }
        }
    }

    /// Reads the rows of a log. `reasons` describe the unreadable ranges of the file.
    fn read_log(
        &mut self,
        name: &str,
        number: u64,
        bytes: &[u8],
        mut reasons: Vec<String>,
        store: Option<StoreId>,
    ) {
        let Some(pieces) = salvage_frames(bytes, number, store) else {
            let why = "LOG-01: its header is damaged, and no manifest tells which store it is of";
            return self.report_rows_lost(name.to_owned(), why, None, true);
        };
        let wrong = pieces.damaged_ranges.iter();
        reasons.extend(
            wrong.map(|(from, to)| format!("LOG-04: no whole frame in bytes {from}..{to}")),
        );
        let mut builder = SegmentBuilder::default();
        let mut before: Option<u64> = None;
        for frame in &pieces.frames {
            if let Some(before) = before.filter(|before| frame.seq != before + 1) {
                reasons.push(format!("LOG-02: commit {} follows {before}", frame.seq));
            }
            before = Some(frame.seq);
            // An export has no embeddings, and without a manifest their width is unknown.
            let batch = record_codec::decode(frame.payload, frame.records, frame.version);
            let batch = batch.and_then(|mut batch| {
                batch.items.iter_mut().for_each(|item| item.embedding.clear());
                batch.recheck(None)?;
                Ok::<_, CorruptionError>(batch)
            });
            match batch {
                Ok(batch) => builder.push_batch(frame.seq, &batch),
                Err(damage) => reasons.push(format!("commit {}: {damage}", frame.seq)),
            }
        }
        let rows = SalvagedSegment::from_heap(Segment::from_heap_named(name, builder.finish()));
        // The number of rows in an unreadable commit is unknown.
        let is_more_lost = !reasons.is_empty();
        self.add_segment(name, rows, true, reasons);
        let report = self.report.files.last_mut().expect("it was just added");
        report.has_unknown_losses = is_more_lost;
    }
}

/// Opens a segment as far as it can be read; returns its rows and the losses.
fn open_segment(disk: &dyn Disk, name: &str) -> Result<(SalvagedSegment, Vec<String>), String> {
    let (bytes, unreadable) =
        bad_sectors::map_readable(disk, name).map_err(|error| error.to_string())?;
    let mut reasons: Vec<String> = unreadable.reasons().collect();
    match open_damaged(name, bytes) {
        Ok(rows) => {
            reasons.extend(rows.damage.iter().cloned());
            Ok((rows, reasons))
        }
        Err(damage) => {
            reasons.insert(0, damage.to_string());
            reasons.truncate(2);
            Err(reasons.join("; "))
        }
    }
}

/// Finds a segment's entry in any manifest: a file number is used once, so all manifests agree.
fn find_entry<'a>(
    number: u64,
    manifests: impl IntoIterator<Item = &'a Manifest>,
) -> Option<&'a SegmentEntry> {
    let mut entries = manifests.into_iter().flat_map(|manifest| &manifest.segments);
    entries.find(|entry| entry.number == number)
}
