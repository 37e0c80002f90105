//! Time limit of a benchmark, and the record of its figures (format-spec/records.md).

use std::time::{Duration, Instant};

use engine::ItemDraft;
use serde_json::{Map, Value, json};

use recalld_common::own_kinds::BENCH;
use recalld_recall::AccessView;
use recalld_tool_framework::records::Record;
use recalld_tool_framework::results::{Kind, Output, always};
use recalld_tool_framework::writing::{ItemRecord, Key, Writing};
use recalld_tool_framework::{Answer, ServiceError, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum duration of a benchmark.
    pub(super) const TIME_MAX: Duration = Duration::from_secs(10);
}

/// Result field: number of measurements.
pub(super) const N: Output = always("n", Kind::Integer).says("How many were measured.");
pub(super) const P50: Output =
    always("p50_ms", Kind::Number).says("Half took no longer, in milliseconds.");
pub(super) const P95: Output = always("p95_ms", Kind::Number).says("95 in 100 took no longer.");
pub(super) const P99: Output = always("p99_ms", Kind::Number).says("99 in 100 took no longer.");
pub(super) const CUT: Output =
    always("truncated", Kind::Flag).says("Whether 10 s were over before all were measured.");

/// Measurements and time limit of one benchmark.
pub(super) struct Timer<'c> {
    pub(super) context: &'c ToolContext<'c>,
    pub(super) ends: Instant,
    pub(super) took: Vec<Duration>,
    /// All measurements so far, including those cleared from `took`; for progress reports.
    pub(super) done: u64,
    pub(super) is_cut: bool,
}

impl<'c> Timer<'c> {
    pub(super) fn begin(context: &'c ToolContext<'c>) -> Self {
        let ends = context.deadline.min(Instant::now() + TIME_MAX);
        Self { context, ends, took: Vec::new(), done: 0, is_cut: false }
    }

    /// Returns true if there is time for another measurement.
    ///
    /// # Errors
    /// Returns an error if the call was cancelled.
    pub(super) fn goes_on(&mut self) -> Result<bool, ServiceError> {
        if self.context.cancel.is_cancelled() {
            return Err(ServiceError::Cancelled);
        }
        self.is_cut |= Instant::now() >= self.ends;
        Ok(!self.is_cut)
    }

    /// Measures `work` once and reports progress.
    pub(super) fn measure<T>(&mut self, of: usize, what: &str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        self.took.push(began.elapsed());
        self.done += 1;
        if let Some(progress) = self.context.progress {
            progress(self.done, of as u64, what);
        }
        done
    }

    /// Count, percentiles and `truncated` of the measurements.
    pub(super) fn figures(&mut self) -> Map<String, Value> {
        self.took.sort_unstable();
        let figures = json!({
            "n": self.took.len(), "p50_ms": at(&self.took, 50), "p95_ms": at(&self.took, 95),
            "p99_ms": at(&self.took, 99), "truncated": self.is_cut,
        });
        figures.as_object().cloned().unwrap_or_default()
    }
}

/// Percentile in milliseconds (nearest rank); 0 if there are no measurements.
pub(super) fn at(sorted: &[Duration], percent: usize) -> Value {
    let rank = (sorted.len() * percent).div_ceil(100);
    let took = sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default();
    rounded(took.as_secs_f64() * 1e3)
}

/// Rounds to three decimals.
pub(super) fn rounded(figure: f64) -> Value {
    json!((figure * 1e3).round() / 1e3)
}

/// Stores the figures of a benchmark and returns them.
pub(super) fn kept(
    writing: Writing<'_>,
    name: &'static str,
    figures: Map<String, Value>,
) -> Result<Answer, ServiceError> {
    let mut writing = writing;
    let attributes = json!({"name": name, "figures": figures});
    let id = writing.add(ItemDraft {
        kind: BENCH.to_owned(),
        title: format!("Benchmark {name}"),
        text: Value::Object(figures).to_string(),
        attributes: attributes.to_string(),
        // Figures are not memories, so recall must not find them.
        searchable: false,
        ..ItemDraft::default()
    })?;
    writing.commit(&ItemRecord::of(BENCH, id), &told)?.or_overtaken("idempotency_key")
}

/// Begins the write operation; also returns the figures stored by an earlier call with this idempotency key.
pub(super) fn begin<'c>(
    context: &'c ToolContext<'c>,
    tool: &'static str,
    key: &Key,
    raw: &Map<String, Value>,
) -> Result<(Writing<'c>, Option<Answer>), ServiceError> {
    let writing = Writing::begin(context, tool, key, raw);
    let first = writing.first_answer(&told)?;
    Ok((writing, first))
}

/// Response with the figures as stored.
fn told(snapshot: &AccessView<'_>, record: &ItemRecord) -> Result<Answer, ServiceError> {
    let (place, _) = record.id.find(snapshot)?;
    let record = Record::of(snapshot, place)?;
    let figures = record.attributes.get("figures").cloned().unwrap_or_else(|| json!({}));
    let lines = figures.as_object().into_iter().flatten();
    let text = lines.map(|(name, figure)| format!("{name}: {figure}\n")).collect();
    Ok(Answer::plain(figures, text))
}
