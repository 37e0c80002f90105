//! `brain_benchmark_recall`: latency of recall on the items of the workspace.

use engine::{Filter, RowAddress};
use serde_json::{Map, Value};

use super::timer::{CUT, N, P50, P95, P99, Timer, begin, kept};
use crate::recall::arbitrate::RecallContext;
use recalld_common::scope::Scope;
use recalld_policy::{Action, Verdict};
use recalld_recall::{AccessView, Plan, Question};
use recalld_tool_framework::args::{Int, args, choices};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::writing::Key;
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "brain_benchmark_recall";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum words of a question.
    const WORDS_MAX: usize = 12;
}

choices! {
    /// Recall path to measure.
    enum Lane { Keyword = "keyword", Semantic = "semantic", Governed = "governed" }
}

args! {
    struct Asked {
        queries: Int<1, 200> = Int(50) => "How many.",
        lane: Lane = Lane::Governed => "Which way of recall.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const RECALL: Tool = Tool {
    name: NAME,
    title: "Measure recall",
    about: "How long recall takes for questions made from items of this workspace. Reads only; at most 10 s.",
    shape: Asked::shape,
    results: &[
        N,
        P50,
        P95,
        P99,
        CUT,
        always("rows", Kind::Integer)
            .says("Items that questions were made from, all that the caller reads."),
        always("lane", Kind::Text).says("As asked."),
    ],
    scope: Some(Scope::BenchRun),
    change: Change::Adds,
    core: false,
    run: |context, raw| measure(context, raw),
    example: r#"{"queries": 3, "lane": "keyword"}"#,
};

fn measure(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let (writing, first) = begin(context, NAME, &wanted.idempotency_key, raw)?;
    if let Some(first) = first {
        return Ok(first);
    }
    // The 10 s limit includes the sampling.
    let mut timer = Timer::begin(context);
    let recall = RecallContext::now(context);
    let snapshot = &recall.view.snapshot;
    let many = usize::try_from(wanted.queries.0).unwrap_or_default();
    let (places, rows) = sampled(snapshot, many)?;
    for place in places {
        let item = snapshot.item(place)?;
        let words = if item.title.split_whitespace().count() > 2 { item.title } else { item.text };
        let words: Vec<&str> = words.split_whitespace().take(WORDS_MAX).collect();
        let now = Some(context.services.clock.now());
        let question = Question { text: words.join(" "), now, ..Question::default() };
        let plan = match wanted.lane {
            Lane::Keyword => Plan::keyword(question, true),
            Lane::Semantic => Plan::semantic(question),
            Lane::Governed => Plan::governed(question),
        };
        if !timer.goes_on()? {
            break;
        }
        timer.measure(many, "recall", || recall.run_uncounted(&plan).map(drop))?;
    }
    let mut figures = timer.figures();
    figures.insert("rows".to_owned(), rows.into());
    figures.insert("lane".to_owned(), wanted.lane.name().into());
    kept(writing, NAME, figures)
}

/// Row addresses of current items that the caller may read, evenly spread in write order, and the number of current
/// visible rows.
pub(super) fn sampled(
    snapshot: &AccessView<'_>,
    many: usize,
) -> Result<(Vec<RowAddress>, usize), ServiceError> {
    let filter = Filter { current_only: true, mask: snapshot.hidden()?, ..Filter::default() };
    let mut rows = 0_usize;
    snapshot.for_each_admitted(&filter, |_, _| {
        rows += 1;
        Ok::<(), ServiceError>(())
    })?;
    let mut places = Vec::with_capacity(many.min(rows));
    let mut seen = 0_usize;
    snapshot.for_each_admitted(&filter, |_, place| {
        // Selects one row at each step of rows / many.
        let is_due = seen * many / rows.max(1) >= places.len() || rows <= many;
        seen += 1;
        if is_due && places.len() < many {
            let item = snapshot.item(place)?;
            if snapshot.judge(&item, Action::Read).0 == Verdict::Allow {
                places.push(place);
            }
        }
        Ok::<(), ServiceError>(())
    })?;
    Ok((places, rows))
}
