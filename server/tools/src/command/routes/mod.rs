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

use super::cues::Cue;
use super::parts::Taking;
use crate::CATALOG;

/// A row: a tool, and how it is asked for.
pub(super) struct Route {
    pub(super) tool: &'static str,
    /// Whether what follows the order is a text of its own, in which no second order is looked for.
    pub(super) is_payload: bool,
    /// Whether it is about the service alone, so that a question with a word that nobody here knows is not for it.
    pub(super) is_closed: bool,
    /// The words, and how surely each tells, of 100.
    pub(super) cues: &'static [(&'static str, u8)],
    /// Takes the arguments.
    pub(super) take: fn(&mut Taking<'_>),
}

/// A row with its cues read.
pub(super) struct Row {
    pub(super) route: &'static Route,
    pub(super) cues: Vec<Cue>,
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
pub(super) fn rows() -> &'static [Row] {
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
pub(super) fn row_of(tool: &str) -> Option<&'static Row> {
    rows().iter().find(|row| row.route.tool == tool)
}

/// All words of all cues that are long enough to be misspelt.
pub(super) fn known() -> &'static BTreeSet<String> {
    static KNOWN: OnceLock<BTreeSet<String>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let cues = rows().iter().flat_map(|row| &row.cues);
        cues.flat_map(Cue::words).map(str::to_owned).collect()
    })
}

/// Whether a word is the name of a tool.
pub(super) fn is_tool(word: &str) -> bool {
    CATALOG.tools().any(|tool| tool.name == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_other_tool_has_one_row_and_no_row_is_of_another() {
        let mut routed: Vec<&str> = rows().iter().map(|row| row.route.tool).collect();
        routed.sort_unstable();
        let count = routed.len();
        routed.dedup();
        assert_eq!(routed.len(), count);
        for tool in CATALOG.tools() {
            assert!(row_of(tool.name).is_some() || tool.name == "brain_command", "{}", tool.name);
        }
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
