//! Path retriever: items in the files, or with the symbols, that a question names.
//!
//! Decides which items a name refers to, and with what score. Candidates of other retrievers in a named file score
//! highest, since the question is about that part of the file.

use std::collections::HashMap;

use engine::{RowAddress, SearchError, SourceId, Status};

use super::lane::Candidates;
use super::place::{Named, has_symbol, places_of};
use crate::means::Means;
use crate::route::Plan;
use recalld_fs_util::uri;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// File versions for one path; the newest are used.
    const SOURCES_MAX: usize = 16;
    /// Items that may have a name, up to which the name is a location. A name in more items is a word of the subject.
    const NAMED_ITEMS_MAX: usize = 8;
    /// Bytes of a text that are searched for a symbol.
    const TEXT_BYTES_LOOKED_AT: usize = 16 << 10;
}

/// Items of a file between two checks for cancellation.
const ITEMS_TOGETHER: usize = 4096;

/// Score of another retriever's candidate in a named file.
const SURE: f32 = 1.0;
/// Score of a file's own item.
const FILE: f32 = 0.8;
/// Score of another part of a named file.
const PART: f32 = 0.5;
/// Score of a title with the symbol, whose item is usually about the symbol. This score and the next were tuned on two
/// sets of questions about code (docs/recall.md).
const DEFINED: f32 = 0.2;
/// Score of a text with the symbol, as in every caller of a function.
const TEXT: f32 = 0.02;
/// Score of a title with the path. The full-text score counts the path's words already, and prose often contains
/// path-like words (`insulin/insulin-like`). So this score and the next only break near ties.
const TITLE: f32 = 0.05;
/// Score of a text that mentions the path.
const MENTION: f32 = 0.01;

/// Returns true if the score is that of an item at a named location. A mere mention of a path-like word does not
/// qualify, as prose often has path-like words.
pub(super) fn lies_there(score: f32) -> bool {
    [TITLE, MENTION].iter().all(|mentions| mentions.total_cmp(&score).is_ne())
}

/// Returns the items that the question's names refer to, highest score first: all candidates of other retrievers among
/// them, and as many others as the candidate limit.
pub(super) fn find(
    means: &Means<'_>,
    plan: &Plan,
    named: &Named,
    others: &[Candidates],
) -> Result<Vec<(RowAddress, f32)>, SearchError> {
    let mut found = Found::default();
    let sources = sources(means, plan, named)?;
    let mut others: Vec<RowAddress> =
        others.iter().flat_map(|lane| &lane.found).map(|&(place, _)| place).collect();
    others.sort_unstable();
    others.dedup();
    for &place in &others {
        let item = means.snapshot.item(place)?;
        if item.source.is_some_and(|source| sources.contains(&source)) {
            found.add(place, SURE);
        }
    }
    for &source in &sources {
        add_file(means, plan, source, &mut found)?;
    }
    let symbols = named.symbols.iter().map(|symbol| (symbol, true));
    let paths = named.paths.iter().map(|path| (path, false));
    for (name, is_symbol) in symbols.chain(paths) {
        means.snapshot.check_cancelled()?;
        add_naming(means, plan, (name, is_symbol), &others, &mut found)?;
    }
    let mut places: Vec<(RowAddress, f32)> = found.scores.into_iter().collect();
    places.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut more = 0;
    places.retain(|(place, _)| {
        more += usize::from(others.binary_search(place).is_err());
        others.binary_search(place).is_ok() || more <= plan.bounds.candidate_limit
    });
    Ok(places)
}

#[derive(Default)]
struct Found {
    scores: HashMap<RowAddress, f32>,
}

impl Found {
    /// Keeps the highest score of a row.
    fn add(&mut self, place: RowAddress, score: f32) {
        let known = self.scores.entry(place).or_insert(score);
        *known = known.max(score);
    }

    /// Returns true if no higher score is possible.
    fn is_sure(&self, place: RowAddress) -> bool {
        self.scores.get(&place).is_some_and(|&score| score >= SURE)
    }
}

