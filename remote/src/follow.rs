//! A workspace that somebody else writes: its files here, kept up with its chain.

mod copy;
mod tracker;

pub use copy::{LocalCopy, NotApplied};
pub use tracker::{Moved, Tracker};
