//! Routing: recognizes the topics of a question, and the parts about something else.
//!
//! A part of a question is about the service if all of its words are known, and some match a pattern. An unknown word,
//! such as a name, means that the part is about stored memories; the part then stays unanswered.

use crate::topics::{TOPICS, Topic, Weight};
use crate::words::{self, ORDERS, Word, is_of_memory};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Parts of a question that are parsed.
    const PARTS_MAX: usize = 8;
    /// Topics of one question.
    const TOPICS_MAX: usize = 8;
}

/// Topic of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMatch {
    /// The topic.
    pub topic: Topic,
    /// Name of the topic, as users ask for it.
    pub name: &'static str,
    /// Words of the matching pattern, with misspellings corrected.
    pub because: Vec<String>,
    /// All words of the part.
    pub words: Vec<String>,
}

/// Part of a question about something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherPart {
    /// Text of the part.
    pub part: String,
    /// Reason why the part is about something else; empty for a part without meaning by itself.
    pub why: String,
    /// Tool that may answer the part.
    pub tool: &'static str,
}

/// Result of parsing a question.
#[derive(Debug, Default)]
pub struct ParsedQuestion {
    /// Topics of the question.
    pub topics: Vec<TopicMatch>,
    /// Parts about something else.
    pub others: Vec<OtherPart>,
    /// True if a limit excluded a part of the question.
    pub truncated: bool,
}

/// Parses a question. `kinds` are the kinds of items in the store.
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
    // A part without meaning by itself is dropped if other parts have a topic.
    found.others.retain(|other| !other.why.is_empty() || found.topics.is_empty());
    found.truncated |= found.topics.len() > TOPICS_MAX;
    found.topics.truncate(TOPICS_MAX);
    found
}

/// Returns the topics of a question that is about the service only, `None` for any other question.
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

/// Returns the tool for a part that is a command.
fn order(words: &[Word]) -> Option<&'static str> {
    const POLITE: [&str; 8] = ["please", "pls", "can", "could", "would", "you", "kindly", "lets"];
    let first = words.iter().find(|word| !POLITE.contains(&word.written.as_str()))?;
    // A single word, or a noun before a counted thing, is no command.
    let is_noun = words
        .iter()
        .any(|word| ["count", "number", "status", "latency", "time"].contains(&word.stem.as_str()));
    let order = ORDERS.iter().find(|(word, _)| *word == first.written)?;
    (!is_noun && words.len() > 1).then_some(order.1)
}

/// Returns the topics whose patterns have the greatest weight in the part.
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
