//! Routes: the patterns that select each tool, and the extractor of its arguments; grouped by subject.

mod asking;
mod documents;
mod doing;
mod keeping;
mod route;
mod service;
mod states;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::COMMAND;
use crate::cues::Cue;

pub(crate) use route::Route;

limit_table::limits! {
    pub(crate) const LIMITS = [keeping, service];
}

/// Route with its parsed patterns.
pub(crate) struct Row {
    pub(crate) route: &'static Route,
    pub(crate) cues: Vec<Cue>,
}

pub(crate) fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let parts = [
            asking::ROUTES,
            documents::ROUTES,
            keeping::ROUTES,
            doing::ROUTES,
            states::ROUTES,
            service::ROUTES,
        ];
        let routes = parts.into_iter().flatten();
        let read = |route: &'static Route| {
            let cues = route.cues.iter().map(|(text, weight)| Cue::read(text, *weight));
            Row { route, cues: cues.collect() }
        };
        routes.map(read).collect()
    })
}

/// Route of a tool.
pub(crate) fn row_of(tool: &str) -> Option<&'static Row> {
    rows().iter().find(|row| row.route.tool == tool)
}

/// Words of all patterns, for the correction of misspellings.
pub(crate) fn known() -> &'static BTreeSet<String> {
    static KNOWN: OnceLock<BTreeSet<String>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let cues = rows().iter().flat_map(|row| &row.cues);
        cues.flat_map(Cue::words).map(str::to_owned).collect()
    })
}

pub(crate) fn is_tool(word: &str) -> bool {
    word == COMMAND || row_of(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_one_row() {
        let mut routed: Vec<&str> = rows().iter().map(|row| row.route.tool).collect();
        routed.sort_unstable();
        let count = routed.len();
        routed.dedup();
        assert_eq!(routed.len(), count);
    }

    #[test]
    fn every_term_of_every_cue_means_something() {
        for row in rows() {
            for cue in &row.cues {
                assert!(cue.is_sound() && (1..=100).contains(&cue.weight), "{cue:?}");
            }
        }
    }
}
