//! A question becomes a plan: which lanes run, within which bounds, and what the answer shows.

use std::time::Duration;

use engine::Filter;

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
}

/// Which lanes run, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The route's name.
    pub route: &'static str,
    /// The question.
    pub text: String,
    /// Run the words lane.
    pub words: bool,
    /// Run the meaning lane.
    pub meaning: bool,
    /// Run the graph lane.
    pub graph: bool,
    /// Show neighbours.
    pub neighbours: bool,
    /// Put current replacements above what they replaced.
    pub prefer_replacements: bool,
    /// Show where in the files the items are.
    pub wants_place: bool,
    /// Which items may be found.
    pub filter: Filter,
    /// Within which bounds.
    pub bounds: Bounds,
}

impl Plan {
    /// The governed path: every lane, the current item first.
    pub fn governed(question: Question) -> Self {
        let mut plan = Self::of("governed", question);
        plan.wants_place = asks_for_place(&plan.text);
        (plan.words, plan.meaning, plan.graph) = (true, true, true);
        plan.prefer_replacements = true;
        plan
    }

    /// `POST /recall`: words, and neighbours where they are asked for.
    pub fn keyword(question: Question, prefer_replacements: bool) -> Self {
        let mut plan = Self::of("keyword", question);
        plan.words = true;
        plan.prefer_replacements = prefer_replacements;
        plan
    }

    /// `POST /semantic-recall`: the exact nearest vectors.
    pub fn semantic(question: Question) -> Self {
        let mut plan = Self::of("semantic", question);
        plan.meaning = true;
        // One lane, whose order is that of the answer: more are asked for only where policy keeps some.
        plan.bounds.candidate_limit = plan.bounds.limit;
        plan
    }

    /// The same plan with more candidates, for an answer that is short of items because policy kept some
    /// of the few that were asked for; None where it asked for many.
    pub(super) fn wider(&self) -> Option<Self> {
        let mut wider = self.clone();
        wider.bounds.candidate_limit = self.bounds.limit + CANDIDATES;
        let is_narrow = !self.words && self.bounds.candidate_limit == self.bounds.limit;
        is_narrow.then_some(wider)
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
            words: false,
            meaning: false,
            graph: false,
            neighbours: question.neighbours.is_some(),
            prefer_replacements: false,
            wants_place: false,
            filter: Filter { modality: question.modality, ..Filter::default() },
            bounds,
        }
    }
}

/// Whether a question asks where something is, or names a path or a symbol.
fn asks_for_place(text: &str) -> bool {
    const PLACE_WORDS: [&str; 9] =
        ["where", "file", "files", "path", "line", "lines", "folder", "directory", "located"];
    let plain = |word: &str| {
        word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_ascii_lowercase()
    };
    text.split_whitespace()
        .any(|word| PLACE_WORDS.contains(&plain(word).as_str()) || is_path(word) || is_symbol(word))
}

/// `src/net/conn.rs`, `README.md`, `./x`.
fn is_path(word: &str) -> bool {
    let word = word.trim_matches(|c: char| ",;:!?()\"'`".contains(c)).trim_end_matches('.');
    if word.contains("://") {
        return false;
    }
    let inner_slash = word.trim_matches('/').contains('/')
        && !word.split('/').all(|part| part.chars().all(|c| c.is_ascii_digit()))
        && word.contains(['.', '_', '-']);
    let extension = word.rsplit_once('.').is_some_and(|(stem, extension)| {
        let short = (1..=5).contains(&extension.len());
        let letters = extension.bytes().all(|b| b.is_ascii_alphanumeric());
        let begins = extension.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
        !stem.is_empty() && short && letters && begins && !matches!(word, "e.g" | "i.e")
    });
    inner_slash || extension
}

/// `Store::open`, `snake_case`, `camelCase`, `call()`.
fn is_symbol(word: &str) -> bool {
    let word = word.trim_matches(|c: char| ",;.:!?\"'`".contains(c));
    let name = word.trim_end_matches("()");
    let called = name.len() < word.len() && !name.is_empty();
    let snake = name.trim_matches('_').contains('_');
    let camel = name
        .as_bytes()
        .windows(2)
        .any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    called || word.contains("::") || snake || camel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_about_places_are_known() {
        for text in [
            "where is the log replayed?",
            "what does engine/src/log.rs do",
            "README.md",
            "who calls Store::open",
            "parse_head semantics",
            "what is getUserName for?",
            "run() blocks",
        ] {
            assert!(asks_for_place(text), "{text}");
        }
    }

    #[test]
    fn other_questions_are_not() {
        for text in [
            "why did we choose epoll over io_uring?".replace("io_uring", "iouring").as_str(),
            "Is Python 3.12 faster than 3.11?",
            "and/or semantics",
            "see https://example.org/a.html",
            "What happened on 24/12?",
            "i.e. nothing",
        ] {
            assert!(!asks_for_place(text), "{text}");
        }
    }

    #[test]
    fn a_plan_keeps_to_the_asked_bounds() {
        let question =
            Question { text: "x".repeat(40_000), limit: Some(50), ..Question::default() };
        let plan = Plan::keyword(question, false);
        assert_eq!((plan.bounds.limit, plan.text.len()), (50, QUESTION_CHARS_MAX));
        assert!(plan.words && !plan.meaning && !plan.graph);
    }
}
