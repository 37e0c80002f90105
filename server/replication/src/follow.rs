//! A workspace that somebody else writes: its files here, kept up with its chain.

mod cache;
mod copy;
mod error;
mod keeper;
mod partial;
mod source;
mod tracker;

pub use cache::{Cache, CacheUse};
pub use copy::LocalCopy;
pub use error::NotApplied;
pub use keeper::{Keeper, Tended};
pub use partial::PartialDisk;
pub use tracker::{Moved, Tracker};

limit_table::limits! {
    pub(crate) const LIMITS = [partial];
}
