//! Bounded list of findings and notes: in a corrupt store every row may break a rule.

use crate::error::CorruptionError;

/// Maximum number of listed findings; further ones are only counted.
pub const FINDINGS_MAX: usize = 256;
/// Maximum number of listed notes; further ones are only counted.
pub const NOTES_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) list: Vec<CorruptionError>,
    pub(super) more_findings: u64,
    pub(super) notes: Vec<String>,
    pub(super) more_notes: u64,
}

impl Findings {
    /// Adds a broken rule without duplicates, as many checks read the same page.
    pub(super) fn add(&mut self, damage: CorruptionError) {
        if self.list.contains(&damage) {
            return;
        }
        if self.list.len() < FINDINGS_MAX {
            self.list.push(damage);
        } else {
            self.more_findings += 1;
        }
    }

    /// Returns the value of a column check, or adds its finding. A corrupt page (SEG-06) is skipped: the check of all
    /// pages reports it.
    pub(super) fn record<T>(&mut self, found: Result<T, CorruptionError>) -> Option<T> {
        match found {
            Ok(value) => Some(value),
            Err(damage) => {
                if damage.rule != "SEG-06" {
                    self.add(damage);
                }
                None
            }
        }
    }

    /// As [`Self::record`], for a check with many findings.
    pub(super) fn record_all(&mut self, found: Result<Vec<CorruptionError>, CorruptionError>) {
        let found = self.record(found).unwrap_or_default();
        found.into_iter().for_each(|damage| self.add(damage));
    }

    /// Adds a remark that is no corruption.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(what.into());
        } else {
            self.more_notes += 1;
        }
    }
}
