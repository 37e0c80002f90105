use std::collections::BTreeMap;

use crate::ahead::Ahead;
use crate::core::Mark;
use crate::driver::Driver;
use crate::hex::Hash;
use crate::history::{NotRestored, numbers_above};
use crate::limits::REMOTE_FINDINGS_MAX;
use crate::names::{DataKey, Tenant};
use crate::objects::Away;
use crate::parts::{Shelf, Untransferred};
use crate::record::{Bytes, Kind, Record};

/// Depth of the check of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Existence and length.
    Lengths,
    /// All bytes.
    Bytes,
}

/// Result of a verification.
#[derive(Debug, Default)]
pub struct Checked {
    /// Newest record.
    pub newest: Option<Mark>,
    /// Number of records read.
    pub records: u64,
    /// Number of data objects that records name.
    pub objects: u64,
    /// Bytes of those objects.
    pub bytes: u64,
    /// Findings in words, at most [`REMOTE_FINDINGS_MAX`].
    pub findings: Vec<String>,
}

/// An object that a record names.
struct Named {
    bytes: u64,
    sha256: Hash,
    /// First record that names the object.
    by: u64,
}

/// Reads the record log of a workspace from its low watermark on, with the retained records below, and checks each
/// named object.
///
/// # Errors
/// The storage did not respond.
pub fn verify(driver: &Driver, tenant: &Tenant, look: Look) -> Result<Checked, NotRestored> {
    let mut checked = Checked::default();
    let edge = driver.chain.edge(tenant)?;
    let mut named = BTreeMap::new();
    let mut ahead = Ahead::default();
    let mut read = |number| ahead.read(number, tenant, &*driver.chain);
    for kept in &edge.kept {
        if let Some((_, hash)) = checked.record(read(kept.number)?, kept.number, &mut named)
            && hash != kept.sha256
        {
            checked.find(format!("record {} is not the one that the edge keeps", kept.number));
        }
    }
    let mut before: Option<Mark> = None;
    for number in numbers_above(driver, tenant, &edge)? {
        let Some((record, hash)) = checked.record(read(number)?, number, &mut named) else {
            before = None;
            continue;
        };
        if let Some(before) = &before
            && let Err(damage) = record.check_after(&before.head, before.hash)
        {
            checked.find(damage.to_string());
        }
        before = Some(Mark::new(&record, hash, 0, None));
    }
    checked.newest = before;
    let shelf = Shelf { objects: &*driver.objects, tenant };
    for (key, named) in named {
        if driver.halt.is_raised() {
            return Err(NotRestored::Over);
        }
        checked.object(shelf, key, &named, look)?;
    }
    Ok(checked)
}

impl Checked {
    fn find(&mut self, what: String) {
        if self.findings.len() < REMOTE_FINDINGS_MAX {
            self.findings.push(what);
        }
    }

    /// Checks a record and collects the objects that it names; `None` if the record cannot be read.
    fn record(
        &mut self,
        bytes: Option<Vec<u8>>,
        number: u64,
        named: &mut BTreeMap<DataKey, Named>,
    ) -> Option<(Record, Hash)> {
        let Some(bytes) = bytes else {
            self.find(format!("record {number} is gone"));
            return None;
        };
        self.records += 1;
        match Record::decode(&bytes) {
            Ok((record, hash)) => {
                note(&record, named);
                Some((record, hash))
            }
            Err(damage) => {
                self.find(format!("record {number}: {damage}"));
                None
            }
        }
    }

    fn object(
        &mut self,
        shelf: Shelf<'_>,
        key: DataKey,
        named: &Named,
        look: Look,
    ) -> Result<(), Away> {
        self.objects += 1;
        self.bytes += named.bytes;
        let found = match look {
            Look::Lengths => shelf.check_lengths(key, named.bytes),
            Look::Bytes => shelf.check_bytes(key, named.bytes, named.sha256),
        };
        match found {
            Ok(()) => Ok(()),
            Err(Untransferred::Away(away)) => Err(away),
            Err(why) => {
                self.find(format!("an object of record {}: {why}", named.by));
                Ok(())
            }
        }
    }
}

fn note(record: &Record, named: &mut BTreeMap<DataKey, Named>) {
    let by = record.head.number;
    let mut add = |key: DataKey, bytes: u64, sha256: Hash| {
        named.entry(key).or_insert(Named { bytes, sha256, by });
    };
    match &record.kind {
        Kind::Take | Kind::Give { .. } => {}
        Kind::Step(pieces) => {
            for piece in pieces {
                if let Bytes::Object { key, sha256 } = &piece.bytes {
                    add(*key, piece.to - piece.from, *sha256);
                }
            }
        }
        Kind::Full(full) => {
            full.files.iter().for_each(|file| add(file.key, file.bytes, file.sha256));
            let folds = full.logs.iter().flat_map(|log| &log.folds);
            folds.for_each(|fold| add(fold.key, fold.to - fold.from, fold.sha256));
        }
    }
}
