//! `tombstone_reconcile_sweep_tool`: compares stored documents with the files on disk.
//!
//! No document is tombstoned on a guess. If a path cannot be read, or its folder is empty like the mount point of an
//! unmounted disk, the document is reported and left unchanged.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use engine::{ItemId, Sensitivity, Snapshot, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::beneath::{ITEMS_MAX, Lying, each_document, going, lies_in, meant};
use super::paths;
use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_fs_util::roots::Refused;
use recalld_fs_util::roots::Roots;
use recalld_ingest::job::{PATHS_MAX, Request};
use recalld_ingest::walk::{Rules, walk};
use recalld_ingest::{asked_of, beside_now};
use recalld_recall::{AccessView, Room};
use recalld_tool_framework::args::{Text, args};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::writing::{Key, Tell, Writing};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "tombstone_reconcile_sweep_tool";
/// Tombstone reason for a missing file; a later sweep restores only documents with this reason.
const REASON: &str = "its file is gone (sweep)";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum rows of each list; further rows are only counted.
    const LISTED_MAX: usize = 100;
    /// Maximum bytes of the rows of each list, as JSON, because paths may be long.
    const LISTED_BYTES_MAX: usize = 14 << 10;
    /// Maximum files that one call restores; the next call continues.
    const RETURNED_MAX: usize = 256;
}

