//! `brain_benchmark_quality`: known-item retrieval over the items of the workspace.

use engine::{ItemId, RowAddress, Snapshot};
use serde_json::{Map, Value};

use super::recall::sampled;
use super::timer::{CUT, Timer, begin, kept, rounded};
use crate::recall::arbitrate::RecallContext;
use recalld_common::scope::Scope;
use recalld_recall::{Plan, Question};
use recalld_tool_framework::args::{Int, args};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::writing::Key;
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "brain_benchmark_quality";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum words of a question.
    const WORDS_MAX: usize = 8;
    /// Items sampled for each item to find, because some items, such as documents, have no text of their own.
    const SAMPLED_EACH: usize = 4;
}

/// Minimum characters of a word in a question.
const WORD_CHARS_MIN: usize = 4;
/// Minimum words of a question.
const WORDS_MIN: usize = 3;
const METHOD: &str = "known-item retrieval: up to 8 longer words of an item's longest sentence are asked, and the item \
                      is looked for among the answers of the governed path; items that say the same count as it";

args! {
    struct Asked {
        n: Int<10, 500> = Int(100) => "How many items to look for.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const QUALITY: Tool = Tool {
    name: NAME,
    title: "Measure recall's quality",
    about: "Whether recall finds items of this workspace again by words of theirs. Reads only; at most 10 s.",
    shape: Asked::shape,
    results: &[
        always("n", Kind::Integer).says("Items that were looked for."),
        always("recall_at_1", Kind::Number).says("The share that came first."),
        always("recall_at_5", Kind::Number).says("The share among the first five."),
        always("mrr", Kind::Number).says("Mean of 1 / rank; 0 for those not found."),
        always("method", Kind::Text).says("How it was done."),
        CUT,
    ],
    scope: Some(Scope::BenchRun),
    change: Change::Adds,
    core: false,
    run: |context, raw| measure(context, raw),
    example: r#"{"n": 10}"#,
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
    let many = usize::try_from(wanted.n.0).unwrap_or_default();
    let (places, _) = sampled(snapshot, many * SAMPLED_EACH)?;
    let askable = askable(snapshot, &places, many)?;
    let (mut first, mut five, mut reciprocal) = (0_u32, 0_u32, 0.0_f64);
    for (id, question) in askable {
        if !timer.goes_on()? {
            break;
        }
        let rank = timer.measure(many, "look", || rank_of(context, &recall, question, id))?;
        first += u32::from(rank == Some(1));
        five += u32::from(rank.is_some_and(|rank| rank <= 5));
        reciprocal += rank.map_or(0.0, |rank| 1.0 / f64::from(rank));
    }
    let asked = f64::from(u32::try_from(timer.took.len()).unwrap_or(u32::MAX));
    let share = |of: f64| if asked > 0.0 { rounded(of / asked) } else { 0.0.into() };
    let mut figures = Map::new();
    figures.insert("n".to_owned(), timer.took.len().into());
    figures.insert("recall_at_1".to_owned(), share(f64::from(first)));
    figures.insert("recall_at_5".to_owned(), share(f64::from(five)));
    figures.insert("mrr".to_owned(), share(reciprocal));
    figures.insert("method".to_owned(), METHOD.into());
    figures.insert("truncated".to_owned(), timer.is_cut.into());
    kept(writing, NAME, figures)
}

/// At most `many` items with their questions, evenly spread over the items from which a question can be made.
fn askable(
    snapshot: &Snapshot,
    places: &[RowAddress],
    many: usize,
) -> Result<Vec<(ItemId, String)>, ServiceError> {
    let mut found = Vec::new();
    for &place in places {
        let item = snapshot.item(place)?;
        found.extend(question_of(item.text).map(|question| (item.id, question)));
    }
    let (all, wanted) = (found.len(), many.min(found.len()));
    let mut seen = 0;
    found.retain(|_| {
        let before = seen * wanted / all;
        seen += 1;
        seen * wanted / all > before
    });
    Ok(found)
}

/// Makes a question of the longer words of the longest sentence; `None` if there are too few.
fn question_of(text: &str) -> Option<String> {
    let sentences = text.split(['.', '!', '?', '\n']);
    let words = |sentence: &str| -> Vec<String> {
        let words = sentence.split(|c: char| !c.is_alphanumeric());
        let long = words.filter(|word| word.chars().count() >= WORD_CHARS_MIN);
        long.take(WORDS_MAX).map(str::to_owned).collect()
    };
    let longest = sentences.max_by_key(|sentence| sentence.split_whitespace().count())?;
    let words = words(longest);
    (words.len() >= WORDS_MIN).then(|| words.join(" "))
}

/// Rank of an item, or of a duplicate of the item, in the answer, from 1; `None` if it is not found.
fn rank_of(
    context: &ToolContext<'_>,
    recall: &RecallContext<'_>,
    question: String,
    id: ItemId,
) -> Result<Option<u32>, ServiceError> {
    let now = Some(context.services.clock.now());
    let plan = Plan::governed(Question { text: question, now, ..Question::default() });
    let outcome = recall.run_uncounted(&plan)?;
    let snapshot = &recall.view.snapshot;
    for (rank, found) in (1_u32..).zip(&outcome.items) {
        for &place in [&found.place].into_iter().chain(&found.duplicates) {
            if snapshot.id(place)? == id {
                return Ok(Some(rank));
            }
        }
    }
    Ok(None)
}
