//! x86-64 kernel levels and their detection.

mod amx;
mod avx2;
mod avx512;

use crate::level::Level;
use crate::table::Table;

/// Returns the function table of a level if the CPU reports every feature that its functions enable.
pub(crate) fn table(level: Level) -> Option<&'static Table> {
    let has_avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let has_avx512 = has_avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni");
    match level {
        Level::Avx2 => has_avx2.then_some(&avx2::TABLE),
        Level::Avx512 => has_avx512.then_some(&avx512::TABLE),
        Level::Amx => (has_avx512 && amx::is_usable()).then_some(&amx::TABLE),
        _ => None,
    }
}
