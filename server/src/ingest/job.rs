//! One ingest: paths in, documents stored, a report out.
//!
//! A file is stored whole or not at all, one batch each. Files whose content is as it was are
//! left alone; a changed file's new version supersedes its old one.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use engine::{
    Batch, Damage, EdgeDraft, ItemDraft, ItemId, Sensitivity, Snapshot, Status, Store, WriteError,
};
use half::f16;
use serde_json::{Value, json};

use super::chunk::chunk;
use super::links::candidates;
pub(crate) use super::outline::embedded_text;
use super::outline::{Marks, Older, Prepared};
use super::read::read_bytes;
use super::roots::{Allowed, Roots};
use super::uri;
use super::walk::{self, Listed, walk};
use crate::embed::Embedder;
use crate::names;

/// Paths of one request.
pub const PATHS_MAX: usize = 64;
/// Chunks that are embedded together.
const EMBED_TOGETHER: usize = 64;
/// Skipped files and errors that a report lists; the rest is counted.
const LISTED_MAX: usize = 100;
/// Strength of a link between files.
const LINK_WEIGHT: f32 = 0.8;
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
    /// How carefully the items are to be shown.
    pub sensitivity: Sensitivity,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Who asks.
    pub by: String,
    /// The tool it came through.
    pub via: &'static str,
}

/// What was done.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The job; `None` where there was nothing to do.
    pub job: Option<ItemId>,
    /// Files looked at.
    pub files: u64,
    /// Items written: documents and chunks.
    pub items: u64,
    /// Files that are stored as they are.
    pub unchanged: u64,
    /// Files whose older version was superseded.
    pub superseded: u64,
    /// Edges made of links between files.
    pub links: u64,
    /// Files passed over, and why.
    pub skipped: Vec<(String, String)>,
    /// How many were passed over in all.
    pub skipped_count: u64,
    /// Files that could not be read or stored, and why.
    pub errors: Vec<(String, String)>,
    /// How many there were in all.
    pub errors_count: u64,
    /// Whether the job ended early.
    pub cancelled: bool,
    /// Documents written.
    pub documents: Vec<ItemId>,
}

impl Report {
    /// `{job_id, files, items, unchanged, superseded, skipped[], errors[]}` and what else there is.
    pub fn to_json(&self) -> Value {
        let listed = |pairs: &[(String, String)]| {
            let rows = pairs.iter().map(|(path, why)| json!({"path": path, "reason": why}));
            Value::Array(rows.collect())
        };
        json!({
            "job_id": self.job.map(|id| names::item("job", id)),
            "files": self.files, "items": self.items, "unchanged": self.unchanged,
            "superseded": self.superseded, "links": self.links,
            "skipped": listed(&self.skipped), "skipped_count": self.skipped_count,
            "errors": listed(&self.errors), "errors_count": self.errors_count,
            "cancelled": self.cancelled,
            "truncated": self.skipped_count > self.skipped.len() as u64
                || self.errors_count > self.errors.len() as u64,
        })
    }

    fn skip(&mut self, path: String, why: String) {
        self.skipped_count += 1;
        if self.skipped.len() < LISTED_MAX {
            self.skipped.push((path, why));
        }
    }

    fn fail(&mut self, path: String, why: String) {
        self.errors_count += 1;
        if self.errors.len() < LISTED_MAX {
            self.errors.push((path, why));
        }
    }
}

/// Why a job did not begin, or stopped. What it had stored by then stays.
#[derive(Debug)]
pub enum JobError {
    /// A path or a pattern of the request cannot be used.
    Request {
        /// The argument.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The store refused.
    Write(WriteError),
    /// Stored bytes are damaged.
    Damaged(Damage),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { field, why } => write!(f, "{field}: {why}"),
            Self::Write(error) => error.fmt(f),
            Self::Damaged(damage) => damage.fmt(f),
        }
    }
}

impl std::error::Error for JobError {}

impl From<WriteError> for JobError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<Damage> for JobError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

