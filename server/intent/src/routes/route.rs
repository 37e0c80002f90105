//! A row of the table: a tool, and how it is asked for.

use crate::parts::Taking;

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

pub(super) const fn route(
    tool: &'static str,
    cues: &'static [(&'static str, u8)],
    take: fn(&mut Taking<'_>),
) -> Route {
    Route { tool, is_payload: false, is_closed: false, cues, take }
}

impl Route {
    /// With a text of its own behind the order.
    pub(super) const fn payload(self) -> Self {
        Self { is_payload: true, ..self }
    }

    /// About the service alone.
    pub(super) const fn closed(self) -> Self {
        Self { is_closed: true, ..self }
    }
}

/// Takes nothing.
pub(super) fn nothing(_: &mut Taking<'_>) {}