args! {
    struct Sweep {
        path_prefix: Option<Text<1, 4096>> => "Only this file or folder.",
        dry_run: bool = true => "Only say what would be done.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: NAME,
    title: "Sweep documents",
    about: "Compare stored documents with the files on disk: those whose file is gone are tombstoned, those that are \
            back restored, changed ones named for ingest_paths_tool. Dry run unless told otherwise.",
    shape: Sweep::shape,
    results: &[
        always("missing", Kind::List).says("Each {path, document_id, items}: tombstoned."),
        always("missing_count", Kind::Integer).says("How many."),
        always("returned", Kind::List)
            .says("Each {path, document_id}: restored, as it is on disk now."),
        always("returned_count", Kind::Integer).says("How many."),
        always("changed", Kind::List).says("Each {path, document_id}: to ingest again."),
        always("changed_count", Kind::Integer).says("How many."),
        always("unreachable", Kind::List).says("Each {path, why}: left as it is."),
        always("unreachable_count", Kind::Integer).says("How many."),
        always("unchanged", Kind::Integer).says("Documents that are as their files are."),
        always("truncated", Kind::Flag)
            .says("Whether a list or the work was cut; call again for the rest."),
        always("dry_run", Kind::Flag).says("Whether nothing was written."),
    ],
    scope: Some(Scope::IngestWrite),
    change: Change::Removes,
    core: false,
    run: |context, raw| sweep(context, raw),
    example: "{}",
};

/// State of a file compared with its document.
enum Now {
    Same,
    Changed,
    Gone,
    /// The state cannot be determined, for the reason in the text.
    Unreachable(String),
}

#[derive(Default)]
struct Found {
    missing: List,
    returned: List,
    changed: List,
    unreachable: List,
    unchanged: u64,
    truncated: bool,
    going: BTreeSet<ItemId>,
    /// Paths to restore, by the sensitivity of their original ingest.
    coming: BTreeMap<Sensitivity, Vec<String>>,
}

/// Bounded list of rows with their total count.
struct List {
    rows: Vec<FileRow>,
    count: u64,
    room: Room,
}

/// A file in a list.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
struct FileRow {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_id: Option<String>,
    /// Number of items to tombstone.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<usize>,
    /// Reason why nothing is known of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The result, which is also the idempotency record.
#[derive(Debug, Serialize, Deserialize)]
struct SweepRecord {
    missing: Vec<FileRow>,
    missing_count: u64,
    returned: Vec<FileRow>,
    returned_count: u64,
    changed: Vec<FileRow>,
    changed_count: u64,
    unreachable: Vec<FileRow>,
    unreachable_count: u64,
    unchanged: u64,
    dry_run: bool,
    truncated: bool,
}

impl FileRow {
    fn of(lying: &Lying<'_>) -> Self {
        let document_id = Some(names::of_item(&lying.item));
        Self { path: lying.path.clone(), document_id, ..Self::default() }
    }

    fn unreachable(lying: &Lying<'_>, why: String) -> Self {
        Self { path: lying.path.clone(), why: Some(why), ..Self::default() }
    }
}

impl Default for List {
    fn default() -> Self {
        Self { rows: Vec::new(), count: 0, room: Room::of(LISTED_BYTES_MAX) }
    }
}

impl List {
    fn add(&mut self, row: FileRow) {
        self.count += 1;
        if self.rows.len() < LISTED_MAX && self.room.takes(&row) {
            self.rows.push(row);
        }
    }

    fn is_cut(&self) -> bool {
        self.count > self.rows.len() as u64
    }
}

fn sweep(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Sweep::parse(raw)?;
    let mut writing = Writing::begin(context, NAME, &wanted.idempotency_key, raw);
    let tell: Tell<'_, SweepRecord> = &|_, record| Ok(told(record));
    if let Some(first) = writing.first_answer(tell)? {
        return Ok(first);
    }
    let found =
        look(context, &context.snapshot(), wanted.path_prefix.as_ref().map(|it| it.0.as_str()))?;
    if wanted.dry_run {
        return Ok(told(&found.record(true)));
    }
    bring_back(context, &found)?;
    for id in &found.going {
        writing.bury(id.0, REASON, false);
    }
    let record = found.record(false);
    if found.going.is_empty() && wanted.idempotency_key.is_none() {
        return Ok(told(&record));
    }
    writing.commit(&record, tell)?.or_overtaken("path_prefix")
}

fn look(
    context: &ToolContext<'_>,
    snapshot: &AccessView<'_>,
    prefix: Option<&str>,
) -> Result<Found, ServiceError> {
    let roots = context.workspace.roots();
    let meant = prefix.map(|prefix| meant(context, "path_prefix", prefix)).transpose()?;
    let mut disk = Disk { roots: &roots, prefix: meant.as_deref(), folders: HashMap::new() };
    let (mut found, mut last) = (Found::default(), BTreeMap::new());
    let mut seen = 0;
    each_document(
        snapshot,
        |status| status != Status::Superseded,
        |lying| {
            if context.is_over() {
                return Err(ServiceError::Cancelled);
            }
            let is_wanted = meant
                .as_ref()
                .is_none_or(|meant| meant.iter().any(|meant| lies_in(&lying.path, meant)));
            if lying.file.is_none() || !is_wanted {
                return Ok(());
            }
            seen += 1;
            if let Some(tell) = context.progress {
                tell(seen, 0, &lying.path);
            }
            if snapshot.status(lying.place)? == Status::Tombstoned {
                // If several versions of a path were swept, the last is restored.
                last.insert(lying.path.clone(), lying);
                return Ok(());
            }
            last.remove(&lying.path);
            found.stands(context, snapshot, &mut disk, &lying)
        },
    )?;
    for lying in last.into_values() {
        found.was_swept(snapshot, &disk, &lying)?;
    }
    Ok(found)
}

impl Found {
    /// Compares a live document with its file.
    fn stands(
        &mut self,
        context: &ToolContext<'_>,
        snapshot: &AccessView<'_>,
        disk: &mut Disk<'_>,
        lying: &Lying<'_>,
    ) -> Result<(), ServiceError> {
        match disk.now(context, lying)? {
            Now::Same => self.unchanged += 1,
            Now::Changed => self.changed.add(FileRow::of(lying)),
            Now::Unreachable(why) => self.unreachable.add(FileRow::unreachable(lying, why)),
            Now::Gone => {
                let items = match going(snapshot, "path_prefix", (lying.item.id, lying.place)) {
                    Ok(items) => items,
                    Err(ServiceError::Argument { why, .. }) => {
                        self.unreachable.add(FileRow::unreachable(lying, why));
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                };
                if self.going.len() + items.len() > ITEMS_MAX && !self.going.is_empty() {
                    self.truncated = true;
                    return Ok(());
                }
                self.missing.add(FileRow { items: Some(items.len()), ..FileRow::of(lying) });
                self.going.extend(items.into_keys());
            }
        }
        Ok(())
    }

    /// Marks a tombstoned document for restoring if a sweep tombstoned it and its file exists again.
    fn was_swept(
        &mut self,
        snapshot: &Snapshot,
        disk: &Disk<'_>,
        lying: &Lying<'_>,
    ) -> Result<(), ServiceError> {
        let stones = snapshot.tombstones(lying.item.id.0)?;
        let is_ours = stones.iter().all(|stone| stone.reason == REASON && !stone.erase);
        // If the file was ingested again, a live document with another id exists.
        let stands =
            recalld_ingest::document_of(snapshot, &recalld_fs_util::uri::of_path(&lying.path))?;
        let is_there = disk.roots.resolve(&lying.path).is_ok_and(|file| !file.is_folder());
        if !is_ours || stands.is_some() || !is_there {
            return Ok(());
        }
        if self.coming.values().map(Vec::len).sum::<usize>() == RETURNED_MAX {
            self.truncated = true;
            return Ok(());
        }
        self.returned.add(FileRow::of(lying));
        self.coming.entry(asked_of(&lying.item)).or_default().push(lying.path.clone());
        Ok(())
    }

    fn record(&self, dry_run: bool) -> SweepRecord {
        let Self { missing, returned, changed, unreachable, .. } = self;
        let lists = [missing, returned, changed, unreachable];
        SweepRecord {
            missing: missing.rows.clone(),
            missing_count: missing.count,
            returned: returned.rows.clone(),
            returned_count: returned.count,
            changed: changed.rows.clone(),
            changed_count: changed.count,
            unreachable: unreachable.rows.clone(),
            unreachable_count: unreachable.count,
            unchanged: self.unchanged,
            dry_run,
            truncated: self.truncated || lists.iter().any(|list| list.is_cut()),
        }
    }
}

struct Disk<'a> {
    roots: &'a Roots,
    /// Paths named by the caller; below them, an empty folder counts as really empty.
    prefix: Option<&'a [String]>,
    /// Per folder with a missing file, the reason why the folder cannot be trusted; `None` if it can.
    folders: HashMap<String, Option<String>>,
}

impl Disk<'_> {
    fn now(&mut self, context: &ToolContext<'_>, lying: &Lying<'_>) -> Result<Now, ServiceError> {
        let Some((sha256, bytes)) = lying.file else { return Ok(Now::Same) };
        let file = match self.roots.resolve(&lying.path) {
            Ok(file) => file,
            Err(Refused::Missing) => {
                return Ok(match self.in_doubt(&lying.path, &|| context.is_over()) {
                    Some(why) => Now::Unreachable(why),
                    None => Now::Gone,
                });
            }
            Err(refused) => return Ok(Now::Unreachable(refused.to_string())),
        };
        if file.is_folder() {
            return Ok(Now::Gone);
        }
        if file.bytes() != bytes {
            return Ok(Now::Changed);
        }
        let now = match file.sha256(&|| context.is_over()) {
            Ok(Some(now)) => now,
            Ok(None) => return Err(ServiceError::Cancelled),
            Err(error) => return Ok(Now::Unreachable(error.to_string())),
        };
        let same = now == sha256 && beside_now(self.roots, &lying.path, &lying.item);
        Ok(if same { Now::Same } else { Now::Changed })
    }

    /// Reason why a missing file may not be treated as deleted; `None` if it may.
    fn in_doubt(&mut self, path: &str, is_over: &dyn Fn() -> bool) -> Option<String> {
        let mut folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        loop {
            if let Some(known) = self.folders.get(&folder) {
                return known.clone();
            }
            let found = match self.roots.resolve(&folder) {
                Ok(found) if found.is_folder() => found,
                // The folder is missing as well, so its parent decides.
                Ok(_) | Err(Refused::Missing) => match folder.rsplit_once('/') {
                    Some((above, _)) if !above.is_empty() => {
                        folder = above.to_owned();
                        continue;
                    }
                    _ => return Some("its root cannot be read".to_owned()),
                },
                Err(refused) => return Some(refused.to_string()),
            };
            let is_named =
                self.prefix.is_some_and(|named| named.iter().any(|named| lies_in(&folder, named)));
            let listed =
                Rules::new(true, &[], &[]).map(|rules| walk(&found, &rules.at_most(1), is_over));
            let why = match listed {
                Ok(Ok(listing))
                    if listing.files.is_empty() && listing.skipped_count == 0 && !is_named =>
                {
                    Some(format!(
                        "{folder} is empty, as a folder is whose disk is not mounted; give it as path_prefix to \
                         say that it is meant to be"
                    ))
                }
                Ok(Ok(_)) => None,
                Ok(Err(refused)) => Some(refused.to_string()),
                Err(error) => Some(error.to_string()),
            };
            self.folders.insert(folder, why.clone());
            return why;
        }
    }
}

/// Ingests the restored files with their original sensitivity.
fn bring_back(context: &ToolContext<'_>, found: &Found) -> Result<(), ServiceError> {
    let roots = context.workspace.roots();
    for (&sensitivity, paths) in &found.coming {
        for some in paths.chunks(PATHS_MAX) {
            let request = Request {
                paths: some.to_vec(),
                recursive: false,
                include: Vec::new(),
                exclude: Vec::new(),
                sensitivity: Some(sensitivity),
                dry_run: false,
                by: context.caller.principal.clone(),
                via: NAME,
            };
            paths::run(context, &roots, &request)?;
        }
    }
    Ok(())
}

fn told(record: &SweepRecord) -> Answer {
    let mut text = if record.dry_run { "(dry run) ".to_owned() } else { String::new() };
    text.push_str(&format!(
        "{} missing, {} returned, {} changed, {} unreachable, {} as they are",
        record.missing_count,
        record.returned_count,
        record.changed_count,
        record.unreachable_count,
        record.unchanged,
    ));
    let lists = [
        ("missing", &record.missing),
        ("returned", &record.returned),
        ("changed", &record.changed),
        ("unreachable", &record.unreachable),
    ];
    for (name, rows) in lists {
        for row in rows {
            text.push_str(&format!("\n{name}: {}", row.path));
            if let Some(why) = &row.why {
                text.push_str(&format!(" ({why})"));
            }
        }
    }
    Answer::plain(json!(record), text)
}
