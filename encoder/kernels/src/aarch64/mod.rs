//! AArch64 kernel levels and their detection.

mod neon;

use std::arch::is_aarch64_feature_detected;

use crate::level::Level;
use crate::table::Table;

/// Returns the function table of a level if the CPU reports every feature that its functions enable.
pub(crate) fn table(level: Level) -> Option<&'static Table> {
    let has_neon = is_aarch64_feature_detected!("neon");
    let has_dot = has_neon && is_aarch64_feature_detected!("dotprod");
    match level {
        Level::Neon => has_neon.then_some(&neon::TABLE),
        Level::NeonDot => has_dot.then_some(&neon::DOT_TABLE),
        _ => None,
    }
}
