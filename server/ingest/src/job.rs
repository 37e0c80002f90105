//! Ingest job: stores the documents of the given paths, and returns a report.
//!
//! A file is stored whole or not at all. Unchanged files are skipped, so the next job continues after a killed one. The
//! new version of a changed file supersedes the existing version.

use std::collections::HashSet;

use engine::{Batch, ItemDraft, ItemId, Sensitivity, Snapshot, Store};
use serde_json::json;

use super::held::{Held, raised};
use super::linking::{Linking, Unlinked};
use super::outline::{FROM_FILE, Marks, Prepared, named};
use super::parcel::{Documents, One, Stored as Settled};
use super::report::JobRecord;
pub use super::report::{BrokenOff, JobError, Report};
use super::stored::{documents_before, stored};
use super::walk::{self, Cut, Listed, walk};
use recalld_common::cancel::CallScope;
use recalld_common::counted::counted;
use recalld_documents::beside;
use recalld_documents::beside::Words;
use recalld_documents::chunk::chunk;
use recalld_documents::{Aids, PdfReader, Unread, links_of, read_with};
use recalld_embedding::encoders::Encoders;
use recalld_embedding::inflow;
use recalld_embedding::inflow::{Halt, Inflow};
use recalld_fs_util::roots::{Allowed, FILE_BYTES_MAX, Refused, Roots};
use recalld_fs_util::uri;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of paths of one request.
    pub const PATHS_MAX: usize = 64;
    /// Maximum number of skipped files and of errors in the stored record of a job.
    const RECORDED_MAX: usize = 20;
    /// Maximum number of earlier versions of a file that interrupted jobs may have stored without edges. The links of
    /// versions before those are lost.
    const UNLINKED_MAX: usize = 16;
}

/// Ref of the item that marks an open job.
pub const OPEN_REF: &str = "recalld:ingest-open";

/// An ingest request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Files and folders below the allowed roots.
    pub paths: Vec<String>,
    /// True if folders are walked.
    pub recursive: bool,
    /// Globs of files to include; all files if empty.
    pub include: Vec<String>,
    /// Globs of files to exclude.
    pub exclude: Vec<String>,
    /// Requested sensitivity; `None` for that of the existing version.
    pub sensitivity: Option<Sensitivity>,
    /// Reports what would be done, without writing.
    pub dry_run: bool,
    /// Principal of the request.
    pub by: String,
    /// Name of the calling tool.
    pub via: &'static str,
}

/// Context of a job.
pub struct Job<'a> {
    /// Id of the job's record; unused if nothing changed.
    pub id: ItemId,
    /// The store and its encoders.
    pub encoders: &'a Encoders,
    /// The allowed roots.
    pub roots: &'a Roots,
    /// Reader of PDF files; without a reader each PDF is an error.
    pub pdf: Option<&'a PdfReader>,
    /// Checks that the caller may write and replace documents of this sensitivity; otherwise returns the reason.
    pub allows: &'a dyn Fn(Sensitivity) -> Result<(), String>,
    /// Deadline and cancellation of the call.
    pub call: CallScope<'a>,
    /// Called before each file with the number of stored files, the number of all files, and the current file.
    pub progress: &'a dyn Fn(u64, u64, &str),
}

