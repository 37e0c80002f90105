//! The place lane: the items of the files, and under the symbols, that a question names.
//!
//! Owns which items a name leads to, and how sure that is. What other lanes found at a named place
//! counts most, since the question is about that part of it.

use std::collections::HashMap;

use engine::{Place, SearchError, SourceId, Status};

use super::lane::Candidates;
use super::place::{Named, has_symbol, places_of};
use crate::means::Means;
use crate::route::Plan;
use recalld_fs_util::uri;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Versions of files that one path leads to; the newest are taken.
    const SOURCES_MAX: usize = 16;
    /// Items that may have a name for it to lead to them; what more of them have is a word of the subject
    /// rather than the name of a place.
    const NAMED_ITEMS_MAX: usize = 8;
    /// Bytes of a text in which a symbol is looked for.
    const TEXT_BYTES_LOOKED_AT: usize = 16 << 10;
}

/// Items of a file that are looked at between two looks at whether the answer is still wanted.
const ITEMS_TOGETHER: usize = 4096;

/// What other lanes found at a named place.
const SURE: f32 = 1.0;
/// A file's own item.
const FILE: f32 = 0.8;
/// Another part of a named file.
const PART: f32 = 0.5;
/// A title that has the symbol: what is asked of it is more often about it than about something else. By two
/// sets of questions about code (docs/recall.md), as is the next.
const DEFINED: f32 = 0.2;
/// A text that has the symbol: whatever calls it does.
const TEXT: f32 = 0.02;
/// A title that has the path. Its words count already, and much prose has what looks like a path
/// (`insulin/insulin-like`), so this and a mention only decide between items that are nearly as good.
const TITLE: f32 = 0.05;
/// A text that mentions the path.
const MENTION: f32 = 0.01;

/// Whether a score of this lane says that an item lies at a place that is named. What merely mentions something that
/// looks like a path does not: much prose does.
pub(super) fn lies_there(score: f32) -> bool {
    [TITLE, MENTION].iter().all(|mentions| mentions.total_cmp(&score).is_ne())
}

/// What the names of a question lead to, the surest first: all of what other lanes found, and as many more
/// as a lane hands on.
pub(super) fn find(
    means: &Means<'_>,
    plan: &Plan,
    named: &Named,
    others: &[Candidates],
) -> Result<Vec<(Place, f32)>, SearchError> {
    let mut found = Found::default();
    let sources = sources(means, plan, named)?;
    let mut others: Vec<Place> =
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
        means.snapshot.check()?;
        add_naming(means, plan, (name, is_symbol), &others, &mut found)?;
    }
    let mut places: Vec<(Place, f32)> = found.scores.into_iter().collect();
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
    scores: HashMap<Place, f32>,
}

impl Found {
    /// The surest of what is said of a place stands.
    fn add(&mut self, place: Place, score: f32) {
        let known = self.scores.entry(place).or_insert(score);
        *known = known.max(score);
    }

    /// Whether nothing surer can be said of a place.
    fn is_sure(&self, place: Place) -> bool {
        self.scores.get(&place).is_some_and(|&score| score >= SURE)
    }
}

/// The files that are named, be it by the end of their path, and that have something to give.
fn sources(means: &Means<'_>, plan: &Plan, named: &Named) -> Result<Vec<SourceId>, SearchError> {
    let mut sources = Vec::new();
    for path in &named.paths {
        // As the uri of a file spells it, from the start of a name on.
        let uri = uri::of_path(&format!("/{}", path.trim_start_matches('/')));
        let ending = uri.trim_start_matches("file://");
        let has_items = |source| Ok(!items_of(means, plan, source, 1)?.is_empty());
        for source in means.snapshot.sources_ending(ending, SOURCES_MAX, has_items)? {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    Ok(sources)
}

/// The first `limit` current items of one version of a file that the caller may find. What else it has
/// counts for nothing: nobody could tell how much that is.
fn items_of(
    means: &Means<'_>,
    plan: &Plan,
    source: SourceId,
    limit: usize,
) -> Result<Vec<Place>, SearchError> {
    let mut items = Vec::new();
    for (at, place) in means.snapshot.items_of_source(source)?.into_iter().enumerate() {
        if items.len() == limit {
            break;
        }
        if at.is_multiple_of(ITEMS_TOGETHER) {
            means.snapshot.check()?;
        }
        if means.snapshot.admits(&plan.filter, place)?
            && means.snapshot.status(place)? == Status::Current
        {
            items.push(place);
        }
    }
    Ok(items)
}

/// The current items of one version of a file.
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

/// Items that have a name, among those that its words lead to and what other lanes found, unless they
/// are many. Beside the name stands whether it is a symbol, and no path.
fn add_naming(
    means: &Means<'_>,
    plan: &Plan,
    (name, is_symbol): (&str, bool),
    others: &[Place],
    found: &mut Found,
) -> Result<(), SearchError> {
    let (in_title, in_text) = if is_symbol { (DEFINED, TEXT) } else { (TITLE, MENTION) };
    let limit = plan.bounds.candidate_limit;
    let hits = means.snapshot.search_words(name, limit, &plan.filter)?;
    let mut places: Vec<Place> = hits.into_iter().map(|hit| hit.place).collect();
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

/// Whether a title has the parts of `Store::open` or `Store.open` in their order and with nothing but what joins
/// them between, as headings of code do: `Store > open`.
fn has_path_of(title: &str, symbol: &str) -> bool {
    let mut parts = symbol.split([':', '.']).filter(|part| !part.is_empty());
    let (Some(first), true) = (parts.next(), symbol.contains([':', '.'])) else { return false };
    places_of(title, first).any(|at| {
        let rest = &title[at + first.len()..];
        parts.clone().try_fold(rest, behind).is_some()
    })
}

/// What stands in a title behind a part of a symbol, if what joins it to the part before is all that stands before it.
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
        let place = store.snapshot().places().unwrap().next().unwrap();
        let mut found = Found::default();
        for (score, stands) in [(MENTION, MENTION), (TEXT, TEXT), (MENTION, TEXT), (SURE, SURE)] {
            assert!(!found.is_sure(place));
            found.add(place, score);
            assert!((found.scores[&place] - stands).abs() < f32::EPSILON);
        }
        assert!(found.is_sure(place));
    }
}
