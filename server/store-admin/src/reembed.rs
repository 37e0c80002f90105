//! Model migration: moves a store to another model while calls are answered.
//!
//! The engine decides the order in which segments are rewritten. This module provides the target model, the embedded
//! text of an item, progress reports, and the record in the data directory (`format-spec/model.md`).

use std::path::Path;
use std::sync::Arc;

use engine::ledger::Outcome;
use engine::{ItemEncoder, ItemView, Model, ReembedError, Remedy, Throttle, hex};
use half::f16;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::keep_error::KeepError;
use crate::keeping::{Keeper, Note};
use recalld_common::cancel::CancellationToken;
use recalld_common::cancel::Progress;
use recalld_embedding::embed::Embedder;
use recalld_embedding::encoders::{Encoders, Move};
use recalld_embedding::encoding::{Encoding, open_model};
use recalld_embedding::model;
use recalld_embedding::model_file;
use recalld_embedding::model_file::ModelEntry;
use recalld_tool_framework::args::{Text, args};

const OPERATION: &str = "recalld reembed";
/// Operation of the ledger entry before the first item is embedded.
const BEGUN: &str = "recalld reembed: begun";

args! {
    /// Arguments of `POST /operator/reembed`.
    pub struct Reembed {
        model: Text<1, 4096> => "Folder of the new model's files, absolute.",
    }
}

/// Report of a move to another model.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReembedReport {
    /// The store's model before, if it had one.
    pub before: Option<FormerModel>,
    /// Embedded items.
    pub items: u64,
    /// The store's model now.
    pub model: ModelEntry,
    /// True if the model is another one than before.
    pub moved: bool,
    /// Rewritten segments.
    pub segments: u64,
}

/// The model that a store had.
#[derive(Debug, Serialize, Deserialize)]
pub struct FormerModel {
    /// Width of its vectors.
    pub dimensions: u32,
    /// Its fingerprint, in hexadecimal.
    pub fingerprint: String,
}

/// Moves the store to the model in a folder. `encoders` answer queries in the meantime; `None` if this process opened
/// the store only for this job.
pub fn reembed(
    keeper: &Keeper<'_>,
    encoders: Option<&Encoders>,
    encoding: Encoding,
    raw: &Value,
    wanted: &Reembed,
) -> Result<ReembedReport, KeepError> {
    let moving = encoders.map(begin).transpose()?;
    let directory = Path::new(&wanted.model.0);
    if !directory.is_absolute() {
        let why = format!("{}: a path from the root is wanted", directory.display());
        return Err(KeepError::Wrong(why));
    }
    let opened = open_model(Some(directory), encoding, &mut Opening(keeper.progress));
    let opened = opened.map_err(|error| KeepError::Failed(error.to_string()))?;
    let _turn = keeper.turn()?;
    // Pending erasures run first, so that they are not delayed and their items are not embedded.
    let erased = keeper.store.erase_pending(&Awaited(keeper.cancel));
    erased.map_err(|error| KeepError::failed(error, "run `recalld erase --pending` first"))?;
    // Recorded before the first manifest names the model: after an interruption at any point, the next start finds the
    // model.
    model_file::remember(keeper.data, &opened.known, keeper.store.snapshot().model())
        .map_err(|why| KeepError::failed(why, "nothing was changed; mend it, and try again"))?;
    let next = Arc::new(opened.embedder);
    let (before, total) = {
        // Dropped before the migration, because a snapshot retains the disk space of removed files.
        let snapshot = keeper.store.snapshot();
        let counts = snapshot.row_counts();
        let counts = counts.map_err(|damage| KeepError::failed(damage, "restore a backup"))?;
        (snapshot.model(), counts.vectors)
    };
    keeper.record(Note::of(BEGUN, raw))?;
    if let Some(moving) = &moving {
        moving.hold(Arc::clone(&next));
    }
    let mut telling = Telling { embedder: &next, total, done: 0, progress: keeper.progress };
    let moved = keeper.store.reembed(&mut telling, &Awaited(keeper.cancel));
    let outcome = match &moved {
        Ok(_) => Outcome::Done,
        Err(ReembedError::Cancelled) => Outcome::Cancelled,
        Err(_) => Outcome::Failed,
    };
    let noted = keeper.record(Note { outcome, ..Note::of(OPERATION, raw) });
    let done = moved.map_err(unmoved)?;
    noted?;
    Ok(ReembedReport {
        before: before.map(|model| FormerModel {
            dimensions: model.dimensions,
            fingerprint: hex(&model.fingerprint),
        }),
        items: done.items,
        model: opened.known.entry(),
        moved: before != Some(opened.known.model),
        segments: done.segments,
    })
}

fn begin(encoders: &Encoders) -> Result<Move<'_>, KeepError> {
    encoders.begin_move().ok_or_else(|| {
        let why = "the store is being moved to another model already";
        KeepError::failed(why, "wait for that move, or end the command that asked for it")
    })
}

fn unmoved(error: ReembedError) -> KeepError {
    let remedy = match &error {
        ReembedError::Cancelled => "run it again to begin anew",
        ReembedError::NoRoom { .. } => "free that much on the store's disk, and run it again",
        ReembedError::Store(error) => match error.remedy() {
            Remedy::FreeSpace => "free as much space as the store takes, and run it again",
            Remedy::Restore => "run `recalld verify`, and restore a backup",
            Remedy::Reopen => "start again, and run it again",
            _ => "run it again",
        },
        _ => "use another model",
    };
    KeepError::failed(error, remedy)
}

/// A throttle that runs at full speed until cancellation.
struct Awaited<'a>(&'a CancellationToken);

impl Throttle for Awaited<'_> {
    fn after_write(&self, _bytes: usize) -> bool {
        self.after_work()
    }

    fn after_work(&self) -> bool {
        !self.0.is_cancelled()
    }
}

/// Reports the progress of fetching a model; messages about repairs are logged.
struct Opening<'a>(Progress<'a>);

impl model::Progress for Opening<'_> {
    fn say(&mut self, message: &str) {
        eprintln!("recalld: {message}");
    }

    fn advance(&mut self, what: &str, done: u64, total: Option<u64>) {
        (self.0)(done, total.unwrap_or(done), what);
    }
}

/// Embeds items like every other ingest path, and reports their count.
struct Telling<'a> {
    embedder: &'a Embedder,
    total: u64,
    done: u64,
    progress: Progress<'a>,
}

impl ItemEncoder for Telling<'_> {
    fn model(&self) -> Model {
        self.embedder.model()
    }

    fn encode(&mut self, items: &[ItemView<'_>]) -> Result<Vec<Vec<f16>>, String> {
        let texts: Vec<(&str, &str)> = items.iter().map(|item| (item.title, item.text)).collect();
        let embeddings = self.embedder.embed_items(&texts);
        self.done += items.len() as u64;
        (self.progress)(self.done, self.total.max(self.done), "embedding");
        Ok(embeddings)
    }
}
