//! An index over the embeddings of one segment: which rows to look at first (`format-spec/index.md`).
//!
//! Owns how rows are sorted into lists and sketched, how much of these may be passed over, and the file that
//! says so.
//! Must not know questions of people, snapshots, or who makes an index when.

mod clusters;
mod file;
mod layout;
mod measure;
mod measurement;
mod rotation;
mod sketch;
mod sketch_maker;
#[cfg(test)]
pub(crate) mod tests;

pub use layout::INDEX_HEADER;

pub(crate) use clusters::Spread;
pub(crate) use file::{IndexOf, Lists, file_bytes};
pub(crate) use sketch::SketchQuestion;

use clusters::{Clusters, Directions};
use file::Content;
use kernels::Kernels;

use crate::error::Damage;
use crate::pace::Pace;
use crate::segment::Segment;

limit_table::limits! {
    pub(crate) const LIMITS = [measure, measurement];
}

/// Whether an index can gain anything over this segment.
pub(crate) fn gains(segment: &Segment, rows_min: u32) -> bool {
    segment.header().vectors >= rows_min.max(1)
}

/// The file of an index over a segment, which is `of`. `None` where the pace ended it. The same rows
/// make the same bytes at every level of the kernels but for what is measured with their sums.
///
/// Held in memory: centroids, those that follow and their sums (6 bytes for each number of one), what
/// is known of a sample (12 bytes for each row of it), four bytes for each row of the segment twice, and
/// its sketch; what a measurement keeps of its questions (4 bytes for each number, 16 for each neighbour)
/// and eight bytes for each row; then the file, twice while it is checked.
///
/// # Errors
/// Damage of the segment, or of what was made of it.
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
    let rows = Directions::of(&embeddings);
    let Some(sketches) = sketch_maker::Made::of(&rows, &clusters, pace) else { return Ok(None) };
    let view = sketches.view();
    let Some(measured) = measure::measure(kernels, &embeddings, &clusters, view, pace)? else {
        return Ok(None);
    };
    let bytes = file::encode(
        of,
        &Content {
            codes: &clusters.centroids.codes,
            scales: &clusters.centroids.scales,
            offsets: &clusters.offsets,
            rows: &clusters.rows,
            sketches: view,
            measured,
        },
    );
    drop((clusters, sketches));
    file::check(&bytes, of)?;
    Ok(Some(bytes))
}
