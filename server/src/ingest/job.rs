//! One ingest: paths in, documents stored, a report out.
//!
//! A file is stored whole or not at all. Files whose content is as it was are left alone, so a job
//! that was killed goes on where it ended; a changed file's new version supersedes its old one.

use engine::{
    Batch, Damage, ItemDraft, ItemId, Sensitivity, Snapshot, SourceId, Status, Store, WriteError,
};
use serde_json::json;

use super::chunk::chunk;
use super::linking::{Linking, Piece, Unlinked};
use super::outline::{Marks, Older, Prepared, named};
use super::parcel::{Documents, One, Stored as Settled};
use super::read::read_bytes;
pub use super::report::{JobError, Report};
use super::roots::{Allowed, FILE_BYTES_MAX, Roots};
use super::uri;
use super::walk::{self, Listed, walk};
use crate::encoders::Encoders;
use crate::inflow::{self, Halt, Inflow};

/// Paths of one request.
pub const PATHS_MAX: usize = 64;
/// Ref of the item that says that a job is open.
const OPEN_REF: &str = "recalld:ingest-open";
/// Skipped files and errors that the stored record lists.
const RECORDED_MAX: usize = 20;
/// What to ingest.
#[derive(Debug, Clone)]
pub struct Request {
    /// Files and folders under the roots.
    pub paths: Vec<String>,
    /// Whether folders are walked.
    pub recursive: bool,
    /// Globs to keep; all where empty.
    pub include: Vec<String>,
    /// Globs to leave out.
    pub exclude: Vec<String>,
    /// How carefully the items are to be shown; as the last version was, where none is given.
    pub sensitivity: Option<Sensitivity>,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Who asks.
    pub by: String,
    /// The tool it came through.
    pub via: &'static str,
}

/// What a job works with.
pub struct Job<'a> {
    /// Where to store, and what embeds.
    pub encoders: &'a Encoders,
    /// Where files may be read.
    pub roots: &'a Roots,
    /// Whether to stop now.
    pub cancelled: &'a dyn Fn() -> bool,
    /// Told before each file how many of how many are done, stored and all, and the one at hand.
    pub progress: &'a dyn Fn(u64, u64, &str),
}

