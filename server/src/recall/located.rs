//! The place lane: the items of the files, and under the symbols, that a question names.
//!
//! Owns which items a name leads to, and how sure that is. What other lanes found at a named place
//! counts most, since the question is about that part of it.

use std::collections::HashSet;

use engine::{Place, SearchError, SourceId};

use super::lanes::Candidates;
use super::place::{Named, has_symbol};
use super::{Means, Plan};
use crate::ingest;

/// Versions of files that one path leads to; the newest are taken.
const SOURCES_MAX: usize = 16;
/// Items of one file that are looked at.
const ITEMS_LOOKED_AT_MAX: usize = 4096;
/// Bytes of a text in which a symbol is looked for.
const TEXT_BYTES_LOOKED_AT: usize = 16 << 10;

/// What other lanes found at a named place, or what stands under a name as its heading.
const SURE: f32 = 1.0;
/// A file's own item.
const FILE: f32 = 0.8;
/// Another part of a named file.
const PART: f32 = 0.5;
/// Another title that has the name. Its words count already, and much prose has names that look like code
/// (`mRNA`), so this and a mention only decide between items that are nearly as good.
const TITLE: f32 = 0.05;
/// A text that has it.
const MENTION: f32 = 0.01;

/// What the names of a question lead to, the surest first.
pub(super) fn find(
    means: &Means<'_>,
    plan: &Plan,
    named: &Named,
    others: &[Candidates],
) -> Result<Vec<(Place, f32)>, SearchError> {
    let mut found = Found { places: Vec::new(), known: HashSet::new() };
    let sources = sources(means, named)?;
    for &(place, _) in others.iter().flat_map(|lane| &lane.found) {
        let item = means.snapshot.item(place)?;
        if item.source.is_some_and(|source| sources.contains(&source)) {
            found.add(place, SURE);
        }
    }
    for &source in &sources {
        add_file(means, plan, source, &mut found)?;
    }
    for name in named.symbols.iter().chain(&named.paths) {
        add_naming(means, plan, name, others, &mut found)?;
    }
    let mut places = found.places;
    places.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    places.truncate(plan.bounds.candidate_limit);
    Ok(places)
}

struct Found {
    places: Vec<(Place, f32)>,
    known: HashSet<Place>,
}

impl Found {
    /// The surest of what is said of a place comes first, so it stands.
    fn add(&mut self, place: Place, score: f32) {
        if self.known.insert(place) {
            self.places.push((place, score));
        }
    }
}

/// The files that are named, be it by the end of their path.
fn sources(means: &Means<'_>, named: &Named) -> Result<Vec<SourceId>, SearchError> {
    let mut sources = Vec::new();
    for path in &named.paths {
        // As the uri of a file spells it, from the start of a name on.
        let uri = ingest::uri::of_path(&format!("/{}", path.trim_start_matches('/')));
        let ending = uri.trim_start_matches("file://");
        for source in means.snapshot.sources_ending(ending, SOURCES_MAX)? {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    Ok(sources)
}

/// The current items of one version of a file.
fn add_file(
    means: &Means<'_>,
    plan: &Plan,
    source: SourceId,
    found: &mut Found,
) -> Result<(), SearchError> {
    let mut parts = 0;
    for place in means.snapshot.items_of_source(source)?.into_iter().take(ITEMS_LOOKED_AT_MAX) {
        if parts == plan.bounds.candidate_limit {
            break;
        }
        if means.snapshot.admits(&plan.filter, place)?
            && means.snapshot.status(place)? == engine::Status::Current
        {
            let is_file = means.snapshot.item(place)?.kind == "document";
            found.add(place, if is_file { FILE } else { PART });
            parts += 1;
        }
    }
    means.snapshot.check()
}

/// Items that have a name, among those that its words lead to and what other lanes found.
fn add_naming(
    means: &Means<'_>,
    plan: &Plan,
    name: &str,
    others: &[Candidates],
    found: &mut Found,
) -> Result<(), SearchError> {
    let limit = plan.bounds.candidate_limit;
    let hits = means.snapshot.search_words(name, limit, &plan.filter)?;
    let others = others.iter().flat_map(|lane| &lane.found).map(|&(place, _)| place);
    for place in hits.into_iter().map(|hit| hit.place).chain(others) {
        if !means.reads(place) {
            continue;
        }
        let item = means.snapshot.item(place)?;
        let text = &item.text[..item.text.floor_char_boundary(TEXT_BYTES_LOOKED_AT)];
        if is_headed(item.title, name) || has_path_of(item.title, name) {
            found.add(place, SURE);
        } else if has_symbol(item.title, name) {
            found.add(place, TITLE);
        } else if has_symbol(text, name) {
            found.add(place, MENTION);
        }
    }
    Ok(())
}

/// Whether the last heading of a title is the name: `conn.rs > open_store`.
fn is_headed(title: &str, name: &str) -> bool {
    title.rsplit_once(" > ").is_some_and(|(_, heading)| heading == name)
}

/// Whether a title names every part of `Store::open`, as headings of code do: `Store > open`.
fn has_path_of(title: &str, symbol: &str) -> bool {
    symbol.contains("::") && symbol.split("::").all(|part| has_symbol(title, part))
}
