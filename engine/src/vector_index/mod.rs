//! IVF index over the embeddings of one segment, which selects the rows to examine (`format-spec/index.md`).
//!
//! Owns the partition into lists, the binary codes, the margins, and the index file. Must not know users' queries,
//! snapshots, or when indexes are built.

mod binary_encoder;
mod binary_quantization;
mod file;
mod ivf;
mod layout;
mod margins;
mod random_rotation;
mod recall_calibration;
#[cfg(test)]
pub(crate) mod tests;

pub use layout::INDEX_HEADER;

pub(crate) use binary_quantization::BinaryQuery;
pub(crate) use file::{IndexKey, IvfIndex, file_bytes};
pub(crate) use ivf::EvenSample;

use file::IndexContent;
use ivf::{IvfPartition, NormalizedRows};
use kernels::Kernels;

use crate::error::CorruptionError;
use crate::segment::Segment;
use crate::throttle::Throttle;

limit_table::limits! {
    pub(crate) const LIMITS = [recall_calibration, margins];
}

/// Returns true if the segment is large enough for an index to gain anything.
pub(crate) fn is_worthwhile(segment: &Segment, rows_min: u32) -> bool {
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
pub(crate) fn build(
    kernels: Kernels,
    segment: &Segment,
    of: &IndexKey,
    pace: &dyn Throttle,
) -> Result<Option<Vec<u8>>, CorruptionError> {
    let embeddings = segment.embeddings()?;
    let Some(clusters) = IvfPartition::build(kernels, &embeddings, of.dimensions, pace) else {
        return Ok(None);
    };
    let rows = NormalizedRows::new(&embeddings);
    let Some(sketches) = binary_encoder::BinaryCodesBuffer::encode_all(&rows, &clusters, pace)
    else {
        return Ok(None);
    };
    let view = sketches.view();
    let Some(measured) =
        recall_calibration::calibrate(kernels, &embeddings, &clusters, view, pace)?
    else {
        return Ok(None);
    };
    let bytes = file::encode(
        of,
        &IndexContent {
            codes: &clusters.centroids.codes,
            scales: &clusters.centroids.scales,
            offsets: &clusters.offsets,
            rows: &clusters.rows,
            binary_codes: view,
            margins: measured,
        },
    );
    drop((clusters, sketches));
    file::check(&bytes, of)?;
    Ok(Some(bytes))
}