/// Returns the named files, possibly by a suffix of the path, that have items to return.
fn sources(means: &Means<'_>, plan: &Plan, named: &Named) -> Result<Vec<SourceId>, SearchError> {
    let mut sources = Vec::new();
    for path in &named.paths {
        // Matches in the encoding of file URIs, beginning at a path component.
        let uri = uri::of_path(&format!("/{}", path.trim_start_matches('/')));
        let ending = uri.trim_start_matches("file://");
        let has_items = |source| Ok(!items_of(means, plan, source, 1)?.is_empty());
        for source in means.snapshot.sources_by_uri_suffix(ending, SOURCES_MAX, has_items)? {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    Ok(sources)
}

/// Returns the first `limit` current items of a file version that the caller may find. Other items count for nothing,
/// so their number does not leak.
fn items_of(
    means: &Means<'_>,
    plan: &Plan,
    source: SourceId,
    limit: usize,
) -> Result<Vec<RowAddress>, SearchError> {
    let mut items = Vec::new();
    for (at, place) in means.snapshot.items_by_source(source)?.into_iter().enumerate() {
        if items.len() == limit {
            break;
        }
        if at.is_multiple_of(ITEMS_TOGETHER) {
            means.snapshot.check_cancelled()?;
        }
        if means.snapshot.admits(&plan.filter, place)?
            && means.snapshot.status(place)? == Status::Current
        {
            items.push(place);
        }
    }
    Ok(items)
}

fn add_file(
    means: &Means<'_>,
    plan: &Plan,
    source: SourceId,
    found: &mut Found,
) -> Result<(), SearchError> {
    for place in items_of(means, plan, source, plan.bounds.candidate_limit)? {
        let is_file = means.snapshot.item(place)?.kind == "document";
        found.add(place, if is_file { FILE } else { PART });
    }
    Ok(())
}

/// Adds the items with a name, unless there are many. Candidates are the full-text hits for the name, and those of
/// other retrievers. `is_symbol` is false for a path.
fn add_naming(
    means: &Means<'_>,
    plan: &Plan,
    (name, is_symbol): (&str, bool),
    others: &[RowAddress],
    found: &mut Found,
) -> Result<(), SearchError> {
    let (in_title, in_text) = if is_symbol { (DEFINED, TEXT) } else { (TITLE, MENTION) };
    let limit = plan.bounds.candidate_limit;
    let hits = means.snapshot.search_words(name, limit, &plan.filter)?;
    let mut places: Vec<RowAddress> = hits.into_iter().map(|hit| hit.address).collect();
    places.extend_from_slice(others);
    places.sort_unstable();
    places.dedup();
    places.retain(|&place| means.goes_by(plan, place) && !found.is_sure(place));
    let mut having = Vec::new();
    for place in places {
        let item = means.snapshot.item(place)?;
        let text = &item.text[..item.text.floor_char_boundary(TEXT_BYTES_LOOKED_AT)];
        if has_symbol(item.title, name) || is_symbol && has_path_of(item.title, name) {
            having.push((place, in_title));
        } else if has_symbol(text, name) {
            having.push((place, in_text));
        }
        if having.len() > NAMED_ITEMS_MAX {
            return Ok(());
        }
    }
    for (place, score) in having {
        found.add(place, score);
    }
    Ok(())
}

/// Returns true if the title has the parts of `Store::open` or `Store.open` in order, with only separators between
/// them. Headings of code have the form `Store > open`.
fn has_path_of(title: &str, symbol: &str) -> bool {
    let mut parts = symbol.split([':', '.']).filter(|part| !part.is_empty());
    let (Some(first), true) = (parts.next(), symbol.contains([':', '.'])) else { return false };
    places_of(title, first).any(|at| {
        let rest = &title[at + first.len()..];
        parts.clone().try_fold(rest, behind).is_some()
    })
}

/// Returns the rest of a title after a symbol's part, if only a separator precedes the part.
fn behind<'a>(rest: &'a str, part: &str) -> Option<&'a str> {
    let at = places_of(rest, part).next()?;
    let between = &rest[..at];
    let joins = matches!(between, "." | "::" | "#" | "/") || between.trim() == ">";
    joins.then_some(&rest[at + part.len()..])
}

#[cfg(test)]
mod tests {
    use super::super::passes::tests::store;
    use super::*;

    #[test]
    fn a_title_has_the_parts_of_a_symbol() {
        let title = "decoder > JSONDecoder > raw_decode";
        for symbol in ["JSONDecoder.raw_decode", "JSONDecoder::raw_decode", "decoder.JSONDecoder"] {
            assert!(has_path_of(title, symbol), "{symbol}");
        }
        for symbol in ["JSONDecoder.decode", "raw_decode", "Other::raw_decode", "::", "."] {
            assert!(!has_path_of(title, symbol), "{symbol}");
        }
        for symbol in ["raw_decode.JSONDecoder", "decoder::raw_decode", "decode.JSONDecoder"] {
            assert!(!has_path_of(title, symbol), "{symbol}");
        }
        assert!(has_path_of("Stores > open > Store#open", "Store.open"));
        for title in
            ["How much time to sleep", "A time, sleep, a time.", "time sleep", "timers > sleep"]
        {
            assert!(!has_path_of(title, "time.sleep"), "{title}");
        }
    }

    #[test]
    fn the_surest_of_what_is_said_of_a_place_stands() {
        let (_folder, store) = store(1);
        let place = store.snapshot().item_addresses().unwrap().next().unwrap();
        let mut found = Found::default();
        for (score, stands) in [(MENTION, MENTION), (TEXT, TEXT), (MENTION, TEXT), (SURE, SURE)] {
            assert!(!found.is_sure(place));
            found.add(place, score);
            assert!((found.scores[&place] - stands).abs() < f32::EPSILON);
        }
        assert!(found.is_sure(place));
    }
}
