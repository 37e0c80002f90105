//! The writes of a load: several threads, seals, compaction, tombstones, erasures and model migrations concurrently.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{
    BackgroundWorkers, Batch, CommitInfo, Durability, Env, ItemDraft, ItemId, NoThrottle, Options,
    ReembedError, Store, WriteError,
};

use super::{ITEMS_MAX, MERGE_BYTES_MAX, TAIL_BYTES_SEAL, token};
use crate::other_model::OtherModel;
use crate::sample::{hide, items, link, note, tombstones};

/// Every fifth batch of a writer, its last item is hidden; every 23rd, erased.
const HIDE_EVERY: usize = 5;
const ERASE_EVERY: usize = 23;
/// Every eleventh batch, the first writer migrates the store to another model.
const MOVE_EVERY: usize = 11;
/// Every seventh batch, a lone writer compacts; several writers have a maintenance thread.
const COMPACT_EVERY: usize = 7;
/// Filler that makes an item as long as a paragraph.
const FILLING: &str = "what was decided and why, and who was there to say so; ";
const FILLINGS: usize = 6;

/// Amount of work.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Part of all batch names, so that loads into one store differ.
    pub tag: String,
    /// Number of writer threads; a lone writer also does the work of the maintenance thread, in the same order each
    /// time.
    pub writers: usize,
    /// Batches of each writer.
    pub batches: usize,
    /// If true, a write is acknowledged before it is on disk, so a power cut must lose some. Nothing is sealed or
    /// erased, since both would sync all earlier writes.
    pub is_unsynced: bool,
}

/// Opens the store in `folder` and writes; reports each acknowledged commit to `out`.
pub fn run(folder: &Path, plan: &Plan, out: impl Write + Send) -> Result<(), Box<dyn Error>> {
    // An hour is longer than any load.
    let durability = match plan.is_unsynced {
        true => Durability::Interval(Duration::from_secs(3600)),
        false => Durability::Sync,
    };
    let options = Options {
        durability,
        // A lone writer makes many small segments and does not merge them at seals, so that compaction has work soon. A
        // writer that does not sync does not seal either, since sealing syncs.
        tail_bytes_seal: match (plan.is_unsynced, plan.writers) {
            (true, _) => Options::default().tail_bytes_seal,
            (false, 1) => TAIL_BYTES_SEAL / 4,
            (false, _) => TAIL_BYTES_SEAL,
        },
        merge_bytes_max: if plan.writers == 1 { 0 } else { MERGE_BYTES_MAX },
        ..Options::default()
    };
    let store = Arc::new(Store::open(Env::on_disk(folder)?, options)?);
    let out = Mutex::new(out);
    say(&out, "open")?;
    if plan.writers == 1 {
        return Ok(write(&store, plan, 0, &out)?);
    }
    let _upkeep = BackgroundWorkers::start(Arc::clone(&store))?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.writers)
            .map(|writer| {
                let (store, out) = (&store, &out);
                scope.spawn(move || write(store, plan, writer, out))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writer does not panic"))
    })?;
    Ok(())
}

/// Reason for which a writer ends early.
#[derive(Debug)]
enum End {
    Writing(WriteError),
    Saying(io::Error),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Writing(error) => error.fmt(f),
            Self::Saying(error) => error.fmt(f),
        }
    }
}

impl Error for End {}

impl From<WriteError> for End {
    fn from(error: WriteError) -> Self {
        Self::Writing(error)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Saying(error)
    }
}

/// Prints one line and flushes.
fn say(out: &Mutex<impl Write>, line: &str) -> io::Result<()> {
    let mut out = out.lock().expect("a writer does not panic");
    out.write_all(format!("{line}\n").as_bytes())?;
    out.flush()
}

/// Background work may fail and be retried later; nothing else may fail.
fn unless_postponed<T>(result: Result<T, WriteError>) -> Result<Option<T>, WriteError> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(WriteError::Postponed { why, .. }) => {
            eprintln!("postponed: {why}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Each batch supersedes the one before and is linked to it.
fn write(store: &Store, plan: &Plan, writer: usize, out: &Mutex<impl Write>) -> Result<(), End> {
    let mut head = None;
    for n in 0..plan.batches {
        let name = format!("{}.{writer}.{n}", plan.tag);
        let written = write_batch(store, &name, n % ITEMS_MAX + 1, head)?;
        let ids: Vec<String> = written.items.iter().map(ItemId::to_string).collect();
        say(out, &format!("wrote {name} {} {}", written.seq, ids.join(",")))?;
        head = Some(written.items[0]);
        let last = *written.items.last().expect("a batch has an item");
        let is_spare = head != Some(last);
        if is_spare && !plan.is_unsynced && n % ERASE_EVERY == ERASE_EVERY - 1 {
            say(out, &format!("erasing {last}"))?;
            let erased = store.erase(&[last.0], "load", "asked for", &NoThrottle);
            if unless_postponed(erased)?.is_some() {
                say(out, &format!("erased {last}"))?;
            }
        } else if is_spare && n % HIDE_EVERY == HIDE_EVERY - 1 {
            store.write(tombstones([hide(last)]))?;
            say(out, &format!("hid {last}"))?;
        }
        if plan.writers == 1 && n % COMPACT_EVERY == COMPACT_EVERY - 1 {
            unless_postponed(store.compact(&NoThrottle))?;
        }
        if writer == 0 && !plan.is_unsynced && n % MOVE_EVERY == MOVE_EVERY - 1 {
            move_on(store)?;
        }
    }
    Ok(())
}

/// Migrates the store to the model after its current one.
fn move_on(store: &Store) -> Result<(), WriteError> {
    let mut next = match store.snapshot().model() {
        Some(model) => OtherModel::of(model).next(),
        None => OtherModel::new(0),
    };
    match store.reembed(&mut next, &NoThrottle) {
        Ok(_) => Ok(()),
        Err(ReembedError::Store(error)) => unless_postponed(Err(error)).map(|_: Option<()>| ()),
        Err(error) => {
            eprintln!("postponed: {error}");
            Ok(())
        }
    }
}

/// Writes a batch, with the embeddings of another model if the store has migrated meanwhile.
fn write_batch(
    store: &Store,
    name: &str,
    count: usize,
    head: Option<ItemId>,
) -> Result<CommitInfo, WriteError> {
    loop {
        let batch = batch(store, name, count, head);
        let by = batch.embedded_by;
        match store.write(batch) {
            Err(WriteError::Refused { .. }) if store.snapshot().model() != by => {}
            done => return done,
        }
    }
}

fn batch(store: &Store, name: &str, count: usize, head: Option<ItemId>) -> Batch {
    let embedded_by = store.snapshot().model();
    let model = embedded_by.map(OtherModel::of);
    let item = |at: usize| {
        let text = format!("{name} {at} {count} {} {}", token(name, at), FILLING.repeat(FILLINGS));
        let id = store.new_item_id();
        let embedding = model.map(|model| model.embedding(id)).unwrap_or_default();
        ItemDraft { id: Some(id), embedding, ..note(&text) }
    };
    let mut all: Vec<ItemDraft> = (1..=count).map(item).collect();
    let (writer, _) = name.rsplit_once('.').expect("a name has a number");
    all[0].reference = Some(writer.to_owned());
    all[0].supersedes.extend(head);
    let ends = all[0].id.zip(head);
    let edges = ends.map(|(id, head)| link(id, head, 0.5)).into_iter().collect();
    Batch { edges, embedded_by, ..items(all) }
}
