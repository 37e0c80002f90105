//! x86-64 levels, and the question whether this CPU has them.

mod avx2;

use crate::Table;

/// The AVX2 level's functions, if the CPU reports every feature they enable.
pub(crate) fn avx2_table() -> Option<&'static Table> {
    let able = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    able.then_some(&avx2::TABLE)
}
