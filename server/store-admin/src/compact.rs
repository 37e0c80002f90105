//! Compaction on demand: repeated steps, until no two segments fit into one.

use engine::CompactionOutcome;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::keep_error::KeepError;
use crate::keeping::{Keeper, Note};
use recalld_common::counted::counted;

/// Steps per command: each merges several segments into one, and a manifest lists at most 4,096 segments.
const STEPS_MAX: usize = 4096;

/// Report of a compaction.
#[derive(Debug, Serialize, Deserialize)]
pub struct CompactReport {
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes of all files before.
    pub bytes_before: u64,
    /// Segments that were merged.
    pub merged: usize,
    /// Segments.
    pub segments: u64,
    /// Segments before.
    pub segments_before: u64,
    /// Steps, each of which merged several segments into one.
    pub steps: usize,
}

/// Compacts the store until no step is left.
pub fn compact(keeper: &Keeper<'_>) -> Result<CompactReport, KeepError> {
    let _turn = keeper.turn()?;
    keeper.record(Note::of("recalld compact", &json!({})))?;
    let store = keeper.store;
    let failed = |error: &dyn std::fmt::Display| {
        KeepError::failed(error, "run `recalld verify`; all segments are as they were")
    };
    store.seal().map_err(|error| failed(&error))?;
    let (segments_before, bytes_before) = measure(keeper)?;
    let pace = keeper.pace("compacting", bytes_before);
    let (mut merged, mut steps) = (0, 0);
    while steps < STEPS_MAX {
        match store.compact_fully(&pace).map_err(|error| failed(&error))? {
            CompactionOutcome::Merged { segments, .. } => {
                (merged, steps) = (merged + segments, steps + 1)
            }
            CompactionOutcome::NothingToDo => break,
            CompactionOutcome::NoRoom { wanted, free } => {
                let why = format!(
                    "{wanted} bytes must be free for the next step, {free} are; {} done, which stays",
                    counted(steps, "step")
                );
                return Err(KeepError::failed(why, "free some space, and run it again"));
            }
            CompactionOutcome::Cancelled => {
                let why =
                    format!("called off after {}; what is done stays", counted(steps, "step"));
                return Err(KeepError::failed(why, "run it again to go on"));
            }
        }
    }
    let (segments, bytes) = measure(keeper)?;
    Ok(CompactReport { bytes, bytes_before, merged, segments, segments_before, steps })
}

/// Returns the number of segments and the bytes of all files.
fn measure(keeper: &Keeper<'_>) -> Result<(u64, u64), KeepError> {
    let counts = keeper.store.snapshot().row_counts();
    let counts = counts
        .map_err(|damage| KeepError::failed(damage, "restore a backup of the data directory"))?;
    Ok((counts.segments, keeper.store.bytes_on_disk()))
}
