//! Replica manager: this node's workspaces on a remote, with their roles (leader or follower) and role changes.
//!
//! Owns the node's name, its heartbeats, and the slot of each open workspace. Must not know which calls use a
//! workspace.

mod emptying;
mod failing;
mod holding;
mod keeping;
mod opening;
mod reach;
mod same;
mod table;
mod whereabouts;

pub use emptying::{Others, Step, ToEmpty};
pub use keeping::{FarErasure, FarErasureReport, FarErasureState, NodeErasure, Swept};
pub use opening::{Ending, GIVE_WAIT_MAX};
pub use reach::{check_ours, is_locked, reached};
pub use table::{Seats, Stands};

limit_table::limits! {
    pub(crate) const LIMITS = [emptying, failing];
}
