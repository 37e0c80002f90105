//! Which topics a question is about, and why; what of it is about something else.
//!
//! Owns the decision. A part of a question is about the state of the service where all of its words are known, and
//! some of them are a cue. A word that nobody here knows, such as a name, means that it is about what is remembered:
//! that is not answered rather than guessed.

use crate::topics::{TOPICS, Topic, Weight};
use crate::words::{self, ORDERS, Word, is_of_memory};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Parts of a question that are looked at.
    const PARTS_MAX: usize = 8;
    /// Topics of one question.
    const TOPICS_MAX: usize = 8;
}

/// A topic that is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMatch {
    /// Which.
    pub topic: Topic,
    /// Its name, as people ask for it.
    pub name: &'static str,
    /// The words that say so, as they are understood.
    pub because: Vec<String>,
    /// All words of its part.
    pub words: Vec<String>,
}

/// A part that is about something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherPart {
    /// Its words.
    pub part: String,
    /// Why it is about something else; empty where it says nothing by itself.
    pub why: String,
    /// The tool that may help.
    pub tool: &'static str,
}

/// What a question is about.
#[derive(Debug, Default)]
pub struct ParsedQuestion {
    /// The topics that it asks about.
    pub topics: Vec<TopicMatch>,
    /// Its parts that are about something else.
    pub others: Vec<OtherPart>,
    /// Whether a bound left some of it out.
    pub truncated: bool,
}

/// Understands a question. `kinds` are those of items that the store has.
pub fn understand(question: &str, kinds: &[String]) -> ParsedQuestion {
    let mut found = ParsedQuestion::default();
    let parts = words::parts(question, kinds);
    found.truncated = parts.len() > PARTS_MAX;
    for (text, words) in parts.into_iter().take(PARTS_MAX) {
        match of_part(&text, &words, kinds) {
            Ok(meant) => {
                for meant in meant {
                    if !found.topics.iter().any(|known| known.topic == meant.topic) {
                        found.topics.push(meant);
                    }
                }
            }
            Err(other) => found.others.push(other),
        }
    }
    // What says nothing by itself is no question where something else was asked.
    found.others.retain(|other| !other.why.is_empty() || found.topics.is_empty());
    found.truncated |= found.topics.len() > TOPICS_MAX;
    found.topics.truncate(TOPICS_MAX);
    found
}

/// The topics of a question that is about the service, and about nothing else.
pub fn topics_of(question: &str, kinds: &[String]) -> Option<Vec<&'static str>> {
    let understood = understand(question, kinds);
    let is_all = understood.others.is_empty() && !understood.topics.is_empty();
    is_all.then(|| understood.topics.iter().map(|meant| meant.name).collect())
}

fn of_part(text: &str, words: &[Word], kinds: &[String]) -> Result<Vec<TopicMatch>, OtherPart> {
    let other = |why: String, tool| Err(OtherPart { part: text.to_owned(), why, tool });
    if let Some(tool) = order(words) {
        return other("it wants something done or found".to_owned(), tool);
    }
    let unknown: Vec<&str> =
        words.iter().filter(|word| !word.is_known).map(|word| word.written.as_str()).collect();
    if !unknown.is_empty() {
        let why = format!("nothing is known here of: {}", unknown.join(", "));
        return other(why, "retrieval_arbitrate_tool");
    }
    if is_of_memory(words) {
        let why = "it asks what somebody said or did".to_owned();
        return other(why, "retrieval_arbitrate_tool");
    }
    let meant = heaviest(words, kinds);
    if meant.is_empty() { other(String::new(), "retrieval_arbitrate_tool") } else { Ok(meant) }
}

/// The tool that does what a part wants done.
fn order(words: &[Word]) -> Option<&'static str> {
    const POLITE: [&str; 8] = ["please", "pls", "can", "could", "would", "you", "kindly", "lets"];
    let first = words.iter().find(|word| !POLITE.contains(&word.written.as_str()))?;
    // One word alone, or a noun with what is counted behind it, is no order.
    let is_noun = words
        .iter()
        .any(|word| ["count", "number", "status", "latency", "time"].contains(&word.stem.as_str()));
    let order = ORDERS.iter().find(|(word, _)| *word == first.written)?;
    (!is_noun && words.len() > 1).then_some(order.1)
}

/// The topics whose cue is the heaviest of the part.
fn heaviest(words: &[Word], kinds: &[String]) -> Vec<TopicMatch> {
    let stems: Vec<&str> = words.iter().map(|word| word.stem.as_str()).collect();
    let mut found = Vec::new();
    for row in TOPICS {
        let mut cues: Vec<_> = row
            .cues
            .iter()
            .filter(|(cue, _)| cue.split(' ').all(|word| stems.contains(&word)))
            .collect();
        cues.sort_by_key(|(cue, weight)| (*weight, cue.len()));
        if let Some((cue, weight)) = cues.last() {
            let because: Vec<String> = cue.split(' ').map(str::to_owned).collect();
            found.push((*weight, row.topic, row.name, because));
        }
    }
    let of_store = stems.iter().find(|stem| kinds.iter().any(|kind| kind == *stem));
    if let Some(kind) =
        of_store.filter(|_| !found.iter().any(|(_, topic, ..)| *topic == Topic::Kinds))
    {
        found.push((Weight::Plain, Topic::Kinds, "kinds", vec![(*kind).to_owned()]));
    }
    let most = found.iter().map(|(weight, ..)| *weight).max();
    let heaviest = found.into_iter().filter(|(weight, ..)| Some(*weight) == most);
    let words: Vec<String> = stems.iter().map(|stem| (*stem).to_owned()).collect();
    heaviest
        .map(|(_, topic, name, because)| TopicMatch { topic, name, because, words: words.clone() })
        .collect()
}
