//! One ingest: paths in, documents stored, a report out.
//!
//! A file is stored whole or not at all, one batch each. Files whose content is as it was are
//! left alone; a changed file's new version supersedes its old one.

use std::collections::{BTreeMap, HashMap, VecDeque};

use engine::{
    Batch, Damage, Direction, EdgeDraft, EdgeFilter, ItemDraft, ItemId, Model, NEIGHBOURS_MAX,
    Sensitivity, Snapshot, SourceId, Status, Store, WriteError,
};
use half::f16;
use serde_json::json;

use super::chunk::chunk;
use super::links::candidates;
use super::outline::{Marks, Older, Prepared, named};
use super::read::read_bytes;
pub use super::report::{JobError, Report};
use super::roots::{Allowed, FILE_BYTES_MAX, Roots};
use super::uri;
use super::walk::{self, Listed, walk};
use crate::encoders::Encoders;

/// Paths of one request.
pub const PATHS_MAX: usize = 64;
/// Chunks that are embedded together.
const EMBED_TOGETHER: usize = 64;
/// Strength of a link between files.
const LINK_WEIGHT: f32 = 0.8;
/// What a link between files is called.
const LINKS_TO: &str = "links_to";
/// Ref of the item that says that a job is open.
const OPEN_REF: &str = "recalld:ingest-open";
/// Skipped files and errors that the stored record lists.
const RECORDED_MAX: usize = 20;
/// Links of one document that become edges.
const LINKS_MAX: usize = 1_000;

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
    /// Told how many files of how many are done, and the one at hand.
    pub progress: &'a dyn Fn(u64, u64, &str),
}

