//! Looking through what lies on the storage: whether chains and objects are what they must be, and whether some
//! bytes are anywhere.

use std::collections::BTreeMap;

use crate::ahead::Ahead;
use crate::core::Mark;
use crate::driver::Driver;
use crate::hex::Hash;
use crate::history::{NotRestored, numbers_above};
use crate::limits::REMOTE_FINDINGS_MAX;
use crate::names::{DataKey, Key, Tenant};
use crate::objects::{About, Away, each};
use crate::parts::{Shelf, Untransferred};
use crate::record::{Bytes, Kind, Record};

/// How closely objects are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Whether they are there, in their length.
    Lengths,
    /// All their bytes.
    Bytes,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Checked {
    /// The newest record.
    pub newest: Option<Mark>,
    /// Records that were read.
    pub records: u64,
    /// Objects of data that records name.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is wrong, at most [`REMOTE_FINDINGS_MAX`] of it.
    pub findings: Vec<String>,
}

/// An object that some record names.
struct Named {
    bytes: u64,
    sha256: Hash,
    /// The first record that names it.
    by: u64,
}

/// Reads the chain of a workspace from its edge on, with what is kept below, and looks at every object that it names.
///
/// # Errors
/// The storage did not answer.
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

    /// A record, and the objects that it names. `None` where it cannot be read.
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

/// Bytes that are looked for.
#[derive(Debug, Clone)]
pub struct Sought {
    /// They themselves.
    pub bytes: Vec<u8>,
    /// Whether they must not be in ledgers either.
    pub in_ledgers: bool,
}

/// The objects of a workspace, records and all, that have one of these runs of bytes in them.
///
/// # Errors
/// The storage did not answer.
pub fn find_bytes(
    driver: &Driver,
    tenant: &Tenant,
    wanted: &[Sought],
) -> Result<Vec<String>, Away> {
    let mut found = Vec::new();
    let longest = wanted.iter().map(|one| one.bytes.len()).max().unwrap_or_default();
    let has = |bytes: &[u8]| wanted.iter().any(|one| holds(bytes, &one.bytes));
    let has_in_ledger =
        |bytes: &[u8]| wanted.iter().any(|one| one.in_ledgers && holds(bytes, &one.bytes));
    // The end of the part before, since what is looked for may lie across two.
    let mut end: Vec<u8> = Vec::new();
    let mut is_chain_here = false;
    each(&*driver.objects, &format!("t/{tenant}/"), |About { key, .. }| {
        let Some(bytes) = driver.objects.get(key, None, u64::MAX)? else { return Ok(()) };
        is_chain_here |= matches!(key, Key::Chain(..));
        let goes_on = matches!(key, Key::Data(_, _, part) if *part > 0);
        let joined = if goes_on { [&end[..], &bytes].concat() } else { bytes };
        let is_found = match key {
            Key::Ledger(..) => has_in_ledger(&joined),
            _ => has(&joined),
        };
        if is_found && found.len() < REMOTE_FINDINGS_MAX {
            found.push(key.to_string());
        }
        end = joined[joined.len().saturating_sub(longest)..].to_vec();
        Ok(())
    })?;
    if !is_chain_here {
        found.append(&mut in_chain(driver, tenant, has)?);
    }
    Ok(found)
}

/// The same of a chain that is not kept among the objects.
fn in_chain(
    driver: &Driver,
    tenant: &Tenant,
    has: impl Fn(&[u8]) -> bool,
) -> Result<Vec<String>, Away> {
    let mut found = Vec::new();
    let edge = driver.chain.edge(tenant)?;
    let kept = edge.kept.iter().map(|kept| kept.number);
    for number in kept.chain(numbers_above(driver, tenant, &edge)?) {
        if driver.chain.read(tenant, number)?.is_some_and(|bytes| has(&bytes)) {
            found.push(format!("record {number}"));
        }
    }
    Ok(found)
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    !wanted.is_empty() && bytes.windows(wanted.len()).any(|part| part == wanted)
}
