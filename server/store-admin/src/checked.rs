//! Whether a backup is sound: every rule of the format over each of its stores, its ledgers, and the files that it
//! lists. What `recalld verify DIR` shows in full, as one answer.

use std::path::Path;

use engine::os::disk::RealDisk;
use engine::verify;

use crate::place::{Beside, Place};

/// Reads all of it.
///
/// # Errors
/// The first thing that is wrong, with its rule.
pub fn check(backup: &Path) -> Result<(), String> {
    let own = Place::of(backup);
    let tenants = own.tenants()?;
    for place in std::iter::once(&own).chain(&tenants) {
        let at = |why: String| format!("workspace {}: {why}", place.workspace());
        let disk = RealDisk::open(&place.store()).map_err(|error| at(error.to_string()))?;
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
