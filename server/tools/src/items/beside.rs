//! What an item is held against: those nearest to it, by meaning and by words; and how both are shown.
//!
//! Owns which items say something that can be compared at all. Knows nothing of what is looked for.

use engine::{Filter, ItemView, Place, Snapshot};
use serde_json::{Value, json};

use recalld_common::names;
use recalld_common::own_kinds;
use recalld_tool_framework::{Context, ServiceError};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Characters of a text by whose words others are looked for.
    const QUERY_CHARS_MAX: usize = 600;
    /// Characters of a title and of a text that are shown.
    const TITLE_CHARS_MAX: usize = 120;
    const SHOWN_CHARS_MAX: usize = 300;
}

/// Records of the service say how things stand with it, and not what is so.
pub(super) fn says_something(item: &ItemView<'_>) -> bool {
    own_kinds::says_something(item.kind)
}

/// The items nearest to one, at most `count` by meaning and as many by words, with the cosine where it is known;
/// itself not among them.
///
/// # Errors
/// Damage, or the call is over.
pub(super) fn nearest(
    context: &Context<'_>,
    snapshot: &Snapshot,
    (place, item): (Place, &ItemView<'_>),
    count: usize,
    all: &Filter,
) -> Result<Vec<(Place, Option<f32>)>, ServiceError> {
    let mut found: Vec<(Place, Option<f32>)> = Vec::new();
    if let Some(embedding) = snapshot.embedding(place)? {
        let query: Vec<f32> = embedding.iter().map(|number| number.to_f32()).collect();
        let kernels = &context.services.encoding.kernels;
        let hits = snapshot.nearest(kernels, &query, count + 1, all)?;
        found.extend(hits.into_iter().map(|hit| (hit.place, Some(hit.score))));
    }
    let words: String = item.text.chars().take(QUERY_CHARS_MAX).collect();
    for hit in snapshot.search_words(&words, count + 1, all)? {
        if !found.iter().any(|(known, _)| *known == hit.place) {
            found.push((hit.place, None));
        }
    }
    found.retain(|(other, _)| *other != place);
    Ok(found)
}

/// An item that the caller reads, as `{id, kind, title, recorded_at}`.
pub(super) fn without_text(item: &ItemView<'_>) -> Value {
    json!({
        "id": names::of_item(item), "kind": item.kind, "title": cut(item.title, TITLE_CHARS_MAX),
        "recorded_at": names::time(item.recorded_at),
    })
}

/// The same with `text`.
pub(super) fn with_text(item: &ItemView<'_>) -> Value {
    let mut shown = without_text(item);
    shown["text"] = cut(item.text, SHOWN_CHARS_MAX).into();
    shown
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}
