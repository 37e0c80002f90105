//! Checks of the numbers of a section, in place.
//!
//! Every start checks all weights once, so these are loops without branches that the compiler vectorizes.

use std::ops::Range;

use kernels::{COLUMNS, QUAD, padded_depth, padded_width};

/// Exponent bits of a float; if all are set, the value is infinite or NaN.
const EXPONENT: u32 = 0x7F80_0000;
/// Exponent bits of an f16 value; if all are set, the value is infinite or NaN.
const HALF_EXPONENT: u16 = 0x7C00;
/// Codes side by side in one step of an int8 panel.
const LINE: usize = COLUMNS * QUAD;
/// Lines whose codes, of magnitude 128 at most, can be summed within 16 bits.
const LINES_TOGETHER: usize = 255;

const _: () = assert!(LINES_TOGETHER * 128 <= i16::MAX as usize);

/// Returns the index of the first float that is infinite or NaN.
pub(super) fn not_finite(floats: &[u32]) -> Option<usize> {
    let all = floats.iter().fold(true, |all, bits| all & (bits & EXPONENT != EXPONENT));
    if all { None } else { floats.iter().position(|bits| bits & EXPONENT == EXPONENT) }
}

/// Returns the index of the first f16 value that is infinite or NaN.
pub(super) fn half_not_finite(halves: &[u16]) -> Option<usize> {
    let is_fine = |bits: &u16| bits & HALF_EXPONENT != HALF_EXPONENT;
    let all = halves.iter().fold(true, |all, bits| all & is_fine(bits));
    if all { None } else { halves.iter().position(|bits| !is_fine(bits)) }
}

/// Returns the index of the first code below -127.
pub(super) fn too_low(codes: &[i8]) -> Option<usize> {
    let all = codes.iter().fold(true, |all, &code| all & (code != i8::MIN));
    if all { None } else { codes.iter().position(|&code| code == i8::MIN) }
}

/// Sums the codes of each column, padding included, panel after panel.
pub(super) fn column_sums(codes: &[i8], depth: usize) -> Vec<i32> {
    let panel_codes = padded_depth(depth) * COLUMNS;
    let mut sums = Vec::with_capacity(codes.len() / padded_depth(depth));
    for panel in codes.chunks_exact(panel_codes) {
        let mut places = [0_i32; LINE];
        let (lines, _) = panel.as_chunks::<LINE>();
        for lines in lines.chunks(LINES_TOGETHER) {
            let mut some = [0_i16; LINE];
            for line in lines {
                for (sum, &code) in some.iter_mut().zip(line) {
                    *sum += i16::from(code);
                }
            }
            for (sum, &more) in places.iter_mut().zip(&some) {
                *sum += i32::from(more);
            }
        }
        sums.extend(places.as_chunks::<QUAD>().0.iter().map(|column| column.iter().sum::<i32>()));
    }
    sums
}

/// Returns the padding of a layer's cells as ranges of cell indexes. `quad` is the number of depths of a column that
/// lie side by side.
pub(super) fn padding(depth: usize, width: usize, quad: usize) -> Vec<Range<usize>> {
    let (deep, wide) = (padded_depth(depth), padded_width(width));
    let mut runs = Vec::new();
    if (deep, wide) == (depth, width) {
        return runs;
    }
    for panel in 0..wide / COLUMNS {
        for step in 0..deep / quad {
            for column in 0..COLUMNS {
                let real = if panel * COLUMNS + column < width {
                    depth.saturating_sub(step * quad).min(quad)
                } else {
                    0
                };
                let start = ((panel * (deep / quad) + step) * COLUMNS + column) * quad;
                if real < quad {
                    push_run(&mut runs, start + real..start + quad);
                }
            }
        }
    }
    runs
}

/// Adds a range, merged with the last one if they are adjacent.
fn push_run(runs: &mut Vec<Range<usize>>, run: Range<usize>) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

#[cfg(test)]
mod tests {
    use kernels::{PackedCells, PackedLinear, Precision, Rows, cells_in};

    use super::*;

    #[test]
    fn what_is_not_finite_is_found() {
        assert_eq!(not_finite(&[0, f32::MAX.to_bits(), (-0.0_f32).to_bits()]), None);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
            let mut floats = vec![1.0_f32.to_bits(); 100];
            floats[77] = bad.to_bits();
            assert_eq!(not_finite(&floats), Some(77), "{bad}");
        }
        assert_eq!(half_not_finite(&[0x7BFF, 0xFBFF, 0, 0x8000]), None);
        for bad in [0x7C00, 0xFC00, 0x7E00, 0xFFFF] {
            assert_eq!(half_not_finite(&[0x3C00, 0, bad]), Some(2), "{bad:x}");
        }
        assert_eq!(too_low(&[-127, 127, 0]), None);
        assert_eq!(too_low(&[1, -128]), Some(1));
    }

    /// The reference for padding and offsets is the kernels' own packing.
    #[test]
    fn sums_and_padding_are_those_of_packed_layers() {
        for (depth, width) in [(8, 8), (64, 16), (65, 17), (130, 40), (1, 1), (4096, 16)] {
            let weights: Vec<f32> = (0..depth * width).map(|i| (i % 7) as f32 + 1.0).collect();
            let rows = Rows::dense(&weights, depth);
            let packed = PackedLinear::pack(Precision::Int8, rows, &vec![0.5; width]);
            let PackedCells::Int8 { codes, offsets, .. } = &packed.cells else { panic!("codes") };
            let sums = column_sums(codes, depth);
            let wanted: Vec<i32> = sums.iter().map(|sum| -128 * sum).collect();
            assert_eq!(&wanted, offsets, "{depth} by {width}");
            let zeros = |runs: Vec<Range<usize>>| runs.into_iter().flatten().collect::<Vec<_>>();
            assert!(zeros(padding(depth, width, QUAD)).iter().all(|&i| codes[i] == 0));

            let packed = PackedLinear::pack(Precision::F32, rows, &vec![0.5; width]);
            let PackedCells::F32(cells) = &packed.cells else { panic!("floats") };
            let is_zero = |i: &usize| cells[*i] == 0.0;
            let found: Vec<usize> = (0..cells.len()).filter(is_zero).collect();
            assert_eq!(zeros(padding(depth, width, 1)), found, "no weight above is zero");
            assert_eq!(found.len(), cells_in(depth, width) - depth * width);
            assert_eq!(zeros(padding(depth, width, QUAD)).len(), found.len());
        }
    }

    #[test]
    fn the_largest_sums_fit() {
        let codes = vec![-128_i8; 4096 * COLUMNS];
        assert_eq!(column_sums(&codes, 4096), [-128 * 4096; COLUMNS]);
    }
}
