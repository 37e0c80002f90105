//! IVF index over the embeddings of one segment, which selects the rows to examine (`format-spec/index.md`).
//!
//! Owns the partition into lists, the binary codes, the margins, and the index file. Must not know users' queries,
//! snapshots, or when indexes are built.

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

/// Returns true if the segment is large enough for an index to gain anything.
pub(crate) fn gains(segment: &Segment, rows_min: u32) -> bool {
    segment.header().vectors >= rows_min.max(1)
}

/// Builds the index file of the segment identified by `of`. Returns `None` if the throttle cancels. Equal rows give
/// equal bytes at every level of the kernels, except for values measured with floating-point sums.
///
/// Memory in use, in order:
/// - centroids, the next centroids and their sums (6 bytes per component), and the sample (12 bytes per sampled row)
/// - 4 bytes per row of the segment, twice, and the row's binary code
/// - sample queries (4 bytes per component, 16 per neighbour), and 8 bytes per row
/// - the file, twice while it is checked
///
/// # Errors
/// Corruption of the segment, or of the built file.
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
