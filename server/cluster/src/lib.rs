//! Cluster membership of a node: routing of calls to leaders, staleness of local reads, and forwarding.
//!
//! A [`Whereabouts`] knows the leader of each workspace. Without one, this node is the leader of every workspace, and
//! no other node is asked.
#![forbid(unsafe_code)]

mod cluster;
pub mod control_chain;
mod fields;
pub mod limits;
mod not_here;
mod relay;
pub mod seats;
mod whereabouts;

pub use cluster::{Cluster, Place};
pub use fields::{HOP, Keeps};
pub use not_here::NotHere;
pub use relay::{Passed, Relay, Trust};
pub use whereabouts::{CONTROL, Peer, Taken, Where, Whereabouts};

limit_table::limits! {
    pub const LIMITS = [limits, seats];
}
