//! `brain_benchmark_storage`: write and read speed of the disk, measured on a scratch store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use engine::{Batch, Env, ItemDraft, ItemId, Options, Store};
use serde_json::{Map, Value, json};

use super::timer::{TIME_MAX, Timer, at, begin, kept, rounded};
use recalld_common::cancel::CallScope;
use recalld_common::scope::Scope;
use recalld_common::turn::{Turn, Turns};
use recalld_fs_util::data_dir::BENCH_SCRATCH;
use recalld_tool_framework::args::{Int, args};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::writing::Key;
use recalld_tool_framework::{Answer, Change, IN_THE_LOG, ServiceError, Tool, ToolContext};

pub(crate) const NAME: &str = "brain_benchmark_storage";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items of one batch.
    const BATCH_ITEMS: usize = 256;
    /// Maximum items written one by one, each with its own fsync.
    const SINGLE_MAX: usize = 50;
}

/// Characters of an item's text.
const TEXT_CHARS: usize = 400;
/// Permits one scratch store at a time on this machine.
static TURN: LazyLock<Turns> = LazyLock::new(Turns::default);

args! {
    struct Asked {
        n: Int<1, 100_000> = Int(1000) => "Items to write and read.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const STORAGE: Tool = Tool {
    name: NAME,
    title: "Measure the disk",
    about: "How fast items are written, made durable and read, on a scratch store that is removed. At most 10 s.",
    shape: Asked::shape,
    results: &[
        always("n", Kind::Integer).says("Items that were written in batches and read again."),
        always("append", Kind::Object)
            .says("Batches of 256: items_per_s, p50_ms and p95_ms of a batch."),
        always("sync", Kind::Object).says("One item at a time, each durable: n, p50_ms, p95_ms."),
        always("read", Kind::Object)
            .says("By id, in an order of chance: items_per_s, p50_ms, p95_ms."),
        super::timer::CUT,
    ],
    scope: Some(Scope::BenchRun),
    change: Change::Adds,
    core: false,
    run: |context, raw| measure(context, raw),
    example: r#"{"n": 20}"#,
};

/// Scratch directory, removed on drop. If the process is killed first, the next start of the server removes the
/// directory.
struct Scratch(PathBuf);

impl Scratch {
    /// Creates the directory; first removes a directory that a killed process left.
    fn make(data: &Path) -> io::Result<Self> {
        let folder = data.join(BENCH_SCRATCH);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If the removal fails, the next start or the next benchmark removes the directory.
        let _left = fs::remove_dir_all(&self.0);
    }
}

fn measure(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let (writing, first) = begin(context, NAME, &wanted.idempotency_key, raw)?;
    if let Some(first) = first {
        return Ok(first);
    }
    let _turn = turn(context)?;
    let failed = |why: String| {
        context.services.said.say("a benchmark of the disk failed", &why);
        ServiceError::Unwritable(IN_THE_LOG.to_owned())
    };
    let scratch =
        Scratch::make(context.services.data).map_err(|error| failed(error.to_string()))?;
    let ground = Env::on_disk(&scratch.0).map_err(|error| failed(error.to_string()))?;
    let store =
        Store::open(ground, Options::default()).map_err(|error| failed(error.to_string()))?;
    let figures = figures(context, &store, usize::try_from(wanted.n.0).unwrap_or_default())?;
    drop(store);
    drop(scratch);
    kept(writing, NAME, figures)
}

/// Waits for the permit until the deadline, at most `TIME_MAX`: concurrent benchmarks would measure each other.
fn turn(context: &ToolContext<'_>) -> Result<Turn<'static>, ServiceError> {
    let until = context.deadline.min(Instant::now() + TIME_MAX);
    let turn = TURN.take(&CallScope { deadline: Some(until), ..context.scope() });
    turn.ok_or_else(|| match context.is_over() {
        true => ServiceError::Cancelled,
        false => ServiceError::argument("n", "cannot be measured now: another such benchmark runs"),
    })
}

fn figures(
    context: &ToolContext<'_>,
    store: &Store,
    many: usize,
) -> Result<Map<String, Value>, ServiceError> {
    let mut timer = Timer::begin(context);
    let singles = SINGLE_MAX.min(many);
    // Total progress: batches, then single items, then reads.
    let of = many.div_ceil(BATCH_ITEMS) + singles + many;
    let mut ids: Vec<ItemId> = Vec::with_capacity(many);
    while ids.len() < many && timer.goes_on()? {
        let items = (ids.len()..many.min(ids.len() + BATCH_ITEMS)).map(item).collect();
        let batch = Batch { items, ..Batch::default() };
        let written = timer.measure(of, "append", || store.write(batch))?;
        ids.extend(written.items);
    }
    let append = rate(&mut timer, ids.len());
    while timer.took.len() < singles && timer.goes_on()? {
        let batch = Batch { items: vec![item(timer.took.len())], ..Batch::default() };
        timer.measure(of, "sync", || store.write(batch))?;
    }
    let synced = timer.took.len();
    let mut sync = rate(&mut timer, synced);
    sync["n"] = synced.into();
    let snapshot = store.snapshot();
    let count = ids.len();
    for turn in 0..count {
        if turn.is_multiple_of(BATCH_ITEMS) && !timer.goes_on()? {
            break;
        }
        // A prime step, which has no common factor with most counts, so that consecutive reads are far apart.
        let id = ids[(turn * 7_919) % count];
        timer.measure(of, "read", || {
            let place = snapshot.find(id)?;
            place.map(|place| snapshot.item(place).map(|item| item.text.len())).transpose()
        })?;
    }
    let reads = timer.took.len();
    let read = rate(&mut timer, reads);
    let figures = json!({
        "n": count, "append": append, "sync": sync, "read": read, "truncated": timer.is_cut,
    });
    Ok(figures.as_object().cloned().unwrap_or_default())
}

/// Figures of the measurements so far, which cover `items` items; clears the measurements.
fn rate(timer: &mut Timer<'_>, items: usize) -> Value {
    let mut took = std::mem::take(&mut timer.took);
    let whole: Duration = took.iter().sum();
    took.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "a count of items")]
    let per_second = items as f64 / whole.as_secs_f64().max(1e-9);
    json!({"items_per_s": rounded(per_second), "p50_ms": at(&took, 50), "p95_ms": at(&took, 95)})
}

fn item(number: usize) -> ItemDraft {
    let text = format!("item {number} of a benchmark ");
    let text = text.chars().cycle().take(TEXT_CHARS).collect();
    ItemDraft { kind: "note".to_owned(), modality: "text".to_owned(), text, ..ItemDraft::default() }
}
