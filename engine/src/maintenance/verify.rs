//! Verification: checks all files of a store's directory and reports every broken rule by its id.
//!
//! Continues after a finding, changes nothing and takes no lock: a writer may continue meanwhile. Before any check,
//! files that no longer change are mapped and logs are read, so the check covers one state of the store.
//!
//! Memory in use:
//!
//! - the logs of the unsealed commits and their rows (`LOG_BYTES_MAX`);
//! - the rebuilt postings of one segment (`COMPACT_BYTES_MAX` bounds the segment);
//! - 9 bits per item, 3 bits per edge, and a position in each segment;
//! - `FINDINGS_MAX` findings.

mod cross_file;
mod derived_bits;
mod directory_snapshot;
pub(crate) mod erasure_proof;
mod findings;
mod indexes;
mod segment;
mod vectors;

pub use directory_snapshot::VerifyTotals;
pub use findings::{FINDINGS_MAX, NOTES_MAX};

use crate::error::{CorruptionError, OpenError};
use crate::ids::{Seq, StoreId};
use crate::os::disk::Disk;
use directory_snapshot::DirectorySnapshot;
use findings::Findings;

/// Result of [`verify`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// Id of the store; `None` if its manifest cannot be read.
    pub store: Option<StoreId>,
    /// Number of the checked manifest; `None` if no manifest can be read.
    pub manifest: Option<u64>,
    /// Newest commit.
    pub seq: Seq,
    /// Counts of checked files and rows.
    pub totals: VerifyTotals,
    /// Broken rules, at most [`FINDINGS_MAX`]; those of logs and across files come last.
    pub findings: Vec<CorruptionError>,
    /// Number of findings beyond [`FINDINGS_MAX`].
    pub more_findings: u64,
    /// Remarks that are no corruption, at most [`NOTES_MAX`]: leftover and foreign files.
    pub notes: Vec<String>,
    /// Number of notes beyond [`NOTES_MAX`].
    pub more_notes: u64,
}

impl VerifyReport {
    /// Returns true if no rule is broken.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn from_directory(gathered: &DirectorySnapshot, findings: Findings) -> Self {
        Self {
            store: gathered.manifest.as_ref().map(|manifest| manifest.store),
            manifest: gathered.manifest.as_ref().map(|manifest| manifest.number),
            seq: gathered.last_seq,
            totals: gathered.totals(),
            findings: findings.list,
            more_findings: findings.more_findings,
            notes: findings.notes,
            more_notes: findings.more_notes,
        }
    }
}

/// Checks every rule of the format over the directory of a store or a backup. `told` is called with the name of each
/// file before the file is checked.
///
/// Corruption is reported in the result.
///
/// # Errors
/// A file could not be read, the store needs a newer build, or there is no store.
pub fn verify(disk: &dyn Disk, told: &mut dyn FnMut(&str)) -> Result<VerifyReport, OpenError> {
    let mut gathered = DirectorySnapshot::open(disk)?;
    let findings = check_directory(&mut gathered, told);
    Ok(VerifyReport::from_directory(&gathered, findings))
}

fn check_directory(gathered: &mut DirectorySnapshot, told: &mut dyn FnMut(&str)) -> Findings {
    let mut findings = std::mem::take(&mut gathered.findings);
    for listed in &gathered.sealed {
        told(&listed.name);
        segment::check_file(listed, &mut findings);
        if let Some(part) = &listed.segment {
            segment::check(part, &mut findings);
        }
    }
    for log in &gathered.logs {
        told(&log.name);
    }
    told("all files together");
    cross_file::check(gathered, &mut findings);
    findings
}
