//! Freshness of one item: existence, supersession, validity and agreement with its file.
//!
//! The checks run in this order, and the first failed check is the item's status. An item that the caller may not know
//! is reported as unknown.

use std::collections::HashMap;

use engine::ledger::{Effect, TouchedItem};
use engine::{ItemId, ItemView, Micros, RowAddress, SourceId, SourceView, Status, hex};
use serde::Serialize;
use serde_json::{Value, json};

use crate::recall::text::one_line;
use recalld_common::names;
use recalld_fs_util::roots::{FILE_BYTES_MAX, Refused};
use recalld_fs_util::uri;
use recalld_ingest::beside_now;
use recalld_policy::{Action, Verdict};
use recalld_recall::show;
use recalld_recall::show::{ItemFacts, REDACTED};
use recalld_recall::{AccessView, Witness, map_evidence};
use recalld_tool_framework::reading::seen;
use recalld_tool_framework::results::without_nulls;
use recalld_tool_framework::{ANSWER_KIND, ServiceError, ToolContext, touched};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum characters of a tombstone reason.
    const REASON_CHARS_MAX: usize = 200;
}

pub(super) struct Standing {
    status: &'static str,
    why: String,
    /// Current facts that replace the stale ones.
    now: Value,
    /// Wire id of the item; `None` if the caller may not know of it.
    pub(super) name: Option<String>,
    /// Item effects for the ledger.
    pub(super) touched: Vec<TouchedItem>,
}

/// An item as the call names it.
#[derive(Debug, Default, Serialize)]
pub(super) struct AskedItem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grounding_token: Option<String>,
}

/// A requested item with its status.
#[derive(Debug, Serialize)]
pub(super) struct StandingRow<'a> {
    #[serde(flatten)]
    asked: AskedItem,
    status: &'static str,
    why: &'a str,
    #[serde(skip_serializing_if = "Value::is_null")]
    now: &'a Value,
}

impl Standing {
    /// Status `unknown`, with the reason.
    pub(super) fn unknown(why: &str) -> Self {
        Self::of("unknown", why)
    }

    fn of(status: &'static str, why: &str) -> Self {
        Self { status, why: why.to_owned(), now: Value::Null, name: None, touched: Vec::new() }
    }

    fn with(self, now: Value) -> Self {
        Self { now: without_nulls(now), ..self }
    }

    /// Adds the status to a requested item; returns the row and its line of text.
    pub(super) fn shown(&self, asked: AskedItem) -> (StandingRow<'_>, String) {
        let name = asked.id.as_deref().or(self.name.as_deref()).unwrap_or("(token)");
        let line = format!("{name} {}: {}\n", self.status, self.why);
        (StandingRow { asked, status: self.status, why: &self.why, now: &self.now }, line)
    }
}

/// State of a source file compared with its last ingest.
#[derive(Clone)]
enum File {
    Same,
    /// `sha256` is `None` if the file is now larger than the limit for reading.
    Changed {
        sha256: Option<[u8; 32]>,
    },
    /// The sidecar text of an image changed.
    Worded,
    Missing,
    /// The file cannot be read, for the reason in the text.
    Unseen(String),
    /// The file exists, but no hash was recorded for it.
    Unhashed,
}

