//! Verification of a backup: all format rules for its stores, its ledgers and the listed files.
//!
//! A single result; `recalld verify DIR` shows all findings.

use std::path::Path;

use engine::os::disk::FsDisk;
use engine::verify;

use crate::place::{Beside, Place};

/// Verifies the entire backup.
///
/// # Errors
/// The first violation, with its rule.
pub fn check(backup: &Path) -> Result<(), String> {
    let own = Place::of(backup);
    let tenants = own.tenants()?;
    for place in std::iter::once(&own).chain(&tenants) {
        let at = |why: String| format!("workspace {}: {why}", place.workspace());
        let disk = FsDisk::open(&place.store()).map_err(|error| at(error.to_string()))?;
        let found = verify(&disk, &mut |_| {}).map_err(|error| at(error.to_string()))?;
        if let Some(finding) = found.findings.first() {
            return Err(at(format!("{}: {}", finding.rule, finding.detail)));
        }
        let Beside { ledger, backup } = place.beside(&|_, _| {});
        match ledger {
            Some(Err(why)) => return Err(at(why)),
            Some(Ok(report)) if !report.ok => {
                let fault = report.fault.map_or_else(String::new, |fault| fault.to_string());
                return Err(at(format!("the ledger: {fault}")));
            }
            _ => {}
        }
        if let Some(finding) = backup.and_then(|backup| backup.findings.into_iter().next()) {
            return Err(finding);
        }
    }
    Ok(())
}
