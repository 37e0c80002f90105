//! The workspaces of this node on a remote: which are written here, which are followed, and what is to change.
//!
//! Owns the node's part in a remote: its name, its signs of life, and the place of each workspace that is open. Must
//! not know what calls want of a workspace.

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
pub use keeping::{FarErasure, Swept};
pub use opening::{Ending, GIVE_WAIT_MAX};
pub use reach::{check_ours, is_locked, reached};
pub use table::{Seats, Stands};

limit_table::limits! {
    pub(crate) const LIMITS = [emptying, failing];
}