impl Job<'_> {
    /// Runs the job.
    pub fn run(&self, request: &Request) -> Result<Report, BrokenOff> {
        let mut state = State::default();
        match self.run_all(request, &mut state) {
            Ok(()) => Ok(state.report),
            Err(error) => Err(BrokenOff { error, report: Box::new(state.report) }),
        }
    }

    fn run_all(&self, request: &Request, state: &mut State) -> Result<(), JobError> {
        let files = self.list(request, &mut state.report)?;
        let snapshot = self.store().snapshot();
        state.open = snapshot.find_ref(OPEN_REF)?.map(|place| snapshot.id(place)).transpose()?;
        state.interrupted = state.open.is_some();
        state.steps = files.len();
        if request.dry_run {
            for (at, file) in files.iter().enumerate() {
                if !self.goes_on(state, &files, at) {
                    break;
                }
                state.settled += 1;
                if let Found::Fresh(prepared) = self.prepare(file, request, state)? {
                    state.report.count(1 + prepared.chunks.len(), prepared.older.is_some());
                    state.report.hold(&file.path, &prepared.held);
                }
            }
        } else {
            std::thread::scope(|scope| {
                let inflow = Inflow::start(scope, self.encoders);
                self.store_all(inflow, &files, state, request)
            })?;
            self.link_all(&files, state, request)?;
            // A job without any change leaves no record.
            let is_new = state.report.items > 0 || state.report.errors_count > 0;
            if is_new || state.open.is_some() {
                self.record(state, request)?;
            }
        }
        if !state.report.cancelled {
            (self.progress)(state.steps as u64, state.steps as u64, "");
        }
        Ok(())
    }

    /// Reports the progress. Returns true if the next file is to be read.
    fn goes_on(&self, state: &mut State, files: &[Listed], at: usize) -> bool {
        let name = recalld_secret_scan::masked(&files[at].relative);
        (self.progress)(state.settled as u64, files.len() as u64, &name);
        state.report.cancelled |= self.call.is_over();
        state.report.files += u64::from(!state.report.cancelled);
        !state.report.cancelled
    }

    /// Reads every file, and stores the new documents. The report includes the stored documents even if the job is
    /// cancelled or fails.
    fn store_all(
        &self,
        mut inflow: Inflow<'_, Documents>,
        files: &[Listed],
        state: &mut State,
        request: &Request,
    ) -> Result<(), JobError> {
        let handed = self.hand_over(&mut inflow, files, state, request);
        let (settled, ended) = inflow.stop();
        settled.into_iter().for_each(|one| state.settle(one));
        match handed {
            Err(Halt::Failed(error)) => return Err(error),
            Err(Halt::Cancelled) => state.report.cancelled = true,
            Ok(()) => {}
        }
        Ok(ended?)
    }

    /// Submits every new document, until all documents are stored or the job is cancelled.
    fn hand_over(
        &self,
        inflow: &mut Inflow<'_, Documents>,
        files: &[Listed],
        state: &mut State,
        request: &Request,
    ) -> Result<(), Halt<JobError>> {
        let mut pending = Documents::default();
        for (at, file) in files.iter().enumerate() {
            if inflow.is_empty() && pending.is_empty() {
                state.settled = at;
            }
            if !self.goes_on(state, files, at) {
                return Err(Halt::Cancelled);
            }
            let prepared = match self.prepare(file, request, state).map_err(Halt::Failed)? {
                Found::PassedOver => continue,
                Found::Unchanged => {
                    state.unchanged.push(at);
                    continue;
                }
                Found::Fresh(prepared) => prepared,
            };
            let (one, batch) = self.batch(*prepared, (at, &file.path), request);
            if !pending.fits(&one, &batch) {
                self.give(inflow, std::mem::take(&mut pending), state, request)?;
            }
            pending.push(one, batch);
        }
        if !pending.is_empty() {
            self.give(inflow, pending, state, request)?;
        }
        let settled = inflow.drain(self.call).map_err(|halt| halt.map(JobError::from))?;
        settled.into_iter().for_each(|one| state.settle(one));
        Ok(())
    }

    /// Submits a write batch.
    fn give(
        &self,
        inflow: &mut Inflow<'_, Documents>,
        documents: Documents,
        state: &mut State,
        request: &Request,
    ) -> Result<(), Halt<JobError>> {
        self.mark_open(state, request).map_err(Halt::Failed)?;
        let settled = inflow.give(documents, self.call).map_err(|halt| halt.map(JobError::from))?;
        settled.into_iter().for_each(|one| state.settle(one));
        Ok(())
    }

    /// The records of a document. Embeddings of the same model in the existing version are reused.
    fn batch(&self, one: Prepared, (file, path): (usize, &str), request: &Request) -> (One, Batch) {
        let marks = Marks { by: &request.by, via: request.via };
        let model = self.encoders.view().embedder.model();
        let (mut batch, document) = one.batch(&mut || self.store().new_item_id(), model, marks);
        batch.embedded_by = Some(model);
        let one = One {
            document,
            is_changed: one.older.is_some(),
            is_lowered: one.is_lowered,
            file,
            bytes: one.bytes,
            has_links: !one.document.links.is_empty(),
            uri: one.uri,
            path: path.to_owned(),
            raised: raised(&batch, one.sensitivity),
            held: one.held,
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
        let mut rules = walk::Rules::new(request.recursive, &request.include, &request.exclude)
            .map_err(|error| wrong("include, exclude", error.to_string()))?;
        let mut files = Vec::new();
        for path in &request.paths {
            rules = rules.at_most(walk::FILES_MAX - files.len().min(walk::FILES_MAX));
            // Names the path at fault, on one line and without secrets.
            let named = recalld_secret_scan::masked(path).replace(char::is_control, "\u{FFFD}");
            let refuse = |refused: Refused| wrong("paths", format!("{named}: {refused}"));
            let start = self.roots.resolve(path).map_err(refuse)?;
            let listing = walk(&start, &rules, &|| self.call.is_over()).map_err(refuse)?;
            files.extend(listing.files);
            report.skipped_count += listing.skipped_count - listing.skipped.len() as u64;
            for skipped in listing.skipped {
                report.skip(skipped.path, skipped.reason);
            }
            let (most, what) = match listing.cut_short {
                None => continue,
                Some(Cut::Files) => (walk::FILES_MAX, "files"),
                Some(Cut::Entries) => (walk::ENTRIES_MAX, "files and folders"),
                Some(Cut::CalledOff) => {
                    report.cancelled = true;
                    break;
                }
            };
            let why = format!("has more than {most} {what}, the most that one job takes");
            report.fail(path.clone(), why);
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(files)
    }

    /// Reads a file that differs from its existing version. A fault of a single file is an error row of the report.
    fn prepare(
        &self,
        file: &Listed,
        request: &Request,
        state: &mut State,
    ) -> Result<Found, JobError> {
        let report = &mut state.report;
        if let Some(picture) = beside::picture_of(&file.path, &state.pictures) {
            report.skip(file.path.clone(), format!("has the words of {picture}, read with it"));
            return Ok(Found::PassedOver);
        }
        let Some((opened, bytes)) = self.read(file, report) else { return Ok(Found::PassedOver) };
        let words = Words::of(self.roots, &file.path, &bytes);
        let sha256 = recalld_fs_util::uri::sha256(&bytes);
        let uri = uri::of_path(&opened.path());
        let snapshot = self.store().snapshot();
        let stored = stored(&snapshot, &uri)?;
        if let Some(stored) = &stored
            && stored.sha256 == sha256
            && stored.beside == words.sha256
            && request.sensitivity.is_none_or(|wanted| wanted == stored.asked)
        {
            report.unchanged += 1;
            state.pictures.extend(words.is_picture.then(|| file.path.clone()));
            return Ok(Found::Unchanged);
        }
        let was = stored.as_ref().map(|stored| stored.asked);
        let sensitivity = request.sensitivity.or(was).unwrap_or_default();
        for wanted in [Some(sensitivity), was].into_iter().flatten() {
            if let Err(why) = (self.allows)(wanted) {
                report.fail(file.path.clone(), why);
                return Ok(Found::PassedOver);
            }
        }
        let aids = Aids { pdf: self.pdf, beside: &words.beside, call: self.call };
        let mut document = match read_with(opened.name(), &bytes, aids) {
            Ok(document) => document,
            Err(unread) => {
                let kept = if stored.is_some() { "; its last version stays" } else { "" };
                match unread {
                    // The check before the next file detects the cancellation.
                    Unread::Cancelled => {}
                    Unread::Broken(why) => report.fail(file.path.clone(), format!("{why}{kept}")),
                    _ => report.skip(file.path.clone(), format!("{unread}{kept}")),
                }
                return Ok(Found::PassedOver);
            }
        };
        state.pictures.extend(words.is_picture.then(|| file.path.clone()));
        document.notes.extend(words.notes);
        if let Some(lost) = &document.lost {
            report.fail(file.path.clone(), format!("was read, but {lost}"));
        }
        let older = stored.map(|stored| stored.older(&snapshot)).transpose()?;
        let chunks = chunk(&document);
        Ok(Found::Fresh(Box::new(Prepared {
            held: Held::of(&document.text, &chunks, opened.relative()),
            relative: opened.relative().to_owned(),
            root: opened.root().to_owned(),
            from: FROM_FILE,
            uri,
            bytes: bytes.len() as u64,
            sha256,
            beside: words.sha256,
            named: named(&document, &chunks),
            chunks,
            document,
            older,
            is_lowered: was.is_some_and(|was| was > sensitivity),
            sensitivity,
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

    /// Writes a hidden item that marks an open job, before the first document; the job's record replaces the item. If a
    /// later job finds the item at its start, this job was interrupted, perhaps before its edges were written.
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

    /// Turns links between files into edges, after all files are stored: links of new documents, and links of unchanged
    /// documents that may have new targets or were never resolved. Each file is read again for this, so no links are
    /// retained in memory until then.
    fn link_all(
        &self,
        files: &[Listed],
        state: &mut State,
        request: &Request,
    ) -> Result<(), JobError> {
        let mut all = std::mem::take(&mut state.unlinked);
        if state.interrupted || !state.report.documents.is_empty() {
            all.extend(state.unchanged.drain(..).map(|at| (at, false)));
        }
        state.steps = files.len() + all.len();
        let mut linking = Linking::new(self.store(), &request.by);
        let linked = self.link_each(files, &all, state, &mut linking);
        state.report.links = linking.made();
        linked
    }

    fn link_each(
        &self,
        files: &[Listed],
        all: &[(usize, bool)],
        state: &mut State,
        linking: &mut Linking<'_>,
    ) -> Result<(), JobError> {
        for (done, &(at, is_changed)) in all.iter().enumerate() {
            if !state.report.cancelled {
                let done = (files.len() + done) as u64;
                (self.progress)(
                    done,
                    state.steps as u64,
                    &recalld_secret_scan::masked(&files[at].relative),
                );
            }
            state.report.cancelled |= self.call.is_over();
            if state.report.cancelled {
                break;
            }
            let versions = if state.interrupted { UNLINKED_MAX } else { usize::from(is_changed) };
            if let Some(one) = self.stored_links(linking.snapshot(), &files[at], versions)? {
                linking.link(&one)?;
            }
        }
        linking.write()
    }

    /// The links of an unchanged file, and up to `versions` earlier versions.
    fn stored_links(
        &self,
        snapshot: &Snapshot,
        file: &Listed,
        versions: usize,
    ) -> Result<Option<Unlinked>, JobError> {
        let mut unread = Report::default();
        let Some((opened, bytes)) = self.read(file, &mut unread) else { return Ok(None) };
        let uri = uri::of_path(&opened.path());
        let (Some(stored), Ok(links)) = (stored(snapshot, &uri)?, links_of(opened.name(), &bytes))
        else {
            return Ok(None);
        };
        if stored.sha256 != recalld_fs_util::uri::sha256(&bytes) {
            // The file changed meanwhile: the next ingest resolves its links.
            return Ok(None);
        }
        Ok(Some(Unlinked {
            document: stored.document,
            older: documents_before(snapshot, &uri, versions)?,
            relative: opened.relative().to_owned(),
            root: opened.root().to_owned(),
            links,
            chunks: stored.pieces(snapshot)?,
        }))
    }

    /// Stores the job's record. A cancelled job stays marked as open, since its edges were not written.
    fn record(&self, state: &mut State, request: &Request) -> Result<(), JobError> {
        let id = self.id;
        let report = &mut state.report;
        let is_cancelled = report.cancelled;
        report.job = Some(id);
        let record = JobRecord {
            report: report.facts().cut_to(RECORDED_MAX),
            paths: request.paths.iter().map(|path| recalld_secret_scan::masked(path)).collect(),
        };
        let item = ItemDraft {
            id: Some(id),
            title: format!("ingest of {}", counted(report.files, "file")),
            text: json!(record).to_string(),
            supersedes: state.open.filter(|_| !is_cancelled).into_iter().collect(),
            ..job_item(request)
        };
        self.store().write(Batch { items: vec![item], ..Batch::default() })?;
        Ok(())
    }
}

/// Common fields of a job's record and its open mark: neither full-text nor vector search finds them.
fn job_item(request: &Request) -> ItemDraft {
    ItemDraft {
        kind: "job".to_owned(),
        modality: "text".to_owned(),
        recorded_by: request.by.clone(),
        via: request.via.to_owned(),
        ..ItemDraft::default()
    }
}

/// State of a job.
#[derive(Default)]
struct State {
    report: Report,
    /// Files at the front of the list with no work left except their links.
    settled: usize,
    /// Number of files to read, later plus the number of files whose links are resolved.
    steps: usize,
    /// Stored files that have links or may be link targets; true if an older version existed.
    unlinked: Vec<(usize, bool)>,
    /// Unchanged files.
    unchanged: Vec<usize>,
    /// Paths of images, which have sidecar texts.
    pictures: HashSet<String>,
    /// The open mark of this job, or of an interrupted one.
    open: Option<ItemId>,
    /// True if an earlier job was interrupted.
    interrupted: bool,
}

impl State {
    fn settle(&mut self, settled: inflow::Settled<Vec<Settled>>) {
        self.report.embedded += settled.embedded;
        for (one, refused) in settled.done {
            self.settled = one.file + 1;
            if let Some(why) = refused {
                self.report.fail(one.uri, why);
                continue;
            }
            self.report.count(one.items, one.is_changed);
            self.report.hold(&one.path, &one.held);
            self.report.raised.extend(one.raised);
            self.report.lowered.extend(one.is_lowered.then_some(one.document));
            self.report.documents.push(one.document);
            if one.has_links || one.is_changed {
                self.unlinked.push((one.file, one.is_changed));
            }
        }
    }
}

/// Result of reading a listed file.
enum Found {
    Fresh(Box<Prepared>),
    Unchanged,
    PassedOver,
}
