//! Segments that are partially present locally: opening them, and the ranges that they request.

pub use crate::layout::PARTIAL_SUFFIX;
pub use crate::os::lazy_file::{LazyFile, PageFetchError, RangeFetcher};
pub use crate::segment::lazy_open::{open, open_complete};
