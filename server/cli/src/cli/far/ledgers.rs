//! Ledgers that nodes uploaded to a remote: their check and download.

use std::fmt;
use std::fs;
use std::path::Path;

use engine::ledger::{CheckpointVerifier, KeyId, Signature, VerifyOptions, verify};
use recalld_replication::{LedgerThere, NotFetched, Tenant, ledgers};
use serde_json::{Value, json};

use super::Far;
use crate::cli::failure::Failure;
use crate::cli::scratch::Scratch;
use recalld_common::counted::counted;

/// Accepts every seal, because no keys are available here. `recalld ledger verify --folder` checks signatures.
struct AnySeal;

impl CheckpointVerifier for AnySeal {
    fn is_valid(&self, _key: KeyId, _message: &[u8], _signature: &Signature) -> bool {
        true
    }
}

/// The summary of one inspected ledger.
pub(super) struct Seen {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Number of chained entries; `None` if they were not read.
    pub(super) entries: Option<u64>,
    pub(super) finding: Option<String>,
}

impl Seen {
    pub(super) fn to_json(&self) -> Value {
        let Self { name, bytes, entries, finding } = self;
        json!({"ledger": name, "bytes": bytes, "entries": entries, "finding": finding})
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ledger {}: ", self.name)?;
        if let Some(entries) = self.entries {
            write!(f, "{}, ", counted(entries, "entry"))?;
        }
        let found = self.finding.as_deref().unwrap_or("all as it must be");
        write!(f, "{} bytes: {found}", self.bytes)
    }
}

/// Folder name of a downloaded ledger.
fn name_of(ledger: &LedgerThere) -> String {
    format!("{}-{}", ledger.node, &ledger.lineage.to_string()[..8])
}

/// Inspects the ledgers of a workspace. With `reads_all`, also verifies that their entries are chained.
pub(super) fn look(far: &Far, tenant: &Tenant, reads_all: bool) -> Result<Vec<Seen>, Failure> {
    let objects = &*far.driver.objects;
    let there = ledgers(objects, tenant).map_err(|away| far.could(away))?;
    let mut seen = Vec::with_capacity(there.len());
    let scratch = Scratch::create("recalld-ledgers")?;
    for ledger in there {
        let (name, bytes) = (name_of(&ledger), ledger.bytes());
        if !reads_all {
            let finding = ledger.hole();
            seen.push(Seen { name, bytes, entries: None, finding });
            continue;
        }
        let folder = scratch.path().join(&name);
        let (entries, finding) = match ledger.fetch(objects, tenant, &folder) {
            Err(why @ NotFetched::Damaged(_)) => (None, Some(why.to_string())),
            Err(why) => return Err(far.could(why)),
            Ok(()) => {
                let report = verify(&folder, &VerifyOptions::all(&AnySeal));
                let report = report.map_err(Failure::could)?;
                fs::remove_dir_all(&folder).map_err(Failure::could)?;
                (Some(report.entries), report.fault.map(|fault| fault.to_string()))
            }
        };
        seen.push(Seen { name, bytes, entries, finding });
    }
    Ok(seen)
}

/// Downloads the ledgers of a workspace into folders of `into` and returns their number.
pub(super) fn bring_back(far: &Far, tenant: &Tenant, into: &Path) -> Result<usize, Failure> {
    let objects = &*far.driver.objects;
    let there = ledgers(objects, tenant).map_err(|away| far.could(away))?;
    for ledger in &there {
        let folder = into.join(name_of(ledger));
        ledger.fetch(objects, tenant, &folder).map_err(|why| far.could(why))?;
    }
    Ok(there.len())
}
