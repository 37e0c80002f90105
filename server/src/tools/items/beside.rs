//! What an item is held against: those nearest to it, by meaning and by words.
//!
//! Owns which items say something that can be compared at all. Knows nothing of what is looked for.

use engine::{Filter, ItemView, Place, Snapshot};

use crate::tools::records::OWN_KINDS;
use crate::tools::{Context, ToolError};

/// Characters of a text by whose words others are looked for.
const QUERY_CHARS_MAX: usize = 600;
/// Pieces of documents are the one of its own kinds that says something by itself.
pub(super) const CHUNK: &str = "chunk";

/// Records of the service say how things stand with it, and not what is so.
pub(super) fn says_something(item: &ItemView<'_>) -> bool {
    item.kind == CHUNK || !OWN_KINDS.contains(&item.kind)
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
) -> Result<Vec<(Place, Option<f32>)>, ToolError> {
    let mut found: Vec<(Place, Option<f32>)> = Vec::new();
    if let Some(embedding) = snapshot.embedding(place)? {
        let query: Vec<f32> = embedding.iter().map(|number| number.to_f32()).collect();
        let kernels = &context.parts.encoding.kernels;
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
