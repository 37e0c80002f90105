//! Recall: returns the items that answer a question, with their evidence.
//!
//! All APIs share one path. A question becomes a query plan, whose retrievers run on one snapshot. Their candidates are
//! fused, reranked so that successors precede what they supersede, gated by policy, and given evidence. The crate
//! depends on the engine and the encoder, but on neither HTTP nor MCP.
#![forbid(unsafe_code)]

mod abstain;
mod access;
mod answers;
mod arbitrate;
mod back;
mod conflicts;
mod dated;
mod evidence;
mod fuse;
pub mod graph_shape;
mod hidden;
mod lane;
mod lanes;
mod likeness;
pub mod limits;
mod located;
mod looks;
mod masks;
mod meaning;
mod means;
mod near;
mod passed_over;
mod passes;
mod place;
mod recall;
mod recalled;
mod room;
mod route;
pub mod show;
mod signs;
mod standing;
mod time;
mod titled;
mod why;
mod wording;

pub use access::AccessView;
pub use back::look_back;
pub use conflicts::{Conflict, conflict_between};
pub use evidence::{MapEvidence, Witness, map_evidence};
pub use lane::{Hop, Lane, LaneReport, Skipped};
pub use likeness::{Likeness, Same, Twin};
pub use masks::HiddenFrom;
pub use meaning::Meaning;
pub use means::Means;
pub use passes::Threads;
pub use place::Named;
pub use recall::recall;
pub use recalled::{NeighbourAt, Outcome, Recalled, Why, Withheld};
pub use room::Room;
pub use route::{Bounds, Plan, Question};
pub use time::{MONTHS, WEEKDAYS, named};
pub use time::{Period, When};

limit_table::limits! {
    pub const LIMITS = [
        abstain, answers, arbitrate, conflicts, dated, fuse, graph_shape, hidden, lanes, likeness,
        limits, located, looks, masks, near, passes, place, route, standing, time, why, wording,
    ];
}
