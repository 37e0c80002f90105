//! Routing: selects the tool for a command, with a confidence and a reason, or reports why none is selected.
//!
//! The pattern with the highest confidence wins; among equals, the one with more terms. If two tools tie, none is
//! selected. No question, negation or condition leads to a tool that writes.

use engine::Micros;
use serde_json::{Map, Value};

use crate::cues::{Found, understood};
use crate::mood::{Begins, Mood, begins, is_denied, is_doubted, is_taken_back};
use crate::parts::Taking;
use crate::routes::{self, Row};
use crate::said::{Said, Sort};
use recalld_status_answers::{is_of_service, topics_of};
use recalld_tool_framework::{Catalog, Change};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Alternatives reported beside the selected tool.
    const ALTERNATIVES_MAX: usize = 5;
    /// Characters of matched words in a reason.
    const WHY_CHARS_MAX: usize = 200;
}

/// Lowest confidence of a selected tool, out of 100.
const SURE_MIN: u8 = 50;
/// Lowest confidence of a reported tool.
const NAMED_MIN: u8 = 30;
/// Penalty of an unknown word, for a tool about the service only.
const STRANGE: u8 = 40;
/// Margin below which the next candidate reduces the confidence, and the reduction.
const NEAR: u8 = 4;
const NEAR_COSTS: u8 = 10;
/// Confidence in a tool called by its name.
const BY_NAME: u8 = 98;
/// Confidence in a question about the service only; in one that asks for a count or a measurement; in a statement.
const OF_SERVICE: u8 = 70;
const OF_NUMBERS: u8 = 87;
const OF_SERVICE_UNASKED: u8 = 45;
/// Confidence that any other question is for recall.
const OF_MEMORY: u8 = 50;
/// Fewest tokens of a question for recall.
const QUESTION_WORDS_MIN: usize = 3;

/// Verbs of a write command.
const ORDERS: &str = "delete remove forget erase ingest link unlink remember remind tombstone supersede replace \
                      schedule purge wipe hide connect correct register disconnect discard destroy";
/// Verbs that are nouns before `of`.
const THINGS: &str = "record log note store plan schedule link index document start copy list";
/// Conjunctions and adverbs, after which another command may begin.
const JOINS: &str = "and then or but also afterward please maybe perhap";

/// Candidate tool for a command.
#[derive(Debug, Clone)]
pub struct Choice {
    /// Name of the tool.
    pub tool: &'static str,
    /// Confidence, out of 100.
    pub sure: u8,
    /// Reason for the choice: the matched words.
    pub why: String,
    /// Arguments extracted from the command.
    pub arguments: Map<String, Value>,
    /// Required arguments that the command lacks.
    pub needs: Vec<&'static str>,
    /// Number of terms of the matching pattern.
    size: usize,
    /// Tokens of the matching pattern.
    places: Vec<usize>,
}

/// Result of routing a command.
#[derive(Debug, Default)]
pub struct RoutedCommand {
    /// Selected tool, if any.
    pub chosen: Option<Choice>,
    /// Other candidates, highest confidence first.
    pub others: Vec<Choice>,
    /// Reason why no tool is selected.
    pub why_not: String,
}

/// Parsed command.
struct Command<'s> {
    said: &'s Said<'s>,
    words: Vec<String>,
    begins: Begins,
    now: Micros,
    catalog: Catalog,
}

/// Routes a command to a tool of the catalog. `kinds` are the kinds of items in the store.
pub fn understand(text: &str, now: Micros, kinds: &[String], catalog: Catalog) -> RoutedCommand {
    let said = Said::of(text);
    let words = understood(&said, routes::known());
    let begins = begins(&said, &words);
    let command = Command { said: &said, words, begins, now, catalog };
    if let Mood::Held(why) = begins.mood {
        return RoutedCommand { why_not: why.to_owned(), ..RoutedCommand::default() };
    }
    let mut found: Vec<Choice> =
        routes::rows().iter().filter_map(|row| command.by_words(row)).collect();
    found.extend(command.by_name());
    found.extend(command.of_service(kinds));
    found.extend(command.of_memory());
    found.sort_by_key(|choice| (std::cmp::Reverse((choice.sure, choice.size)), choice.tool));
    let mut named: Vec<&str> = Vec::new();
    found.retain(|choice| {
        let is_new = !named.contains(&choice.tool);
        named.push(choice.tool);
        is_new && choice.sure >= NAMED_MIN
    });
    command.decide(found)
}