/// Checks items of one snapshot for one call.
pub(super) struct Judge<'a> {
    context: &'a ToolContext<'a>,
    snapshot: &'a AccessView<'a>,
    now: Micros,
    /// Files checked so far, at most one per requested item.
    files: HashMap<SourceId, File>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(context: &'a ToolContext<'a>, snapshot: &'a AccessView<'a>) -> Self {
        Self { context, snapshot, now: context.services.clock.now(), files: HashMap::new() }
    }

    /// Checks the item with this id. `content` is the start of the content hash in a grounding token.
    ///
    /// # Errors
    /// Returns an error if the store is damaged or the call is over.
    pub(super) fn by_id(
        &mut self,
        id: ItemId,
        content: Option<[u8; 16]>,
    ) -> Result<Standing, ServiceError> {
        self.snapshot.check_cancelled()?;
        let Some(place) = self.snapshot.find(id)? else { return self.gone(id) };
        let item = self.snapshot.item(place)?;
        if item.kind == ANSWER_KIND {
            return Ok(nobody());
        }
        let verdict = self.snapshot.judge(&item, Action::Read).0;
        if verdict == Verdict::Deny {
            let touched = vec![touched(Effect::Withheld, id)];
            return Ok(Standing { touched, ..nobody() });
        }
        let shown = show::content_sha256(&item, verdict);
        let standing = match content {
            Some(content) if !shown.starts_with(&content) => {
                Standing::unknown("the token is of another text than the item has for you")
            }
            _ => self.judged(place, &item, verdict)?,
        };
        let touched = vec![seen(id, verdict)];
        Ok(Standing { name: Some(names::of_item(&item)), touched, ..standing })
    }

    /// Status of an id without a row: erased, or never existed.
    fn gone(&self, id: ItemId) -> Result<Standing, ServiceError> {
        let stones = self.snapshot.tombstones(id.0)?;
        Ok(match stones.iter().rfind(|stone| stone.erase) {
            Some(stone) => {
                let now = json!({"erased_at": names::time(stone.at)});
                Standing::of("tombstoned", "it was erased").with(now)
            }
            None => nobody(),
        })
    }

    fn judged(
        &mut self,
        place: RowAddress,
        item: &ItemView<'_>,
        verdict: Verdict,
    ) -> Result<Standing, ServiceError> {
        match self.snapshot.status(place)? {
            Status::Tombstoned => return self.tombstoned(item, verdict),
            Status::Superseded => return self.superseded(place, verdict),
            Status::Current => {}
        }
        if let Some(to) = item.valid_to.filter(|to| *to <= self.now) {
            let now = json!({"valid_to": names::time(to)});
            return Ok(
                Standing::of("expired", "it was said to hold until a time that is over").with(now)
            );
        }
        let source = match item.source {
            Some(id) => self.snapshot.source(id)?,
            None => None,
        };
        let from = item.valid_from.filter(|from| *from > self.now);
        let stands = match from {
            Some(_) => "it stands, and does not hold yet",
            None => "it stands",
        };
        let fresh = |more: &str| {
            let now = json!({"valid_from": from.map(names::time)});
            Standing::of("fresh", &format!("{stands}{more}")).with(now)
        };
        let Some(source) = source else { return Ok(fresh("; no source stands behind it")) };
        let Some(path) = uri::to_path(source.uri) else {
            return Ok(fresh("; its source is no file, and was not looked at"));
        };
        Ok(match self.file(&source, &path)? {
            File::Same => fresh(", and its file is as it was read"),
            File::Unhashed => fresh("; its file is there, and what it was is not on record"),
            File::Missing => {
                let why = "it stands, and its file is not there any more";
                Standing::of("source_missing", why).with(json!({"path": path}))
            }
            File::Unseen(why) => {
                let why = format!("it stands, and its file cannot be looked at: {why}");
                Standing::unknown(&why).with(json!({"path": path}))
            }
            File::Worded => {
                let why = "the words beside its picture changed";
                Standing::of("source_changed", why).with(json!({"path": path}))
            }
            File::Changed { sha256 } => self.changed((path, sha256), item, verdict)?,
        })
    }

    fn tombstoned(&self, item: &ItemView<'_>, verdict: Verdict) -> Result<Standing, ServiceError> {
        let stones = self.snapshot.tombstones(item.id.0)?;
        let stone = stones.last();
        let reason = stone.map(|stone| match verdict {
            Verdict::Allow => one_line(stone.reason, REASON_CHARS_MAX),
            _ => REDACTED.to_owned(),
        });
        let is_erased = stone.is_some_and(|stone| stone.erase);
        let why = if is_erased { "it was erased" } else { "it was hidden" };
        let at = stone.map(|stone| names::time(stone.at));
        let field = if is_erased { "erased_at" } else { "tombstoned_at" };
        Ok(Standing::of("tombstoned", why).with(json!({field: at, "reason": reason})))
    }

    fn superseded(&self, place: RowAddress, verdict: Verdict) -> Result<Standing, ServiceError> {
        let newer = ItemFacts::of(self.snapshot, place, verdict)?.superseded_by;
        let why = match newer {
            None => "it was replaced, and nothing that you may see stands in its place",
            Some(_) => "something newer was put in its place",
        };
        Ok(Standing::of("superseded", why).with(json!({"superseded_by": newer})))
    }

    /// State of a source file; each file is read once for all items of the source.
    fn file(&mut self, source: &SourceView<'_>, path: &str) -> Result<File, ServiceError> {
        if let Some(known) = self.files.get(&source.id) {
            return Ok(known.clone());
        }
        let file = self.look(source, path)?;
        self.files.insert(source.id, file.clone());
        Ok(file)
    }

    fn look(&self, source: &SourceView<'_>, path: &str) -> Result<File, ServiceError> {
        let file = match self.context.workspace.roots().resolve(path) {
            Ok(file) if file.is_folder() => return Ok(File::Missing),
            Ok(file) => file,
            Err(Refused::Missing) => return Ok(File::Missing),
            Err(Refused::Outside(_) | Refused::NoRoots) => {
                return Ok(File::Unseen(
                    "it lies under no folder that is open for ingest".to_owned(),
                ));
            }
            Err(why) => return Ok(File::Unseen(why.to_string())),
        };
        if source.content_sha256 == [0; 32] {
            return Ok(File::Unhashed);
        }
        if file.bytes() > FILE_BYTES_MAX {
            return Ok(File::Changed { sha256: None });
        }
        match file.sha256(&|| self.context.is_over()) {
            Ok(Some(sha256)) if sha256 == source.content_sha256 => self.beside(source.id, path),
            Ok(Some(sha256)) => Ok(File::Changed { sha256: Some(sha256) }),
            Ok(None) => Err(ServiceError::Cancelled),
            Err(error) => Ok(File::Unseen(error.to_string())),
        }
    }

    /// Checks the sidecar text of an unchanged file, if the file is an image.
    fn beside(&self, source: SourceId, path: &str) -> Result<File, ServiceError> {
        for place in self.snapshot.items_by_source(source)? {
            let item = self.snapshot.item(place)?;
            if item.kind == "document" && !beside_now(&self.context.workspace.roots(), path, &item)
            {
                return Ok(File::Worded);
            }
        }
        Ok(File::Same)
    }

    /// Checks if a changed file still contains the item's text, and finds its new lines.
    fn changed(
        &self,
        (path, sha256): (String, Option<[u8; 32]>),
        item: &ItemView<'_>,
        verdict: Verdict,
    ) -> Result<Standing, ServiceError> {
        if verdict != Verdict::Allow {
            return Ok(
                Standing::of("source_changed", "its file changed").with(json!({"path": path}))
            );
        }
        let mut now = json!({"path": path, "file_sha256": sha256.map(|sha256| hex(&sha256))});
        let found = map_evidence(self.snapshot, &self.context.workspace.roots(), item)?;
        let moved = found.filter(|found| found.witness == Witness::Moved);
        let why = match moved {
            Some(found) => {
                now["line_start"] = found.line_start.into();
                now["line_end"] = found.line_end.into();
                "its file changed, and still has this text"
            }
            None => "its file changed, and has not this text as it was",
        };
        Ok(Standing::of("source_changed", why).with(now))
    }
}

/// Status of a missing item, and of an item that the caller may not know.
fn nobody() -> Standing {
    Standing::unknown("there is no such item")
}
