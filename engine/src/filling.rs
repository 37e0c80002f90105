//! Segments that are partially present locally: opening them, and the ranges that they request.

pub use crate::layout::PART;
pub use crate::os::filling::{Fetch, Filling, Unfilled};
pub use crate::segment::filling::{open, whole};