impl Job<'_> {
    /// Does all of it.
    pub fn run(&self, request: &Request) -> Result<Report, JobError> {
        let mut report = Report::default();
        let files = self.list(request, &mut report)?;
        let mut state = State::of(&self.store().snapshot(), report)?;
        if request.dry_run {
            for (at, file) in files.iter().enumerate() {
                if !self.goes_on(&mut state, &files, at) {
                    break;
                }
                state.settled += 1;
                if let Found::Fresh(prepared) = self.prepare(file, request, &mut state.report)? {
                    state.report.count(1 + prepared.chunks.len(), prepared.older.is_some());
                }
            }
        } else {
            std::thread::scope(|scope| {
                let inflow = Inflow::start(scope, self.encoders);
                self.store_all(inflow, &files, &mut state, request)
            })?;
            self.link_all(&files, &mut state, request)?;
            // A job that found everything as it was leaves nothing behind.
            let is_new = state.report.items > 0 || state.report.errors_count > 0;
            if is_new || state.open.is_some() {
                self.record(&mut state, request)?;
            }
        }
        let report = state.report;
        (self.progress)(report.files, files.len() as u64, "");
        Ok(report)
    }

    /// Whether the next file is to be read.
    fn goes_on(&self, state: &mut State, files: &[Listed], at: usize) -> bool {
        (self.progress)(state.settled as u64, files.len() as u64, &files[at].relative);
        state.report.cancelled |= (self.cancelled)();
        state.report.files += u64::from(!state.report.cancelled);
        !state.report.cancelled
    }

    /// Reads every file, and hands on what is new. What was stored is in the report, whether or not
    /// the job was called off.
    fn store_all(
        &self,
        mut inflow: Inflow<Documents>,
        files: &[Listed],
        state: &mut State,
        request: &Request,
    ) -> Result<(), JobError> {
        let mut pending = Documents::default();
        for (at, file) in files.iter().enumerate() {
            if inflow.is_empty() && pending.is_empty() {
                state.settled = at;
            }
            if !self.goes_on(state, files, at) {
                break;
            }
            let prepared = match self.prepare(file, request, &mut state.report)? {
                Found::PassedOver => continue,
                Found::Unchanged => {
                    state.unchanged.push(at);
                    continue;
                }
                Found::Fresh(prepared) => prepared,
            };
            let (one, batch) = self.batch(*prepared, at, request);
            if !pending.fits(&one, &batch) {
                let full = std::mem::take(&mut pending);
                if !self.give(&mut inflow, full, state, request)? {
                    break;
                }
            }
            pending.push(one, batch);
        }
        if !state.report.cancelled
            && !pending.is_empty()
            && self.give(&mut inflow, pending, state, request)?
        {
            let settled = inflow.drain(self.cancelled);
            self.settle(settled, state)?;
        }
        inflow.stop()?.into_iter().for_each(|one| state.settle(one));
        Ok(())
    }

    /// Hands documents on; gives whether the job goes on.
    fn give(
        &self,
        inflow: &mut Inflow<Documents>,
        documents: Documents,
        state: &mut State,
        request: &Request,
    ) -> Result<bool, JobError> {
        self.mark_open(state, request)?;
        let settled = inflow.give(documents, self.cancelled);
        self.settle(settled, state)?;
        Ok(!state.report.cancelled)
    }

    fn settle(
        &self,
        settled: Result<Vec<inflow::Settled<Vec<Settled>>>, Halt<WriteError>>,
        state: &mut State,
    ) -> Result<(), JobError> {
        match settled {
            Ok(settled) => settled.into_iter().for_each(|one| state.settle(one)),
            Err(Halt::Cancelled) => state.report.cancelled = true,
            Err(Halt::Failed(error)) => return Err(error.into()),
        }
        Ok(())
    }

    /// A document as it is stored. What of it was embedded before, with the same model, stays.
    fn batch(&self, one: Prepared, file: usize, request: &Request) -> (One, Batch) {
        let marks = Marks { by: &request.by, via: request.via };
        let model = self.encoders.view().embedder.model();
        let (mut batch, document) = one.batch(&mut || self.store().new_item_id(), model, marks);
        batch.embedded_by = Some(model);
        let one = One {
            document,
            older: one.older.as_ref().map(|older| older.document),
            file,
            bytes: one.bytes,
            has_links: !one.document.links.is_empty(),
            uri: one.uri,
            sources: batch.sources.len(),
            items: batch.items.len(),
            edges: batch.edges.len(),
        };
        (one, batch)
    }

    fn store(&self) -> &Store {
        self.encoders.store()
    }

    fn list(&self, request: &Request, report: &mut Report) -> Result<Vec<Listed>, JobError> {
        let wrong = |field, why: String| JobError::Request { field, why };
        let rules = walk::Rules::new(request.recursive, &request.include, &request.exclude)
            .map_err(|error| wrong("include, exclude", error.to_string()))?;
        let mut files = Vec::new();
        for path in &request.paths {
            let start = self.roots.resolve(path);
            let start = start.map_err(|refused| wrong("paths", refused.to_string()))?;
            let listing =
                walk(&start, &rules).map_err(|refused| wrong("paths", refused.to_string()))?;
            files.extend(listing.files);
            report.skipped_count += listing.skipped_count - listing.skipped.len() as u64;
            for skipped in listing.skipped {
                report.skip(skipped.path, skipped.reason);
            }
            if listing.cut_short {
                report.fail(
                    path.clone(),
                    format!("has more than {} files, the most that one job takes", walk::FILES_MAX),
                );
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(files)
    }

    /// Reads a file, unless it is stored as it is. What is wrong with one file is one error.
    fn prepare(
        &self,
        file: &Listed,
        request: &Request,
        report: &mut Report,
    ) -> Result<Found, JobError> {
        let Some((opened, bytes)) = self.read(file, report) else { return Ok(Found::PassedOver) };
        let sha256 = super::sha256(&bytes);
        let uri = uri::of_path(&opened.path());
        let snapshot = self.store().snapshot();
        let stored = stored(&snapshot, &uri)?;
        if let Some(stored) = &stored
            && stored.sha256 == sha256
            && request.sensitivity.is_none_or(|wanted| wanted == stored.sensitivity)
        {
            report.unchanged += 1;
            return Ok(Found::Unchanged);
        }
        let document = match read_bytes(opened.name(), &bytes) {
            Ok(document) => document,
            Err(unreadable) => {
                let kept = if stored.is_some() { "; its last version stays" } else { "" };
                report.skip(file.path.clone(), format!("{unreadable}{kept}"));
                return Ok(Found::PassedOver);
            }
        };
        let sensitivity = request.sensitivity.or(stored.as_ref().map(|stored| stored.sensitivity));
        let older = stored.map(|stored| stored.older(&snapshot)).transpose()?;
        let chunks = chunk(&document);
        Ok(Found::Fresh(Box::new(Prepared {
            relative: opened.relative().to_owned(),
            root: opened.root().to_owned(),
            uri,
            bytes: bytes.len() as u64,
            sha256,
            named: named(&document, &chunks),
            chunks,
            document,
            older,
            sensitivity: sensitivity.unwrap_or_default(),
        })))
    }

    fn read(&self, file: &Listed, report: &mut Report) -> Option<(Allowed, Vec<u8>)> {
        let opened = match self.roots.resolve(&file.path) {
            Ok(opened) => opened,
            Err(refused) => {
                report.fail(file.path.clone(), refused.to_string());
                return None;
            }
        };
        match opened.read_bytes() {
            Ok(Some(bytes)) => return Some((opened, bytes)),
            Ok(None) => report.skip(
                file.path.clone(),
                format!("is longer than {FILE_BYTES_MAX} bytes, the most that is read"),
            ),
            Err(error) => report.fail(file.path.clone(), error.to_string()),
        }
        None
    }

    /// Before the first document, a hidden item says that a job is open; the record of the job
    /// replaces it. Found at the start of a later job, it tells that this one was cut off, perhaps
    /// before its links were made.
    fn mark_open(&self, state: &mut State, request: &Request) -> Result<(), JobError> {
        if state.open.is_some() {
            return Ok(());
        }
        let mark = ItemDraft {
            reference: Some(OPEN_REF.to_owned()),
            title: "an ingest that has not ended".to_owned(),
            ..job_item(request)
        };
        let written = self.store().write(Batch { items: vec![mark], ..Batch::default() })?;
        state.open = written.items.first().copied();
        Ok(())
    }

    /// Links between files become edges, once all files are there: those of new documents, and
    /// those of unchanged ones that may lead to something new or were never made. Each file is read
    /// once more for it, so that nothing of it has to be kept until then.
    fn link_all(
        &self,
        files: &[Listed],
        state: &mut State,
        request: &Request,
    ) -> Result<(), JobError> {
        let mut linking = Linking::new(self.store(), &request.by);
        for (at, older) in std::mem::take(&mut state.unlinked) {
            if let Some(one) = self.stored_links(linking.snapshot(), &files[at])? {
                linking.link(&Unlinked { older, ..one })?;
            }
        }
        if state.interrupted || !state.report.documents.is_empty() {
            for &at in &state.unchanged {
                if let Some(one) = self.stored_links(linking.snapshot(), &files[at])? {
                    linking.link(&one)?;
                }
            }
        }
        state.report.links = linking.end()?;
        Ok(())
    }

    /// The links of a file that is stored as it is.
    fn stored_links(
        &self,
        snapshot: &Snapshot,
        file: &Listed,
    ) -> Result<Option<Unlinked>, JobError> {
        let mut unread = Report::default();
        let Some((opened, bytes)) = self.read(file, &mut unread) else { return Ok(None) };
        let uri = uri::of_path(&opened.path());
        let (Some(stored), Ok(document)) =
            (stored(snapshot, &uri)?, read_bytes(opened.name(), &bytes))
        else {
            return Ok(None);
        };
        if stored.sha256 != super::sha256(&bytes) {
            // It was changed meanwhile: its links come with the next ingest.
            return Ok(None);
        }
        Ok(Some(Unlinked {
            document: stored.document,
            older: None,
            relative: opened.relative().to_owned(),
            root: opened.root().to_owned(),
            links: document.links,
            chunks: stored.pieces(snapshot)?,
        }))
    }

    /// The job itself is remembered.
    fn record(&self, state: &mut State, request: &Request) -> Result<(), JobError> {
        let id = self.store().new_item_id();
        let report = &mut state.report;
        report.job = Some(id);
        let mut told = report.to_json();
        told["paths"] = json!(request.paths);
        for list in ["skipped", "errors"] {
            if let Some(rows) = told[list].as_array_mut() {
                rows.truncate(RECORDED_MAX);
            }
        }
        let item = ItemDraft {
            id: Some(id),
            title: format!("ingest of {} files", report.files),
            text: told.to_string(),
            supersedes: state.open.into_iter().collect(),
            ..job_item(request)
        };
        self.store().write(Batch { items: vec![item], ..Batch::default() })?;
        Ok(())
    }
}

/// What a job's record and its mark have in common: words and meaning do not find them.
fn job_item(request: &Request) -> ItemDraft {
    ItemDraft {
        kind: "job".to_owned(),
        modality: "text".to_owned(),
        recorded_by: request.by.clone(),
        via: request.via.to_owned(),
        ..ItemDraft::default()
    }
}

/// Where a job stands.
struct State {
    report: Report,
    /// Files at the front of the list of which nothing is left to do.
    settled: usize,
    /// Files whose documents were stored and have links, or may be linked to, each with the document
    /// that it replaced.
    unlinked: Vec<(usize, Option<ItemId>)>,
    /// Files that are stored as they are.
    unchanged: Vec<usize>,
    /// The mark that a job is open: this one's, or that of one that was cut off.
    open: Option<ItemId>,
    /// Whether an earlier job was cut off.
    interrupted: bool,
}

impl State {
    fn of(snapshot: &Snapshot, report: Report) -> Result<Self, Damage> {
        let open = snapshot.find_ref(OPEN_REF)?.map(|place| snapshot.id(place)).transpose()?;
        let interrupted = open.is_some();
        let (unlinked, unchanged) = (Vec::new(), Vec::new());
        Ok(Self { report, settled: 0, unlinked, unchanged, open, interrupted })
    }

    fn settle(&mut self, settled: inflow::Settled<Vec<Settled>>) {
        self.report.embedded += settled.embedded;
        for (one, refused) in settled.done {
            self.settled = one.file + 1;
            if let Some(why) = refused {
                self.report.fail(one.uri, why);
                continue;
            }
            self.report.count(one.items, one.older.is_some());
            self.report.documents.push(one.document);
            if one.has_links || one.older.is_some() {
                self.unlinked.push((one.file, one.older));
            }
        }
    }
}

/// What became of a listed file.
enum Found {
    Fresh(Box<Prepared>),
    Unchanged,
    PassedOver,
}

/// The version of a file that stands now.
struct Stored {
    sha256: [u8; 32],
    source: SourceId,
    version: u64,
    document: ItemId,
    sensitivity: Sensitivity,
}

/// Looks at the newest version only; one whose document is tombstoned is not stored.
fn stored(snapshot: &Snapshot, uri: &str) -> Result<Option<Stored>, Damage> {
    let sources = snapshot.sources_of_uri(uri)?;
    let version = sources.len() as u64;
    let Some(newest) = sources.last() else { return Ok(None) };
    for place in snapshot.items_of_source(newest.id)? {
        let item = snapshot.item(place)?;
        if item.kind == "document" {
            let stored = Stored {
                sha256: newest.content_sha256,
                source: newest.id,
                version,
                document: item.id,
                sensitivity: item.sensitivity,
            };
            return Ok((snapshot.status(place)? != Status::Tombstoned).then_some(stored));
        }
    }
    Ok(None)
}

impl Stored {
    fn older(&self, snapshot: &Snapshot) -> Result<Older, Damage> {
        Older::of(snapshot, self.source, self.document, self.version)
    }

    /// Id, first and last line of each chunk.
    fn pieces(&self, snapshot: &Snapshot) -> Result<Vec<Piece>, Damage> {
        let mut pieces = Vec::new();
        for place in snapshot.items_of_source(self.source)? {
            let item = snapshot.item(place)?;
            let Some(span) = item.span.filter(|_| item.kind == "chunk") else { continue };
            pieces.push((item.id, span.line_start, span.line_end));
        }
        Ok(pieces)
    }
}

/// The document that stands for a file now.
pub fn document_of(snapshot: &Snapshot, uri: &str) -> Result<Option<ItemId>, Damage> {
    Ok(stored(snapshot, uri)?.map(|stored| stored.document))
}
