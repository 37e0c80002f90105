use crate::parts::Taking;

/// Route: a tool, and the patterns that select it.
pub(crate) struct Route {
    pub(crate) tool: &'static str,
    /// True if a free text follows the command, which is not searched for a second command.
    pub(crate) is_payload: bool,
    /// True if the tool is about the service only, so that unknown words count against it.
    pub(crate) is_closed: bool,
    /// Patterns, with the confidence of each out of 100.
    pub(crate) cues: &'static [(&'static str, u8)],
    /// Extracts the arguments.
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
    /// Marks the route as followed by free text.
    pub(super) const fn payload(self) -> Self {
        Self { is_payload: true, ..self }
    }

    /// Marks the route as about the service only.
    pub(super) const fn closed(self) -> Self {
        Self { is_closed: true, ..self }
    }
}

/// Extractor of a tool without arguments.
pub(super) fn nothing(_: &mut Taking<'_>) {}
