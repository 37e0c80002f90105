//! The control store among nodes: one node writes it, the others follow, by a chain on their remote
//! (format-spec/remote.md, The control store).
//!
//! Owns this node's part in that chain, and whether what is here may be told. A change is in the chain before it is in
//! the file here, so the file is never ahead of what others will have. Must not know what records of the store mean,
//! nor who asks for them.

mod between;
mod carrying;
mod chain;
mod following;
mod leading;
mod marker;
mod place;
mod rows;
mod said;
mod sealed;
mod seen;
mod shared;
mod signed;
mod taking;
#[cfg(test)]
mod tests;
mod through;

pub use between::PATH;
pub use chain::ControlChain;
pub use marker::{MARKER, node_of};
pub use said::SHARED;
pub use shared::{CaughtUp, ControlStands, With};
pub use through::{ThroughWriter, serve};
