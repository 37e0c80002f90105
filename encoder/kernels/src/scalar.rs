//! The reference level: plain loops that say what each kernel means.
//!
//! Every other level must agree with these within the bounds that `check.rs` states. No unsafe and
//! no intrinsics here.

use half::f16;

use crate::Table;

pub(crate) static TABLE: Table = Table { dot, dot_rows };

pub(crate) fn dot(query: &[f32], row: &[f16]) -> f32 {
    query.iter().zip(row).map(|(q, r)| q * r.to_f32()).sum()
}

fn dot_rows(query: &[f32], rows: &[f16], out: &mut [f32]) {
    for (r, score) in out.iter_mut().enumerate() {
        *score = dot(query, &rows[r * query.len()..][..query.len()]);
    }
}
