//! Nearest neighbours of an item, by vector and by words, for the duplicate and contradiction scans.

use engine::{Filter, ItemView, RowAddress, Snapshot};
use serde::Serialize;

use recalld_common::names;
use recalld_common::own_kinds;
use recalld_tool_framework::{ServiceError, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum characters of a text used as a full-text query.
    const QUERY_CHARS_MAX: usize = 600;
    /// Maximum characters of a title and of a text in a result.
    const TITLE_CHARS_MAX: usize = 120;
    const SHOWN_CHARS_MAX: usize = 300;
}

/// Returns true for user content. Records of the service describe its own state, so they are not compared.
pub(super) fn says_something(item: &ItemView<'_>) -> bool {
    own_kinds::says_something(item.kind)
}

/// Items nearest to an item: at most `count` by vector and `count` by words, with the cosine if known. The item itself
/// is excluded.
///
/// # Errors
/// Returns an error if the store is damaged or the call is over.
pub(super) fn nearest(
    context: &ToolContext<'_>,
    snapshot: &Snapshot,
    (place, item): (RowAddress, &ItemView<'_>),
    count: usize,
    all: &Filter,
) -> Result<Vec<(RowAddress, Option<f32>)>, ServiceError> {
    let mut found: Vec<(RowAddress, Option<f32>)> = Vec::new();
    if let Some(embedding) = snapshot.embedding(place)? {
        let query: Vec<f32> = embedding.iter().map(|number| number.to_f32()).collect();
        let kernels = &context.services.encoding.kernels;
        let hits = snapshot.nearest(kernels, &query, count + 1, all)?;
        found.extend(hits.into_iter().map(|hit| (hit.address, Some(hit.score))));
    }
    let words: String = item.text.chars().take(QUERY_CHARS_MAX).collect();
    for hit in snapshot.search_words(&words, count + 1, all)? {
        if !found.iter().any(|(known, _)| *known == hit.address) {
            found.push((hit.address, None));
        }
    }
    found.retain(|(other, _)| *other != place);
    Ok(found)
}

/// Summary of a readable item, with or without its text.
#[derive(Debug, Serialize)]
pub(super) struct ComparedFacts<'s> {
    id: String,
    kind: &'s str,
    title: String,
    recorded_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl<'s> ComparedFacts<'s> {
    pub(super) fn without_text(item: &ItemView<'s>) -> Self {
        Self {
            id: names::of_item(item),
            kind: item.kind,
            title: cut(item.title, TITLE_CHARS_MAX),
            recorded_at: names::time(item.recorded_at),
            text: None,
        }
    }

    pub(super) fn with_text(item: &ItemView<'s>) -> Self {
        Self { text: Some(cut(item.text, SHOWN_CHARS_MAX)), ..Self::without_text(item) }
    }
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}
