//! An index over the embeddings of one segment: which rows to look at first (`format-spec/index.md`).
//!
//! Owns how rows are sorted into lists, how deep lists must be searched, and the file that says so.
//! Must not know questions of people, snapshots, or who makes an index when.

mod clusters;
mod file;
mod measure;
#[cfg(test)]
mod tests;

pub(crate) use clusters::spread;
pub(crate) use file::{IndexOf, Lists};
pub(crate) use measure::{DEPTH_GAINS, NEIGHBOURS};

use clusters::Clusters;
use file::Content;
use kernels::Kernels;

use crate::error::Damage;
use crate::pace::Pace;
use crate::segment::Segment;

/// Whether an index can gain anything over this segment.
pub(crate) fn gains(segment: &Segment, rows_min: u32) -> bool {
    segment.header().vectors >= rows_min.max(1)
}

/// The file of an index over a segment, which is `of`. `None` where the pace ended it. The same rows
/// make the same bytes at every level of the kernels but for `depth`, `asked` and `found`, which
/// are measured with their sums.
///
/// Held in memory: centroids and their sums (9 bytes for each number of one), four bytes for each row
/// twice, and what a measurement keeps of its questions; then the file.
///
/// # Errors
/// Damage of the segment.
pub(crate) fn make(
    kernels: Kernels,
    segment: &Segment,
    of: &IndexOf,
    pace: &dyn Pace,
) -> Result<Option<Vec<u8>>, Damage> {
    let embeddings = segment.embeddings()?;
    let Some(clusters) = Clusters::of(kernels, &embeddings, of.dimensions, pace) else {
        return Ok(None);
    };
    let Some(measured) = measure::measure(kernels, &embeddings, &clusters, pace)? else {
        return Ok(None);
    };
    Ok(Some(file::encode(of, &Content { clusters: &clusters, measured })))
}
