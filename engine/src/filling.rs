//! Segments of which not all is here yet: how one is opened, and what it asks for.

pub use crate::layout::PART;
pub use crate::os::filling::{Fetch, Filling, Unfilled};
pub use crate::segment::filling::{open, whole};
