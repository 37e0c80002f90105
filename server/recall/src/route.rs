//! A question becomes a plan: which lanes run, within which bounds, and what the answer shows.

use std::time::Duration;

use engine::{Filter, Micros};

use super::place::{Named, asks_where};
use super::time::{When, named};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Items that the governed path gives.
    const GOVERNED_LIMIT: usize = 8;
    /// Candidates that each lane hands on.
    const CANDIDATES: usize = 50;
    /// Neighbours of a seed that the graph lane follows.
    const NEIGHBOURS: usize = 3;
    /// Bytes of texts in one governed answer.
    const ANSWER_BYTES_MAX: usize = 32 << 10;
    /// Bytes of texts that each item may count on, where many are asked for.
    const BYTES_PER_ITEM: usize = 4 << 10;
    /// After this no further lane is begun.
    const DEADLINE: Duration = Duration::from_secs(10);

    /// Longest question that the words lane reads, in characters; tools allow less.
    pub(super) const QUESTION_CHARS_MAX: usize = 32 << 10;
}

/// The bounds of one recall, as `routing.bounds` reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Items in the answer.
    pub limit: usize,
    /// Candidates of each lane.
    pub candidate_limit: usize,
    /// Neighbours of each seed.
    pub neighbor_limit: usize,
    /// Bytes of texts in the answer.
    pub max_bytes: usize,
    /// When no further lane is begun.
    pub deadline: Duration,
}

impl Bounds {
    /// The router's own.
    pub const GOVERNED: Self = Self {
        limit: GOVERNED_LIMIT,
        candidate_limit: CANDIDATES,
        neighbor_limit: NEIGHBOURS,
        max_bytes: ANSWER_BYTES_MAX,
        deadline: DEADLINE,
    };
}

/// What a caller asks, whatever surface it came through.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// The words.
    pub text: String,
    /// Items wanted; the router's own bound where none is given.
    pub limit: Option<usize>,
    /// Only this modality.
    pub modality: Option<String>,
    /// Whether each item comes with its neighbours, and how many.
    pub neighbours: Option<usize>,
    /// When it is asked. Without it, what the question tells from then (`last week`) is not read.
    pub now: Option<Micros>,
}

/// Which lanes run, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The route's name.
    pub route: &'static str,
    /// The question.
    pub text: String,
    /// Whether what stands in quotes in the question is required of every item that a lane finds.
    pub quotes: bool,
    /// Run the words lane.
    pub words: bool,
    /// Run the meaning lane.
    pub meaning: bool,
    /// Run the graph lane.
    pub graph: bool,
    /// The time that the question names.
    pub when: Option<When>,
    /// The paths and symbols that the question names.
    pub named: Named,
    /// Show neighbours.
    pub neighbours: bool,
    /// Put current replacements above what they replaced.
    pub prefer_replacements: bool,
    /// Say so where nothing answers.
    pub abstains: bool,
    /// Show where in the files the items are.
    pub wants_place: bool,
    /// Tell why each item was given, and make one of those that say the same.
    pub explains: bool,
    /// The older name of the governed path by which it was asked.
    pub delegated_from: Option<&'static str>,
    /// Which items may be found.
    pub filter: Filter,
    /// Within which bounds.
    pub bounds: Bounds,
}

impl Plan {
    /// The governed path: every lane that the question gives something to go by, the current item first.
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

    /// `POST /recall`: words, and neighbours where they are asked for.
    pub fn keyword(question: Question, prefer_replacements: bool) -> Self {
        let mut plan = Self::of("keyword", question);
        (plan.words, plan.quotes) = (true, true);
        plan.prefer_replacements = prefer_replacements;
        plan
    }

    /// `POST /semantic-recall`: the exact nearest vectors.
    pub fn semantic(question: Question) -> Self {
        let mut plan = Self::of("semantic", question);
        plan.meaning = true;
        // One lane, whose order is that of the answer, and which gives nothing that policy keeps back.
        plan.bounds.candidate_limit = plan.bounds.limit;
        plan
    }

    /// Whether the items that it may find were chosen, and are none.
    pub(super) fn finds_nothing(&self) -> bool {
        self.filter.among.as_ref().is_some_and(|chosen| chosen.is_empty())
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
