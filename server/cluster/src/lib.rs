//! This node among others: which calls are answered here, how old the answers are, and what becomes of the others.
//!
//! Owns the decision, and the relay that passes a call on. Who writes what is known by a [`Whereabouts`]; where none is
//! given, every workspace is written here, and nothing is asked.
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
