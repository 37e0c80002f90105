//! Follower's copy of a workspace: its local files, kept up to date with the record log.

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