/// What a job works with.
pub struct Job<'a> {
    /// Where to store.
    pub store: &'a Store,
    /// What embeds.
    pub embedder: &'a Embedder,
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
        let mut waiting: Vec<Prepared> = Vec::new();
        let mut links = Vec::new();
        for (done, file) in (0u64..).zip(&files) {
            (self.progress)(done, files.len() as u64, &file.relative);
            if (self.cancelled)() {
                report.cancelled = true;
                break;
            }
            report.files += 1;
            if let Some(prepared) = self.prepare(file, &mut report)? {
                report.items += 1 + prepared.chunks.len() as u64;
                report.superseded += u64::from(prepared.older.is_some());
                if !request.dry_run {
                    waiting.push(prepared);
                }
            }
            if waiting.iter().map(|one| one.chunks.len() + 1).sum::<usize>() >= EMBED_TOGETHER {
                self.store_all(&mut waiting, request, &mut links, &mut report)?;
            }
        }
        self.store_all(&mut waiting, request, &mut links, &mut report)?;
        self.link(&links, request, &mut report)?;
        (self.progress)(report.files, files.len() as u64, "");
        // A job that found everything as it was leaves nothing behind.
        if !request.dry_run && (report.items > 0 || report.errors_count > 0) {
            self.record(request, &mut report)?;
        }
        Ok(report)
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
                report.fail(path.clone(), "has more files than one job takes".to_owned());
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        Ok(files)
    }

    /// Reads a file, unless it is stored as it is. What is wrong with one file is one error.
    fn prepare(&self, file: &Listed, report: &mut Report) -> Result<Option<Prepared>, JobError> {
        let opened = match self.roots.resolve(&file.path) {
            Ok(opened) => opened,
            Err(refused) => {
                report.fail(file.path.clone(), refused.to_string());
                return Ok(None);
            }
        };
        let bytes = match opened.read_bytes() {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                report.skip(file.path.clone(), "is too large".to_owned());
                return Ok(None);
            }
            Err(error) => {
                report.fail(file.path.clone(), error.to_string());
                return Ok(None);
            }
        };
        let sha256 = super::sha256(&bytes);
        let uri = uri::of_path(&opened.path());
        let snapshot = self.store.snapshot();
        let older = match stored(&snapshot, &uri)? {
            Some(stored) if stored.sha256 == sha256 => {
                report.unchanged += 1;
                return Ok(None);
            }
            Some(stored) => Some(stored.older),
            None => None,
        };
        let document = match read_bytes(opened.name(), &bytes) {
            Ok(document) => document,
            Err(unreadable) => {
                report.skip(file.path.clone(), unreadable.to_string());
                return Ok(None);
            }
        };
        Ok(Some(prepared(&opened, uri, &bytes, sha256, document, older)))
    }

    fn store_all(
        &self,
        waiting: &mut Vec<Prepared>,
        request: &Request,
        links: &mut Vec<Unlinked>,
        report: &mut Report,
    ) -> Result<(), JobError> {
        let mut embeddings = self.embed(waiting);
        for one in waiting.drain(..) {
            let marks =
                Marks { by: &request.by, via: request.via, sensitivity: request.sensitivity };
            let mine = embeddings.drain(..1 + one.chunks.len()).collect();
            let (batch, document) = one.batch(&mut || self.store.new_item_id(), mine, marks);
            let chunks: Vec<(ItemId, u32, u32)> = batch.items[1..]
                .iter()
                .filter_map(|item| Some((item.id?, item.span?.line_start, item.span?.line_end)))
                .collect();
            match self.store.write(batch) {
                Ok(_) => report.documents.push(document),
                Err(WriteError::Refused { field, why }) => {
                    report.items -= 1 + one.chunks.len() as u64;
                    report.fail(one.uri, format!("{field}: {why}"));
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
            links.push(Unlinked::of(one, document, chunks));
        }
        Ok(())
    }

    fn embed(&self, waiting: &[Prepared]) -> VecDeque<Vec<f16>> {
        let texts: Vec<String> = waiting.iter().flat_map(Prepared::texts_to_embed).collect();
        let mut known = Vec::with_capacity(texts.len());
        for one in waiting {
            known.push(None);
            known.extend((0..one.chunks.len()).map(|at| one.known_embedding(at)));
        }
        let fresh: Vec<&str> = texts
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none())
            .map(|(text, _)| text.as_str())
            .collect();
        let mut fresh = self.embedder.embed_all(&fresh).into_iter();
        let all = known.into_iter().map(|known| match known {
            Some(known) => known.to_vec(),
            None => fresh.next().expect("one for each text that had none"),
        });
        all.collect()
    }

    /// Links between files become edges, once all files are there.
    fn link(
        &self,
        links: &[Unlinked],
        request: &Request,
        report: &mut Report,
    ) -> Result<(), JobError> {
        let snapshot = self.store.snapshot();
        let mut known = HashMap::new();
        for one in links {
            let mut edges: HashMap<(ItemId, ItemId), EdgeDraft> = HashMap::new();
            for (from, link) in one.links() {
                for relative in candidates(link, &one.relative) {
                    let uri = uri::of_path(&format!("{}/{relative}", one.root));
                    let to = match known.get(&uri) {
                        Some(to) => *to,
                        None => *known.entry(uri.clone()).or_insert(document_of(&snapshot, &uri)?),
                    };
                    if let Some(to) = to.filter(|&to| to != one.document) {
                        let edge = || edge(from, to, "links_to", &link.label, request);
                        edges.entry((from, to)).or_insert_with(edge);
                        break;
                    }
                }
            }
            self.keep_incoming(&snapshot, one, request, &mut edges)?;
            if edges.is_empty() {
                continue;
            }
            let mut edges: Vec<EdgeDraft> = edges.into_values().collect();
            edges.sort_by_key(|edge| (edge.from, edge.to));
            edges.truncate(LINKS_MAX);
            report.links += edges.len() as u64;
            self.store.write(Batch { edges, ..Batch::default() })?;
        }
        Ok(())
    }

    /// What linked to the old version of a document links to the new one as well.
    fn keep_incoming(
        &self,
        snapshot: &Snapshot,
        one: &Unlinked,
        request: &Request,
        edges: &mut HashMap<(ItemId, ItemId), EdgeDraft>,
    ) -> Result<(), JobError> {
        let Some(older) = one.older else { return Ok(()) };
        for neighbour in snapshot.neighbours(older)? {
            let from = neighbour.edge.from;
            let incoming = neighbour.direction == engine::Direction::In
                && neighbour.edge.relation == "links_to"
                && snapshot.status(neighbour.place) == Status::Current;
            if incoming {
                let edge = || edge(from, one.document, "links_to", neighbour.edge.note, request);
                edges.entry((from, one.document)).or_insert_with(edge);
            }
        }
        Ok(())
    }

    /// The job itself is remembered.
    fn record(&self, request: &Request, report: &mut Report) -> Result<(), JobError> {
        let id = self.store.new_item_id();
        report.job = Some(id);
        let mut told = report.to_json();
        told["paths"] = json!(request.paths);
        let item = ItemDraft {
            id: Some(id),
            kind: "job".to_owned(),
            modality: "text".to_owned(),
            title: format!("ingest of {} files", report.files),
            text: told.to_string(),
            recorded_by: request.by.clone(),
            via: request.via.to_owned(),
            ..ItemDraft::default()
        };
        self.store.write(Batch { items: vec![item], ..Batch::default() })?;
        Ok(())
    }
}