impl Job<'_> {
    /// Does all of it.
    pub fn run(&self, request: &Request) -> Result<Report, JobError> {
        let mut report = Report::default();
        let files = self.list(request, &mut report)?;
        let mut state = State::of(&self.store().snapshot())?;
        for (done, file) in (0u64..).zip(&files) {
            (self.progress)(done, files.len() as u64, &file.relative);
            if report.cancelled || (self.cancelled)() {
                report.cancelled = true;
                break;
            }
            report.files += 1;
            match self.prepare(file, request, &mut report)? {
                Found::PassedOver => {}
                Found::Unchanged => state.unchanged.push(file),
                Found::Fresh(prepared) => {
                    report.items += 1 + prepared.chunks.len() as u64;
                    report.superseded += u64::from(prepared.older.is_some());
                    if !request.dry_run {
                        state.waiting.push(*prepared);
                    }
                }
            }
            if state.waiting_items() >= EMBED_TOGETHER {
                self.store_all(&mut state, request, &mut report)?;
            }
        }
        self.store_all(&mut state, request, &mut report)?;
        if !request.dry_run {
            self.link_all(&state, request, &mut report)?;
            // A job that found everything as it was leaves nothing behind.
            if report.items > 0 || report.errors_count > 0 || state.open.is_some() {
                self.record(&state, request, &mut report)?;
            }
        }
        (self.progress)(report.files, files.len() as u64, "");
        Ok(report)
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

    fn store_all(
        &self,
        state: &mut State<'_>,
        request: &Request,
        report: &mut Report,
    ) -> Result<(), JobError> {
        let waiting = std::mem::take(&mut state.waiting);
        if waiting.is_empty() {
            return Ok(());
        }
        let Some((mut embeddings, model)) = self.embed(&waiting) else {
            for one in &waiting {
                report.take_back(one);
            }
            report.cancelled = true;
            return Ok(());
        };
        self.mark_open(state, request)?;
        for one in waiting {
            let marks = Marks { by: &request.by, via: request.via };
            let mine = embeddings.drain(..1 + one.chunks.len()).collect();
            let (mut batch, document) = one.batch(&mut || self.store().new_item_id(), mine, marks);
            batch.embedded_by = Some(model);
            let chunks: Vec<Piece> = batch.items[1..]
                .iter()
                .filter_map(|item| Some((item.id?, item.span?.line_start, item.span?.line_end)))
                .collect();
            match self.encoders.write(batch) {
                Ok(_) => report.documents.push(document),
                Err(WriteError::Refused { field, why }) => {
                    report.take_back(&one);
                    report.fail(one.uri, format!("{field}: {why}"));
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            state.links.push(Unlinked::of(one, document, chunks));
        }
        Ok(())
    }

    /// One embedding for each item, in order, and what made them; `None` when the job is called off
    /// meanwhile.
    fn embed(&self, waiting: &[Prepared]) -> Option<(VecDeque<Vec<f16>>, Model)> {
        let embedder = self.encoders.view().embedder;
        let mut known = Vec::new();
        for one in waiting {
            known.push(None);
            known.extend(one.known_embeddings(embedder.model()));
        }
        let texts: Vec<String> = waiting.iter().flat_map(Prepared::texts_to_embed).collect();
        let unknown = texts.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<&str> = unknown.map(|(text, _)| text.as_str()).collect();
        let mut fresh = Vec::with_capacity(unknown.len());
        for slice in unknown.chunks(EMBED_TOGETHER) {
            if (self.cancelled)() {
                return None;
            }
            fresh.extend(embedder.embed_all(slice));
        }
        let mut fresh = fresh.into_iter();
        let all = known.into_iter().map(|known| match known {
            Some(known) => known.to_vec(),
            None => fresh.next().expect("one for each text that had none"),
        });
        Some((all.collect(), embedder.model()))
    }

    /// Before the first document, a hidden item says that a job is open; the record of the job
    /// replaces it. Found at the start of a later job, it tells that this one was cut off, perhaps
    /// before its links were made.
    fn mark_open(&self, state: &mut State<'_>, request: &Request) -> Result<(), JobError> {
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
    /// those of unchanged ones that may lead to something new or were never made.
    fn link_all(
        &self,
        state: &State<'_>,
        request: &Request,
        report: &mut Report,
    ) -> Result<(), JobError> {
        let snapshot = self.store().snapshot();
        let mut known = HashMap::new();
        for one in &state.links {
            self.link(&snapshot, one, &mut known, request, report)?;
        }
        if state.interrupted || !state.links.is_empty() {
            for file in &state.unchanged {
                if let Some(one) = self.stored_links(&snapshot, file)? {
                    self.link(&snapshot, &one, &mut known, request, report)?;
                }
            }
        }
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
        Ok(Some(Unlinked {
            document: stored.document,
            older: None,
            relative: opened.relative().to_owned(),
            root: opened.root().to_owned(),
            links: document.links,
            chunks: stored.pieces(snapshot)?,
        }))
    }

    fn link(
        &self,
        snapshot: &Snapshot,
        one: &Unlinked,
        known: &mut HashMap<String, Option<ItemId>>,
        request: &Request,
        report: &mut Report,
    ) -> Result<(), JobError> {
        let mut edges: BTreeMap<(ItemId, ItemId), EdgeDraft> = BTreeMap::new();
        for (from, link) in one.links() {
            for relative in candidates(link, &one.relative) {
                let path = format!("{}/{relative}", one.root.trim_end_matches('/'));
                let uri = uri::of_path(&path);
                let to = match known.get(&uri) {
                    Some(to) => *to,
                    None => *known.entry(uri.clone()).or_insert(document_of(snapshot, &uri)?),
                };
                if let Some(to) = to.filter(|&to| to != one.document) {
                    let edge = || edge(from, to, &link.label, request);
                    edges.entry((from, to)).or_insert_with(edge);
                    break;
                }
            }
            if edges.len() >= LINKS_MAX {
                break;
            }
        }
        self.keep_incoming(snapshot, one, request, &mut edges)?;
        let mut fresh = Vec::with_capacity(edges.len());
        for ((from, to), edge) in edges {
            if !is_linked(snapshot, from, to)? {
                fresh.push(edge);
            }
        }
        if !fresh.is_empty() {
            report.links += fresh.len() as u64;
            self.store().write(Batch { edges: fresh, ..Batch::default() })?;
        }
        Ok(())
    }

    /// What linked to the old version of a document links to the new one as well.
    fn keep_incoming(
        &self,
        snapshot: &Snapshot,
        one: &Unlinked,
        request: &Request,
        edges: &mut BTreeMap<(ItemId, ItemId), EdgeDraft>,
    ) -> Result<(), JobError> {
        let Some(older) = one.older else { return Ok(()) };
        let links = EdgeFilter { current_only: true, ..links(Direction::In) };
        for neighbour in snapshot.neighbours(older, NEIGHBOURS_MAX, &links)? {
            let from = neighbour.edge.from;
            let edge = || edge(from, one.document, neighbour.edge.note, request);
            edges.entry((from, one.document)).or_insert_with(edge);
        }
        Ok(())
    }

    /// The job itself is remembered.
    fn record(
        &self,
        state: &State<'_>,
        request: &Request,
        report: &mut Report,
    ) -> Result<(), JobError> {
        let id = self.store().new_item_id();
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
struct State<'a> {
    waiting: Vec<Prepared>,
    links: Vec<Unlinked>,
    unchanged: Vec<&'a Listed>,
    /// The mark that a job is open: this one's, or that of one that was cut off.
    open: Option<ItemId>,
    /// Whether an earlier job was cut off.
    interrupted: bool,
}

impl State<'_> {
    fn of(snapshot: &Snapshot) -> Result<Self, Damage> {
        let open = snapshot.find_ref(OPEN_REF)?.map(|place| snapshot.id(place)).transpose()?;
        Ok(Self {
            waiting: Vec::new(),
            links: Vec::new(),
            unchanged: Vec::new(),
            open,
            interrupted: open.is_some(),
        })
    }

    fn waiting_items(&self) -> usize {
        self.waiting.iter().map(|one| one.chunks.len() + 1).sum()
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

fn is_linked(snapshot: &Snapshot, from: ItemId, to: ItemId) -> Result<bool, Damage> {
    let neighbours = snapshot.neighbours(from, NEIGHBOURS_MAX, &links(Direction::Out))?;
    Ok(neighbours.iter().any(|one| one.edge.to == to))
}

/// The links that run this way.
fn links(direction: Direction) -> EdgeFilter {
    let relations = vec![LINKS_TO.to_owned()];
    EdgeFilter { relations, direction: Some(direction), ..EdgeFilter::default() }
}

fn edge(from: ItemId, to: ItemId, note: &str, request: &Request) -> EdgeDraft {
    const NOTE_BYTES: usize = 200;
    EdgeDraft {
        id: None,
        from,
        to,
        relation: LINKS_TO.to_owned(),
        weight: LINK_WEIGHT,
        source: None,
        recorded_at: None,
        recorded_by: request.by.clone(),
        valid_from: None,
        valid_to: None,
        note: super::outline::cut(note, NOTE_BYTES),
    }
}

/// Id, first and last line of a chunk.
type Piece = (ItemId, u32, u32);

/// A stored document whose links have not been followed yet.
struct Unlinked {
    document: ItemId,
    older: Option<ItemId>,
    relative: String,
    root: String,
    links: Vec<super::read::Link>,
    chunks: Vec<Piece>,
}

impl Unlinked {
    fn of(one: Prepared, document: ItemId, chunks: Vec<Piece>) -> Self {
        Self {
            document,
            older: one.older.map(|older| older.document),
            relative: one.relative,
            root: one.root,
            links: one.document.links,
            chunks,
        }
    }

    /// Each link with the chunk that holds it: the document where none does.
    fn links(&self) -> impl Iterator<Item = (ItemId, &super::read::Link)> {
        self.links.iter().map(|link| {
            let holds = |chunk: &&Piece| (chunk.1..=chunk.2).contains(&link.line);
            (self.chunks.iter().find(holds).map_or(self.document, |chunk| chunk.0), link)
        })
    }
}
