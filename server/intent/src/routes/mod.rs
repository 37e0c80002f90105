//! Which words lead to which tool, and which arguments each takes out of a command.
//!
//! Owns the table; its rows stand by what they are about. Knows the names of tools and of their arguments, and must
//! not know what tools do with them.

mod asking;
mod documents;
mod doing;
mod keeping;
mod service;
mod states;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::COMMAND;
use crate::cues::Cue;
use crate::parts::Taking;

limit_table::limits! {
    pub(crate) const LIMITS = [keeping, service];
}

/// A row: a tool, and how it is asked for.
pub(crate) struct Route {
    pub(crate) tool: &'static str,
    /// Whether what follows the order is a text of its own, in which no second order is looked for.
    pub(crate) is_payload: bool,
    /// Whether it is about the service alone, so that a question with a word that nobody here knows is not for it.
    pub(crate) is_closed: bool,
    /// The words, and how surely each tells, of 100.
    pub(crate) cues: &'static [(&'static str, u8)],
    /// Takes the arguments.
    pub(crate) take: fn(&mut Taking<'_>),
}

/// A row with its cues read.
pub(crate) struct Row {
    pub(crate) route: &'static Route,
    pub(crate) cues: Vec<Cue>,
}

const fn route(
    tool: &'static str,
    cues: &'static [(&'static str, u8)],
    take: fn(&mut Taking<'_>),
) -> Route {
    Route { tool, is_payload: false, is_closed: false, cues, take }
}

impl Route {
    /// With a text of its own behind the order.
    const fn payload(self) -> Self {
        Self { is_payload: true, ..self }
    }

    /// About the service alone.
    const fn closed(self) -> Self {
        Self { is_closed: true, ..self }
    }
}

/// Takes nothing.
fn nothing(_: &mut Taking<'_>) {}

/// Every row.
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

/// The row of a tool.
pub(crate) fn row_of(tool: &str) -> Option<&'static Row> {
    rows().iter().find(|row| row.route.tool == tool)
}

/// All words of all cues that are long enough to be misspelt.
pub(crate) fn known() -> &'static BTreeSet<String> {
    static KNOWN: OnceLock<BTreeSet<String>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let cues = rows().iter().flat_map(|row| &row.cues);
        cues.flat_map(Cue::words).map(str::to_owned).collect()
    })
}

/// Whether a word is the name of a tool.
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