fn prepared(
    file: &Allowed,
    uri: String,
    bytes: &[u8],
    sha256: [u8; 32],
    document: super::read::Document,
    older: Option<Older>,
) -> Prepared {
    let chunks = chunk(&document);
    Prepared {
        relative: file.relative().to_owned(),
        root: file.root().to_owned(),
        uri,
        bytes: bytes.len() as u64,
        sha256,
        document,
        chunks,
        older,
    }
}

struct Stored {
    sha256: [u8; 32],
    older: Older,
}

/// The version of a file that stands now.
fn stored(snapshot: &Snapshot, uri: &str) -> Result<Option<Stored>, Damage> {
    let sources = snapshot.sources_of_uri(uri)?;
    let version = sources.len() as u64;
    let Some(newest) = sources.last() else { return Ok(None) };
    let older = Older::of(snapshot, newest.id, version)?;
    Ok(older.map(|older| Stored { sha256: newest.content_sha256, older }))
}

/// The document that stands for a file now.
pub fn document_of(snapshot: &Snapshot, uri: &str) -> Result<Option<ItemId>, Damage> {
    Ok(stored(snapshot, uri)?.map(|stored| stored.older.document))
}

fn edge(from: ItemId, to: ItemId, relation: &str, note: &str, request: &Request) -> EdgeDraft {
    const NOTE_BYTES: usize = 200;
    EdgeDraft {
        id: None,
        from,
        to,
        relation: relation.to_owned(),
        weight: LINK_WEIGHT,
        source: None,
        recorded_at: None,
        recorded_by: request.by.clone(),
        valid_from: None,
        valid_to: None,
        note: super::outline::cut(note, NOTE_BYTES),
    }
}

/// A stored document whose links have not been followed yet.
struct Unlinked {
    document: ItemId,
    older: Option<ItemId>,
    relative: String,
    root: String,
    links: Vec<super::read::Link>,
    /// Id, first and last line.
    chunks: Vec<(ItemId, u32, u32)>,
}

impl Unlinked {
    fn of(one: Prepared, document: ItemId, chunks: Vec<(ItemId, u32, u32)>) -> Self {
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
            let holds = |chunk: &&(ItemId, u32, u32)| (chunk.1..=chunk.2).contains(&link.line);
            (self.chunks.iter().find(holds).map_or(self.document, |chunk| chunk.0), link)
        })
    }
}
