//! Metastore replication: one node writes the metastore, the others follow its record log on their remote
//! (format-spec/remote.md, Metastore).
//!
//! Decides whether the local copy may be read. A change is in the record log before it is in the local file, so the
//! file is never ahead of the other nodes. Must not know what the rows of the metastore mean, nor who reads them.

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
