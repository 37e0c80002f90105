//! Verification: walks all that a store's directory holds and reports every broken rule by its id.
//!
//! Goes on after a finding, changes nothing, takes no lock: a writer may go on meanwhile. Files that
//! no longer change are mapped and logs are read before anything is looked into, so what is checked
//! is one state of the store.
//!
//! Held in memory: the logs of the unsealed commits and their rows (`LOG_BYTES_MAX`), the words of
//! one segment made anew (`COMPACT_BYTES_MAX` bounds the segment), nine bits for each item and three
//! for each edge, a place in each segment, and `FINDINGS_MAX` findings.

mod across;
pub(crate) mod erased;
mod findings;
mod gathered;
mod indexes;
mod marks;
mod segment;
mod vectors;

pub use findings::{FINDINGS_MAX, NOTES_MAX};
pub use gathered::Walked;

use crate::error::{Damage, OpenError};
use crate::ids::{Seq, StoreId};
use crate::os::disk::Disk;
use findings::Findings;
use gathered::Gathered;

/// What [`verify`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The store; `None` where its manifest cannot be read.
    pub store: Option<StoreId>,
    /// Number of the manifest that was followed.
    pub manifest: Option<u64>,
    /// The newest commit.
    pub seq: Seq,
    /// How much was looked at.
    pub walked: Walked,
    /// Broken rules, at most [`FINDINGS_MAX`]; those of logs and across files come last.
    pub findings: Vec<Damage>,
    /// How many more there are.
    pub more_findings: u64,
    /// What is no damage but worth knowing, at most [`NOTES_MAX`]: leftover and foreign files.
    pub notes: Vec<String>,
    /// How many more there are.
    pub more_notes: u64,
}

impl Verified {
    /// Whether no rule is broken.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn of(gathered: &Gathered, findings: Findings) -> Self {
        Self {
            store: gathered.manifest.as_ref().map(|manifest| manifest.store),
            manifest: gathered.manifest.as_ref().map(|manifest| manifest.number),
            seq: gathered.last_seq,
            walked: gathered.walked(),
            findings: findings.list,
            more_findings: findings.more,
            notes: findings.notes,
            more_notes: findings.more_notes,
        }
    }
}

/// Checks every rule of the format over a store's directory, or a backup's. `told` hears the name of
/// each file before it is walked.
///
/// Damage is in the answer; an error means that something could not be read, that a newer build is
/// wanted, or that there is no store.
pub fn verify(disk: &dyn Disk, told: &mut dyn FnMut(&str)) -> Result<Verified, OpenError> {
    let mut gathered = Gathered::of(disk)?;
    let findings = check(&mut gathered, told);
    Ok(Verified::of(&gathered, findings))
}

fn check(gathered: &mut Gathered, told: &mut dyn FnMut(&str)) -> Findings {
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
    across::check(gathered, &mut findings);
    findings
}
