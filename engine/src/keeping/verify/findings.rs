//! What a walk found, in a list that does not grow for ever.

use crate::error::Damage;

/// Broken rules that are told in full; the rest is counted.
pub const FINDINGS_MAX: usize = 256;
/// Notes that are told in full; the rest is counted.
pub const NOTES_MAX: usize = 256;

/// Findings and notes.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) list: Vec<Damage>,
    pub(super) more: u64,
    pub(super) notes: Vec<String>,
    pub(super) more_notes: u64,
}

impl Findings {
    /// Adds a broken rule, unless it is there: many a walk comes by the same page.
    pub(super) fn add(&mut self, damage: Damage) {
        if self.list.contains(&damage) {
            return;
        }
        if self.list.len() < FINDINGS_MAX {
            self.list.push(damage);
        } else {
            self.more += 1;
        }
    }

    /// What a check of columns found. A wrong page was told when all pages were walked.
    pub(super) fn keep<T>(&mut self, found: Result<T, Damage>) -> Option<T> {
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

    /// The same for a check that gives many.
    pub(super) fn keep_all(&mut self, found: Result<Vec<Damage>, Damage>) {
        let found = self.keep(found).unwrap_or_default();
        found.into_iter().for_each(|damage| self.add(damage));
    }

    /// Adds something that is no damage.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(what.into());
        } else {
            self.more_notes += 1;
        }
    }
}
