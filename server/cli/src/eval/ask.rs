//! Runs evaluation questions as governed calls: retrieval plan, policy, evidence and ledger.

use std::collections::HashMap;
use std::time::Instant;

use engine::{ItemId, Micros, SearchError, Snapshot};
use serde_json::json;

use super::dataset::{Asked, Dataset, Foreign, Judged, Superseded};
use super::measures::{Latency, Ranked, Stale};
use super::report::{Figures, Report};
use recalld_recall::{Plan, Question};
use recalld_tool_framework::{Refused, ToolContext, governed};
use recalld_tools::recall::arbitrate;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Number of ranked items per question, whatever the router's own limit.
    pub(super) const RANKED: usize = 10;
}

/// The retrieval path of the questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// BM25 only, as in `POST /recall`.
    Words,
    /// Cosine similarity only, as in `POST /semantic-recall`.
    Meaning,
    /// All retrievers, as in `retrieval_arbitrate_tool`.
    Governed,
}

impl Lane {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Meaning => "meaning",
            Self::Governed => "governed",
        }
    }

    fn plan(self, text: &str, now: Micros, prefer_replacements: bool) -> Plan {
        let (text, now) = (text.to_owned(), Some(now));
        let question = Question { text, limit: Some(RANKED), now, ..Question::default() };
        match self {
            Self::Words => Plan::keyword(question, prefer_replacements),
            Self::Meaning => Plan::semantic(question),
            Self::Governed => Plan::governed(question),
        }
    }
}

/// The result of one question.
#[derive(Default)]
struct Answered {
    names: Vec<String>,
    abstained: bool,
}

struct Asking<'a> {
    context: &'a ToolContext<'a>,
    how: How,
    latency: Latency,
    /// Questions asked so far, and their total.
    asked: (u64, u64),
}

/// Options of an evaluation run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct How {
    /// The retrieval path.
    pub lane: Lane,
    /// The callers' current time, from which `last week` is resolved.
    pub now: Micros,
}

impl Asking<'_> {
    fn ask(&mut self, text: &str, prefer_replacements: bool) -> Result<Answered, Refused> {
        let plan = self.how.lane.plan(text, self.how.now, prefer_replacements);
        let arguments = json!({"query": text, "lane": self.how.lane.name()});
        let mut answered = Answered::default();
        let began = Instant::now();
        governed(self.context, "recalld eval", &arguments, false, |context| {
            // The answer is rendered as for a caller, because the latency includes that.
            arbitrate::answer_as(context, &plan, false, |found| {
                let names = found.items().map(|item| item.reference.unwrap_or_default().to_owned());
                answered = Answered { names: names.collect(), abstained: found.is_abstained() };
                found.answer()
            })
        })?;
        self.latency.add(began.elapsed());
        self.asked.0 += 1;
        if let Some(tell) = self.context.progress {
            tell(self.asked.0, self.asked.1, "asking");
        }
        Ok(answered)
    }

    fn ranked(&mut self, questions: &[Judged]) -> Result<Ranked, Refused> {
        let mut ranked = Ranked::default();
        for question in questions {
            let answered = self.ask(&question.text, false)?;
            let names: Vec<&str> = answered.names.iter().map(String::as_str).collect();
            ranked.add(&names, &question.relevant, RANKED);
            if answered.abstained {
                ranked.add_unanswered();
            }
        }
        Ok(ranked)
    }

    fn stale(&mut self, questions: &[Superseded]) -> Result<Stale, Refused> {
        let snapshot = self.context.view().snapshot;
        let ids = ids(&snapshot).map_err(refused)?;
        let mut stale = Stale::default();
        for question in questions {
            let answered = self.ask(&question.text, true)?;
            let names: Vec<&str> = answered.names.iter().map(String::as_str).collect();
            stale.add(&names, &question.stale, &question.current);
            stale.unanswered += u64::from(answered.abstained);
            let reached = are_reachable(&snapshot, &ids, question).map_err(refused)?;
            stale.reachable += u64::from(reached);
        }
        Ok(stale)
    }
}

fn refused(error: SearchError) -> Refused {
    Refused { error: error.into(), receipt: None }
}

/// Item ids by document name.
fn ids(snapshot: &Snapshot) -> Result<HashMap<String, ItemId>, SearchError> {
    let mut ids = HashMap::new();
    for place in snapshot.item_addresses()? {
        snapshot.check_cancelled()?;
        let item = snapshot.item(place)?;
        if let Some(name) = item.reference {
            ids.insert(name.to_owned(), item.id);
        }
    }
    Ok(ids)
}

/// Returns true if every stale document is found by its id, with a current document in its chain.
fn are_reachable(
    snapshot: &Snapshot,
    ids: &HashMap<String, ItemId>,
    question: &Superseded,
) -> Result<bool, SearchError> {
    let current: Vec<ItemId> =
        question.current.iter().filter_map(|name| ids.get(name).copied()).collect();
    for name in &question.stale {
        let Some(&id) = ids.get(name) else { return Ok(false) };
        let chain = snapshot.chain(id)?;
        let leads_on = chain.members.iter().any(|member| current.contains(&member.id));
        if snapshot.find(id)?.is_none() || !leads_on {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Runs a data set's questions, and the out-of-scope questions, against the store with its documents.
///
/// # Errors
/// [`Refused`] if a question fails for another reason than an abstention.
pub fn evaluate(
    context: &ToolContext<'_>,
    dataset: &Dataset,
    how: How,
    foreign: Option<&Foreign>,
) -> Result<Report, Refused> {
    let own = match &dataset.asked {
        Asked::Ranked(questions) => questions.len(),
        Asked::Superseded(questions) => questions.len(),
    };
    let all = own + foreign.map_or(0, |foreign| foreign.questions.len());
    let mut asking = Asking { context, how, latency: Latency::default(), asked: (0, all as u64) };
    let figures = match &dataset.asked {
        Asked::Ranked(questions) => Figures::Ranked(asking.ranked(questions)?),
        Asked::Superseded(questions) => Figures::Stale(asking.stale(questions)?),
    };
    let latency = std::mem::take(&mut asking.latency);
    let mut abstained = None;
    if let Some(foreign) = foreign {
        let mut count = 0;
        for question in &foreign.questions {
            count += u64::from(asking.ask(question, false)?.abstained);
        }
        abstained = Some((count, foreign.questions.len() as u64));
    }
    let snapshot = context.view().snapshot;
    let documents = snapshot.row_counts().map_err(refused)?.items;
    let name = dataset.name.clone();
    let How { lane, now } = how;
    Ok(Report { name, lane, now, documents, figures, latency, foreign: abstained })
}

#[cfg(test)]
mod tests {
    use super::*;
    use recalld_recall::When;

    #[test]
    fn words_of_time_are_told_from_the_time_that_is_given() {
        let day = 86_400_000_000;
        let when = |now| Lane::Governed.plan("auks of yesterday", Micros(now), false).when;
        let Some(When::Within(period)) = when(10 * day + 5) else { panic!("{:?}", when(0)) };
        assert_eq!((period.start, period.end), (Micros(9 * day), Micros(10 * day)));
    }
}
