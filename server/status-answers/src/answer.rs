use serde_json::Value;

use crate::topics::TOPICS;

/// Returns the tools and counters that the facts come from, without repetitions.
pub fn from(facts: &[Value]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for fact in facts {
        let from = fact["from"].as_str().unwrap_or_default();
        let tool = from.split('.').next().unwrap_or_default();
        if !names.contains(&tool) {
            names.push(tool);
        }
    }
    names.join(", ")
}

/// Composes the answer from the phrases and the unanswered parts. If `truncated`, a limit excluded parts of the
/// question.
pub fn sentence(phrases: &[String], unanswered: &[Value], truncated: bool) -> String {
    let mut text = phrases.join("; ");
    if let Some(first) = text.get(..1) {
        text = format!("{}{}.", first.to_uppercase(), &text[1..]);
    }
    if !unanswered.is_empty() || phrases.is_empty() {
        let parts = unanswered.iter().map(|left| {
            let word = |name: &str| left[name].as_str().unwrap_or_default();
            let tool = left["use"].as_str().map(|tool| format!("; try {tool}")).unwrap_or_default();
            format!("\"{}\" ({}{tool})", word("part"), word("why"))
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
