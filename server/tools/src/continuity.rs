//! Family `continuity`: the operator's intents, corrections and expectations, retained between sessions.

mod briefs;
mod corrections;
pub(super) mod followups;
pub(super) mod intents;
mod outcomes;
mod record;
mod repeats;

use recalld_tool_framework::Family;

limit_table::limits! {
    pub(crate) const LIMITS = [record];
}

pub(super) static FAMILY: Family = Family {
    name: "continuity",
    about: "Carry intents, corrections, outcomes and follow-ups from one session to the next.",
    tools: &[
        intents::CAPTURE,
        corrections::RECORD,
        outcomes::RECORD,
        followups::SCHEDULE,
        followups::COMPLETE,
        followups::DUE,
        briefs::GENERATE,
    ],
};
