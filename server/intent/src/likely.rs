//! Fallback suggestions: tools whose descriptions share words with the command, if no pattern matches. A suggestion has
//! low confidence, and is never executed.

use std::collections::BTreeSet;

use crate::said::{Said, Sort};
use recalld_tool_framework::Tool;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Suggested tools.
    const NAMED_MAX: usize = 3;
}

/// Fewest letters of a counted word.
const WORD_CHARS_MIN: usize = 4;
/// Score of a shared word in a tool's title, and in its description.
const OF_TITLE: u8 = 8;
const OF_TEXT: u8 = 3;
/// Highest confidence of a suggestion, out of 100.
const SURE_MAX: u8 = 29;
/// Stop words.
const EMPTY: &str = "this that with from have what which when where there their them they then than into your what \
                     whether please does make made want need should would could will about each only more most";

fn words(text: &str) -> BTreeSet<String> {
    let said = Said::of(text);
    let words = said.pieces.into_iter().filter(|piece| piece.sort == Sort::Word);
    let words = words.map(|piece| piece.word).filter(|word| word.len() >= WORD_CHARS_MIN);
    words.filter(|word| !EMPTY.split_whitespace().any(|empty| empty == word)).collect()
}

/// Suggests the tools that share the most words with a command. Returns for each the name, the confidence out of 100,
/// and the reason.
pub fn likely(
    text: &str,
    tools: impl Iterator<Item = &'static Tool>,
) -> Vec<(&'static str, u8, String)> {
    let wanted = words(text);
    let mut found: Vec<(&'static str, u8, String)> = tools
        .filter_map(|tool| {
            let title = words(tool.title);
            let about = words(tool.about);
            let shared = |of: &BTreeSet<String>| {
                u8::try_from(wanted.intersection(of).count()).unwrap_or(u8::MAX)
            };
            let sure = shared(&title).saturating_mul(OF_TITLE);
            let sure = sure.saturating_add(shared(&about).saturating_mul(OF_TEXT)).min(SURE_MAX);
            let both: Vec<&str> = wanted
                .iter()
                .filter(|word| title.contains(*word) || about.contains(*word))
                .map(String::as_str)
                .collect();
            (sure > 0).then(|| (tool.name, sure, format!("its row has: {}", both.join(", "))))
        })
        .collect();
    found.sort_by_key(|(name, sure, _)| (std::cmp::Reverse(*sure), *name));
    found.truncate(NAMED_MAX);
    found
}
