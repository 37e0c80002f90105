//! Query plan: the retrievers, filters and limits chosen for a question, and the parts of the answer.

use std::time::Duration;

use engine::{Filter, Micros};

use super::place::{Named, asks_where};
use super::time::{When, named};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items in an answer of the governed path.
    const GOVERNED_LIMIT: usize = 8;
    /// Candidates per retriever.
    const CANDIDATES: usize = 50;
    /// Neighbours of a seed that the graph retriever follows.
    const NEIGHBOURS: usize = 3;
    /// Bytes of text in one governed answer.
    const ANSWER_BYTES_MAX: usize = 32 << 10;
    /// Bytes of text per item, if a caller requests many items.
    const BYTES_PER_ITEM: usize = 4 << 10;
    /// After this time, no further retriever is started.
    const DEADLINE: Duration = Duration::from_secs(10);

    /// Longest question for the full-text retriever, in characters; tools allow less.
    pub(super) const QUESTION_CHARS_MAX: usize = 32 << 10;
}

/// Limits of one recall, as reported in `routing.bounds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Items in the answer.
    pub limit: usize,
    /// Candidates per retriever.
    pub candidate_limit: usize,
    /// Neighbours per seed.
    pub neighbor_limit: usize,
    /// Bytes of text in the answer.
    pub max_bytes: usize,
    /// Time after which no further retriever is started.
    pub deadline: Duration,
}

impl Bounds {
    /// Default limits.
    pub const GOVERNED: Self = Self {
        limit: GOVERNED_LIMIT,
        candidate_limit: CANDIDATES,
        neighbor_limit: NEIGHBOURS,
        max_bytes: ANSWER_BYTES_MAX,
        deadline: DEADLINE,
    };
}

/// Question of a caller, the same for all APIs.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Text of the question.
    pub text: String,
    /// Requested number of items; `None` for the default limit.
    pub limit: Option<usize>,
    /// Only items of this modality.
    pub modality: Option<String>,
    /// Number of neighbours to include with each item; `None` for no neighbours.
    pub neighbours: Option<usize>,
    /// Time of the question. Without this time, relative times (`last week`) are ignored.
    pub now: Option<Micros>,
}

/// Query plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the route.
    pub route: &'static str,
    /// Text of the question.
    pub text: String,
    /// True if every candidate must contain the question's quoted phrases.
    pub quotes: bool,
    /// Run the full-text retriever.
    pub words: bool,
    /// Run the vector retriever.
    pub meaning: bool,
    /// Run the graph retriever.
    pub graph: bool,
    /// Temporal intent of the question.
    pub when: Option<When>,
    /// Paths and symbols that the question names.
    pub named: Named,
    /// Include neighbours.
    pub neighbours: bool,
    /// Rank current successors above the items they supersede.
    pub prefer_replacements: bool,
    /// Abstain if nothing answers the question.
    pub abstains: bool,
    /// Show the location of items in their files.
    pub wants_place: bool,
    /// Explain each item, and collapse near-duplicates.
    pub explains: bool,
    /// Older tool name that delegates to the governed path, if the call used one.
    pub delegated_from: Option<&'static str>,
    /// Filter of the items that may be found.
    pub filter: Filter,
    /// Limits of the plan.
    pub bounds: Bounds,
}

impl Plan {
    /// Plan of the governed path: every retriever with input from the question, and current items first.
    pub fn governed(question: Question) -> Self {
        let now = question.now;
        let mut plan = Self::of("governed", question);
        plan.named = Named::of(&plan.text);
        plan.wants_place = asks_where(&plan.text) || !plan.named.is_empty();
        plan.when = named(&plan.text, now);
        (plan.words, plan.meaning, plan.graph) = (true, true, true);
        plan.quotes = true;
        plan.prefer_replacements = true;
        plan.explains = true;
        plan.abstains = true;
        plan
    }

    /// Plan of `POST /recall`: full text, and neighbours on request.
    pub fn keyword(question: Question, prefer_replacements: bool) -> Self {
        let mut plan = Self::of("keyword", question);
        (plan.words, plan.quotes) = (true, true);
        plan.prefer_replacements = prefer_replacements;
        plan
    }

    /// Plan of `POST /semantic-recall`: the exact nearest vectors.
    pub fn semantic(question: Question) -> Self {
        let mut plan = Self::of("semantic", question);
        plan.meaning = true;
        // With a single retriever the ranking is final, and the mask already excludes hidden items: no spare candidates
        // needed.
        plan.bounds.candidate_limit = plan.bounds.limit;
        plan
    }

    /// Returns true if the filter has a set of chosen items, and the set is empty.
    pub(super) fn finds_nothing(&self) -> bool {
        self.filter.allowlist.as_ref().is_some_and(|chosen| chosen.is_empty())
    }

    fn of(route: &'static str, question: Question) -> Self {
        let mut bounds = Bounds::GOVERNED;
        if let Some(limit) = question.limit {
            bounds.limit = limit;
            bounds.candidate_limit = bounds.candidate_limit.max(limit);
            bounds.max_bytes = bounds.max_bytes.max(limit * BYTES_PER_ITEM);
        }
        if let Some(neighbours) = question.neighbours {
            bounds.neighbor_limit = neighbours;
        }
        let mut text = question.text;
        if let Some((cut, _)) = text.char_indices().nth(QUESTION_CHARS_MAX) {
            text.truncate(cut);
        }
        Self {
            route,
            text,
            quotes: false,
            words: false,
            meaning: false,
            graph: false,
            when: None,
            named: Named::default(),
            neighbours: question.neighbours.is_some(),
            prefer_replacements: false,
            abstains: false,
            wants_place: false,
            explains: false,
            delegated_from: None,
            filter: Filter { modality: question.modality, ..Filter::default() },
            bounds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_keeps_to_the_asked_bounds() {
        let question =
            Question { text: "x".repeat(40_000), limit: Some(50), ..Question::default() };
        let plan = Plan::keyword(question, false);
        assert_eq!((plan.bounds.limit, plan.text.len()), (50, QUESTION_CHARS_MAX));
        assert!(plan.words && !plan.meaning && !plan.graph);
    }

    #[test]
    fn only_the_governed_path_reads_times_and_places() {
        let asked = || Question { text: "lamp.py in 2024".to_owned(), ..Question::default() };
        let governed = Plan::governed(asked());
        assert!(governed.when.is_some() && governed.named.paths == ["lamp.py"]);
        assert!(governed.wants_place);
        for plan in [Plan::keyword(asked(), true), Plan::semantic(asked())] {
            assert!(plan.when.is_none() && plan.named.is_empty() && !plan.wants_place);
        }
    }
}
