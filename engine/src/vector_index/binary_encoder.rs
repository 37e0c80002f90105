use kernels::LOOKUP_ROWS;

use super::binary_quantization::{BinaryCodes, block_count};
use super::ivf::{IvfPartition, NormalizedRows};
use super::random_rotation::RandomRotation;
use crate::throttle::Throttle;

/// Rows between two throttle checks: about a millisecond.
const ROWS_PER_THROTTLE_CHECK: usize = 1024;

/// Buffers of the binary codes while an index is built.
pub(super) struct BinaryCodesBuffer {
    pub(super) bits: Vec<u8>,
    pub(super) scales: Vec<f32>,
}

impl BinaryCodesBuffer {
    /// Returns `None` if the throttle cancels.
    pub(super) fn encode_all(
        rows: &NormalizedRows<'_>,
        clusters: &IvfPartition,
        pace: &dyn Throttle,
    ) -> Option<Self> {
        let width = rows.row_codes();
        let bytes = width / 8;
        let mut made = Self {
            bits: vec![0; block_count(rows.len()) * bytes * LOOKUP_ROWS],
            scales: vec![0.0; rows.len()],
        };
        let (mut rotation, mut rest) = (RandomRotation::new(width), vec![0.0; width]);
        let centroids = &clusters.centroids;
        for (list, ends) in clusters.offsets.windows(2).enumerate() {
            for place in ends[0] as usize..ends[1] as usize {
                if place % ROWS_PER_THROTTLE_CHECK == 0 && !pace.after_work() {
                    return None;
                }
                let row = clusters.rows[place] as usize;
                let (row, centroid) = (rows.row_values(row), centroids.centroid_values(list));
                let differences = row.zip(centroid).map(|(row, centroid)| row - centroid);
                rest.iter_mut().zip(differences).for_each(|(rest, number)| *rest = number);
                made.scales[place] = encode_row(&mut rotation, &mut rest, |byte, bits| {
                    let block = place / LOOKUP_ROWS;
                    made.bits[(block * bytes + byte) * LOOKUP_ROWS + place % LOOKUP_ROWS] = bits;
                });
            }
        }
        Some(made)
    }

    pub(super) fn view(&self) -> BinaryCodes<'_> {
        BinaryCodes { bits: &self.bits, scales: &self.scales }
    }
}

/// Rotates a residual, passes its signs to `keep` byte by byte, and returns the scale of their product with a query.
fn encode_row(
    rotation: &mut RandomRotation,
    rest: &mut [f32],
    mut keep: impl FnMut(usize, u8),
) -> f32 {
    let square = rest.iter().map(|x| x * x).sum::<f32>();
    rotation.rotate(rest);
    for (byte, numbers) in rest.as_chunks::<8>().0.iter().enumerate() {
        let bits = numbers.iter().zip(0..).map(|(&number, bit)| u8::from(number >= 0.0) << bit);
        keep(byte, bits.fold(0, |bits, bit| bits | bit));
    }
    let scale = square / rest.iter().map(|x| x.abs()).sum::<f32>();
    // A row that equals its centroid has no residual, and a scale that is not finite carries no information.
    if scale.is_finite() { scale } else { 0.0 }
}
