use serde::Serialize;

use crate::facts::Fact;
use crate::topics::TOPICS;

/// A part of a question that stays unanswered.
#[derive(Debug, Serialize)]
pub struct Unanswered<'q> {
    /// Text of the part, or its topic.
    pub part: &'q str,
    /// Reason why the part stays unanswered.
    pub why: &'q str,
    /// Tool that may answer the part, if the caller may use the tool.
    #[serde(rename = "use", skip_serializing_if = "Option::is_none")]
    pub tool: Option<&'static str>,
}

/// Returns the tools and counters that the facts come from, without repetitions.
pub fn from(facts: &[Fact]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for fact in facts {
        let tool = fact.from.split('.').next().unwrap_or_default();
        if !names.contains(&tool) {
            names.push(tool);
        }
    }
    names.join(", ")
}

/// Composes the answer from the phrases and the unanswered parts. If `truncated`, a limit excluded parts of the
/// question.
pub fn sentence(phrases: &[String], unanswered: &[Unanswered<'_>], truncated: bool) -> String {
    let mut text = phrases.join("; ");
    if let Some(first) = text.get(..1) {
        text = format!("{}{}.", first.to_uppercase(), &text[1..]);
    }
    if !unanswered.is_empty() || phrases.is_empty() {
        let parts = unanswered.iter().map(|Unanswered { part, why, tool }| {
            let tool = tool.map(|tool| format!("; try {tool}")).unwrap_or_default();
            format!("\"{part}\" ({why}{tool})")
        });
        let parts: Vec<String> = parts.collect();
        let parts = if parts.is_empty() { "what is asked".to_owned() } else { parts.join(", ") };
        text.push_str(&format!("{}I can't tell: {parts}.", if text.is_empty() { "" } else { " " }));
    }
    if phrases.is_empty() {
        let names: Vec<&str> = TOPICS.iter().map(|row| row.name).collect();
        text.push_str(&format!(" Ask about: {}.", names.join(", ")));
    }
    if truncated {
        text.push_str(" The question has more parts than one answer; ask for the rest by itself.");
    }
    text
}
