use half::f16;

use super::findings::Findings;
use crate::error::CorruptionError;
use crate::layout::*;
use crate::segment::Segment;

/// Allowed relative error of a stored norm. Another summation order differs by less than `DIMENSIONS_MAX` roundings of
/// an `f64`, and the result may round to a neighbouring `f32`.
const NORM_SLACK: f64 = 2.0 / (1u64 << 23) as f64;

pub(super) fn check(segment: &Segment, findings: &mut Findings) {
    findings.record(check_owners(segment));
    let dimensions = segment.header().dimensions as usize;
    for row in 0..segment.header().vectors as usize {
        findings.record(check_halves(segment, row, dimensions));
        findings.record(check_codes(segment, row, dimensions));
    }
}

/// Checks that items and vectors refer to each other, in order (SEG-12, SEG-22).
fn check_owners(segment: &Segment) -> Result<(), CorruptionError> {
    let of_items = segment.column::<u32>(ITEM_EMBEDDING)?.all()?;
    let of_vectors = segment.column::<u32>(VECTOR_ITEM)?.all()?;
    let mut next = 0u32;
    for (item, &vector) in (0u32..).zip(of_items).filter(|&(_, &vector)| vector != NO_ROW) {
        if vector as usize >= of_vectors.len() {
            let detail = format!("row {item}: vector {vector} of {}", of_vectors.len());
            return Err(segment.damage("SEG-12", ITEM_EMBEDDING, detail));
        }
        if vector != next || of_vectors[vector as usize] != item {
            let detail = format!("row {item}: vector {vector} where {next} is due, or not its own");
            return Err(segment.damage("SEG-22", ITEM_EMBEDDING, detail));
        }
        next += 1;
    }
    if next as usize != of_vectors.len() {
        let detail = format!("{} vectors, {next} of them named", of_vectors.len());
        return Err(segment.damage("SEG-22", VECTOR_ITEM, detail));
    }
    Ok(())
}

/// Stored halves of a row, including the padding after its dimensions.
fn raw_halves(segment: &Segment, row: usize) -> Result<&[f16], CorruptionError> {
    let width = halves_per_row(segment.header().dimensions);
    segment.column::<f16>(VECTOR_HALVES)?.range(row * width, (row + 1) * width)
}

/// Checks the halves and the norm (SEG-16), and that the padding is zero (SEG-23).
fn check_halves(segment: &Segment, row: usize, dimensions: usize) -> Result<(), CorruptionError> {
    let (values, padding) = raw_halves(segment, row)?.split_at(dimensions);
    if padding.iter().any(|half| half.to_bits() != 0) {
        let detail = format!("row {row}: cells past its dimensions are not zero");
        return Err(segment.damage("SEG-23", VECTOR_HALVES, detail));
    }
    if !values.iter().all(|half| half.is_finite()) {
        let detail = format!("row {row}: a number that is not finite");
        return Err(segment.damage("SEG-16", VECTOR_HALVES, detail));
    }
    let length = euclidean_length(values.iter().map(|half| f64::from(half.to_f32())));
    let stored = f64::from(segment.column::<f32>(VECTOR_NORM)?.get(row)?);
    // Not `>`: a stored norm of NaN must fail, too.
    if (stored - length).abs() <= length * NORM_SLACK {
        return Ok(());
    }
    let detail = format!("row {row}: {stored}, its halves give {length}");
    Err(segment.damage("SEG-16", VECTOR_NORM, detail))
}

/// Checks the codes and their scale and error (SEG-23, EMB-01, EMB-02).
fn check_codes(segment: &Segment, row: usize, dimensions: usize) -> Result<(), CorruptionError> {
    let width = codes_per_row(segment.header().dimensions);
    let cells = segment.column::<i8>(VECTOR_CODES)?.range(row * width, (row + 1) * width)?;
    let (cells, padding) = cells.split_at(dimensions);
    if padding.iter().any(|&code| code != 0) || cells.contains(&i8::MIN) {
        let detail = format!("row {row}: a code is -128, or one past its dimensions is not zero");
        return Err(segment.damage("SEG-23", VECTOR_CODES, detail));
    }
    let scale = segment.column::<f32>(VECTOR_SCALE)?.get(row)?;
    let error = segment.column::<f32>(VECTOR_ERROR)?.get(row)?;
    let is_size = |number: f32| number.is_finite() && number >= 0.0;
    let values = &raw_halves(segment, row)?[..dimensions];
    let is_zero = values.iter().all(|half| *half == f16::ZERO);
    if !is_size(scale) || !is_size(error) || is_zero && (scale, error) != (0.0, 0.0) {
        let detail = format!("row {row}: scale {scale} and error {error}");
        return Err(segment.damage("EMB-02", VECTOR_ERROR, detail));
    }
    let pairs = values.iter().zip(cells);
    let left = euclidean_length(
        pairs.map(|(half, &code)| f64::from(half.to_f32()) - f64::from(scale) * f64::from(code)),
    );
    if left > f64::from(error) {
        let detail = format!("row {row}: {error}, but the codes leave out {left}");
        return Err(segment.damage("SEG-23", VECTOR_ERROR, detail));
    }
    Ok(())
}

fn euclidean_length(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}
