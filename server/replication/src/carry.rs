//! Shipping of a workspace's writes into its record log, on the node that leads the workspace.
//!
//! [`Carrier`] receives the reports of the store ([`engine::far::ReplicationSink`]) and has two threads. The first
//! writes records, one at a time. The second uploads files, so that a large file delays no commit. Pure code without
//! network access decides the next action.

mod carried;
mod carrier;
mod plan;
mod sending;
mod shared;
mod state;
mod writing;

pub use carried::Carried;
pub(crate) use carried::FILE as CARRIED_FILE;
pub use carrier::{Carrier, CarryHow, Standing};
pub use shared::{CarryWhen, Over};