impl Command<'_> {
    /// Selects among the candidates, which are sorted by confidence.
    fn decide(&self, mut found: Vec<Choice>) -> RoutedCommand {
        let mut routed = RoutedCommand::default();
        let why_not = match found.as_slice() {
            [] => "nothing in it names something that a tool does",
            [first, ..] if first.sure < SURE_MIN => "no words of it say surely what is wanted",
            [first, next, ..] if (first.sure, first.size) == (next.sure, next.size) => {
                "as much speaks for one tool as for another"
            }
            [first, ..] if self.wants_more(first) => {
                "it asks for more than one thing; ask for one at a time"
            }
            [first, rest @ ..] => {
                let is_near = rest.first().is_some_and(|next| first.sure - next.sure <= NEAR);
                let mut chosen = found.remove(0);
                chosen.sure -= if is_near { NEAR_COSTS } else { 0 };
                routed.chosen = Some(chosen);
                ""
            }
        };
        why_not.clone_into(&mut routed.why_not);
        found.truncate(ALTERNATIVES_MAX);
        routed.others = found;
        routed
    }

    /// Returns true if the command's modality permits the tool. `places` are the matched tokens.
    fn may_be(&self, tool: &str, places: &[usize]) -> bool {
        let Begins { head, mood } = self.begins;
        let row = self.catalog.tools().find(|row| row.name == tool);
        let change = row.map_or(Change::Nothing, |row| row.change);
        if change == Change::Nothing {
            return true;
        }
        let is_idiom = self.words.get(head + 1).is_some_and(|word| word == "forget")
            || self.words.get(head + 2).is_some_and(|word| word == "forget");
        if places.first() == Some(&head) && self.is_named(head) {
            return false;
        }
        let is_doubted = change == Change::Removes
            && (is_doubted(&self.words, head)
                || is_taken_back(&self.words, head)
                || self.said.asks_within(head));
        let to = places.last().map_or(head, |last| *last);
        let to = to + usize::from(routes::row_of(tool).is_none_or(|row| !row.route.is_payload));
        mood == Mood::Order
            && !is_doubted
            && (is_idiom || !is_denied(&self.words, head, to, places))
    }

    /// Returns true if the token is a noun in the position of a verb: `notes about`, `record of`.
    fn is_named(&self, at: usize) -> bool {
        let (Some(piece), Some(word)) = (self.said.pieces.get(at), self.words.get(at)) else {
            return false;
        };
        let is_many = piece.sort == Sort::Word
            && piece.text.to_lowercase().ends_with('s')
            && !piece.text.contains(['\'', '\u{2019}'])
            && !word.ends_with('s');
        let is_noun = THINGS.split_whitespace().any(|thing| thing == word);
        is_many || (is_noun && self.words.get(at + 1).is_some_and(|next| next == "of"))
    }

    /// Candidate of a route, if one of its patterns matches the command.
    fn by_words(&self, row: &'static Row) -> Option<Choice> {
        let found = row.cues.iter().filter_map(|cue| {
            let found = cue.find(self.said, &self.words, self.begins.head, routes::is_tool)?;
            self.may_be(row.route.tool, &found.places).then_some((cue, found))
        });
        let (cue, found) = found.max_by_key(|(cue, _)| (cue.weight, cue.size()))?;
        let is_strange = row.route.is_closed && self.has_strange_words(&found);
        let sure = cue.weight.saturating_sub(if is_strange { STRANGE } else { 0 });
        let why = format!("by its words: {}", self.told(&found.places));
        Some(self.choice(row, sure, cue.size(), why, &found.places))
    }

    /// Candidate for a tool called by its name.
    fn by_name(&self) -> Option<Choice> {
        let head = self.begins.head;
        let is_called = ["run", "call", "use", "invoke", "execute", "do", "try", "start"]
            .contains(&self.words.get(head)?.as_str());
        let at = head + usize::from(is_called);
        let at = at + usize::from(self.words.get(at).is_some_and(|word| word == "the"));
        let row = routes::row_of(&self.said.pieces.get(at)?.text)?;
        let is_meant = is_called || row.route.tool.contains('_');
        if !is_meant || !self.may_be(row.route.tool, &[at]) {
            return None;
        }
        Some(self.choice(row, BY_NAME, 1, "it is called by its name".to_owned(), &[at]))
    }

    /// Candidate for the status tool, if the command is about the service.
    fn of_service(&self, kinds: &[String]) -> Option<Choice> {
        let row = routes::row_of(crate::STATUS)?;
        let topics = topics_of(self.said.text, kinds)?;
        let head = self.begins.head;
        let word = |at: usize| self.words.get(at).map_or("", String::as_str);
        let counts = word(head) == "how"
            && ["many", "much", "fast", "long", "big", "large", "slow", "full"]
                .contains(&word(head + 1));
        let is_figure = [
            "number", "count", "total", "amount", "size", "status", "latency", "uptime", "version",
        ]
        .contains(&word(head));
        let sure = match self.begins.mood {
            Mood::Order if is_figure => OF_SERVICE,
            Mood::Question if counts => OF_NUMBERS,
            Mood::Question => OF_SERVICE,
            _ => OF_SERVICE_UNASKED,
        };
        let why = format!("it asks about the service: {}", topics.join(", "));
        Some(self.choice(row, sure, 0, why, &[]))
    }

    /// Candidate for recall, for any question.
    fn of_memory(&self) -> Option<Choice> {
        let row = routes::row_of(crate::RECALL)?;
        let is_question = self.begins.mood == Mood::Question
            && self.said.pieces.len() - self.begins.head >= QUESTION_WORDS_MIN;
        let why = || "it asks what is remembered".to_owned();
        is_question.then(|| self.choice(row, OF_MEMORY, 0, why(), &[])).or_else(|| self.shown(row))
    }

    /// Candidate for recall, if the command asks to show something other than a part of the service.
    fn shown(&self, row: &'static Row) -> Option<Choice> {
        let head = self.begins.head;
        let words = self.words.get(head..)?;
        let is_shown = ["show", "list", "give", "get", "bring"].contains(&words.first()?.as_str());
        let pieces = self.said.pieces.get(head + 1..)?;
        let are_words =
            pieces.iter().all(|piece| matches!(piece.sort, Sort::Word | Sort::Mark | Sort::Quote));
        let is_strange = self.has_strange_words(&Found { places: Vec::new() });
        let is_meant = is_shown && are_words && is_strange && words.len() >= QUESTION_WORDS_MIN;
        let why = "it asks to be shown what is remembered".to_owned();
        is_meant.then(|| self.choice(row, OF_MEMORY, 0, why, &[]))
    }

    fn choice(
        &self,
        row: &'static Row,
        sure: u8,
        size: usize,
        why: String,
        places: &[usize],
    ) -> Choice {
        let mut taking = Taking {
            said: self.said,
            words: &self.words,
            head: self.begins.head,
            places,
            now: self.now,
            arguments: Map::new(),
            needs: Vec::new(),
        };
        (row.route.take)(&mut taking);
        let (arguments, needs) = (taking.arguments, taking.needs);
        Choice { tool: row.route.tool, sure, why, arguments, needs, size, places: places.to_vec() }
    }

    /// Returns true if the command has an unknown word outside of the match.
    fn has_strange_words(&self, found: &Found) -> bool {
        let pieces = self.said.pieces.iter().enumerate().skip(self.begins.head);
        let mut beside = pieces.filter(|(at, _)| !found.places.contains(at));
        beside.any(|(at, piece)| match piece.sort {
            Sort::Quote => true,
            Sort::Word => {
                let word = self.words.get(at).unwrap_or(&piece.word);
                let has_digit = word.contains(|c: char| c.is_ascii_digit());
                !(has_digit
                    || routes::known().contains(word)
                    || is_of_service(word)
                    || is_of_time(word))
            }
            _ => false,
        })
    }

    /// Returns true if another write command follows the matched one.
    fn wants_more(&self, first: &Choice) -> bool {
        if routes::row_of(first.tool).is_none_or(|row| row.route.is_payload) {
            return false;
        }
        let is_in = |list: &str, word: &str| {
            !word.is_empty() && list.split_whitespace().any(|one| one == word)
        };
        let mut is_joined = false;
        let pieces = self.words.iter().zip(&self.said.pieces).enumerate();
        for (at, (word, piece)) in pieces.skip(self.begins.head + 1) {
            if is_joined && is_in(ORDERS, word) && !first.places.contains(&at) {
                return true;
            }
            let ends = piece.sort == Sort::Mark && matches!(piece.text.as_str(), ";" | "." | ",");
            is_joined = ends || is_in(JOINS, word);
        }
        false
    }

    /// Texts of the tokens at these indices.
    fn told(&self, places: &[usize]) -> String {
        let pieces = places.iter().filter_map(|&at| self.said.pieces.get(at));
        let texts: Vec<&str> = pieces.map(|piece| piece.text.as_str()).collect();
        texts.join(" ").chars().take(WHY_CHARS_MAX).collect()
    }
}

fn is_of_time(word: &str) -> bool {
    let names = recalld_recall::MONTHS.iter().chain(&recalld_recall::WEEKDAYS);
    names.chain(&["tomorrow", "tonight", "noon", "midnight"]).any(|name| *name == word)
}
