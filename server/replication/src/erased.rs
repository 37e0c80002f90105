//! Audit that erased data is gone from the storage.
//!
//! An id may legitimately remain in a tombstone, or in the list of items that another one replaced, so its bytes alone
//! prove nothing. Each restorable state that has the bytes is therefore brought into a directory and verified as a
//! store. Bytes that no state explains are reported as remnants.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::os::disk::Disk;
use engine::{ItemId, hex, verify_erased};

use crate::ahead::Ahead;
use crate::driver::Driver;
use crate::follow::LocalCopy;
use crate::hex::Hash;
use crate::history::{NotRestored, readable_numbers};
use crate::limits::{ERASED_OBJECTS_MAX, REMOTE_FINDINGS_MAX};
use crate::names::{Key, Tenant};
use crate::objects::{About, each};
use crate::parts::Shelf;
use crate::record::{Kind, Record};

/// Remnants on the storage of an erased item or edge.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Findings in words, at most [`REMOTE_FINDINGS_MAX`].
    pub found: Vec<String>,
    /// True if a restorable state records the erasure. If none does, nothing is proven.
    pub has_tombstone: bool,
}

/// Searches the storage for remnants of the item or edge `id` of a workspace, and for `phrase` in any bytes. Each state
/// of the workspace that has the id is brought to `disk`, which must be empty.
///
/// # Errors
/// The storage did not respond, or its content is damaged.
pub fn find_erased(
    driver: &Driver,
    tenant: &Tenant,
    (id, phrase): (u128, Option<&str>),
    disk: &Arc<dyn Disk>,
) -> Result<Left, NotRestored> {
    let mut search = Search {
        driver,
        tenant,
        id,
        forms: forms(id),
        phrase: phrase.filter(|phrase| !phrase.is_empty()),
        left: Left::default(),
        unexplained: BTreeSet::new(),
        disk,
        copy: LocalCopy::over(Arc::clone(disk)),
    };
    search.bytes()?;
    // Objects exist before a record names them, and may be removed during the search: a second pass explains the new
    // ones.
    for _ in 0..2 {
        if !search.unexplained.is_empty() {
            search.states()?;
        }
    }
    for key in std::mem::take(&mut search.unexplained) {
        let is_chain = matches!(key, Key::Chain(..));
        if is_chain || driver.objects.head(&key)?.is_some() {
            search.find(format!(
                "{key} has the id, and no state that is kept names it (of what is written just now, ask again)"
            ));
        }
    }
    Ok(search.left)
}

/// Encodings of an id: in a cell, in a manifest, and as shown to users.
fn forms(id: u128) -> [Vec<u8>; 4] {
    let bytes = id.to_le_bytes();
    [
        bytes.to_vec(),
        hex(&bytes).into_bytes(),
        format!("{id:032x}").into_bytes(),
        ItemId(id).to_string().into_bytes(),
    ]
}

struct Search<'a> {
    driver: &'a Driver,
    tenant: &'a Tenant,
    id: u128,
    forms: [Vec<u8>; 4],
    phrase: Option<&'a str>,
    left: Left,
    /// Objects and records that have the id and are not explained yet.
    unexplained: BTreeSet<Key>,
    disk: &'a Arc<dyn Disk>,
    copy: LocalCopy,
}

/// A full record and the step records read behind it.
#[derive(Default)]
struct State {
    records: Vec<Record>,
    /// Keys of the records and of their objects.
    keys: BTreeSet<Key>,
    /// Number of the next record.
    next: u64,
}

impl Search<'_> {
    fn find(&mut self, what: String) {
        if self.left.found.len() < REMOTE_FINDINGS_MAX {
            self.left.found.push(what);
        }
    }

    /// Scans the bytes of all objects of the workspace, including its records.
    fn bytes(&mut self) -> Result<(), NotRestored> {
        let driver = self.driver;
        // End of the previous part, as a match may cross two parts.
        let mut end: Vec<u8> = Vec::new();
        let forms = self.forms.iter().map(Vec::len).max().unwrap_or_default();
        let longest = self.phrase.map_or(0, str::len).max(forms);
        let mut is_chain_here = false;
        each(&*driver.objects, &format!("t/{}/", self.tenant), |About { key, .. }| {
            let Some(bytes) = driver.objects.get(key, None, u64::MAX)? else { return Ok(()) };
            is_chain_here |= matches!(key, Key::Chain(..));
            let goes_on = matches!(key, Key::Data(_, _, part) if *part > 0);
            let joined = if goes_on { [&end[..], &bytes].concat() } else { bytes };
            self.see(key, &joined);
            end = joined[joined.len().saturating_sub(longest)..].to_vec();
            Ok(())
        })?;
        if is_chain_here {
            return self.has_room();
        }
        // A coordinator stores the record log.
        let mut ahead = Ahead::default();
        for number in readable_numbers(driver, self.tenant)? {
            if let Some(bytes) = ahead.read(number, self.tenant, &*driver.chain)? {
                self.see(&Key::Chain(self.tenant.clone(), number), &bytes);
            }
        }
        self.has_room()
    }

    fn see(&mut self, key: &Key, bytes: &[u8]) {
        if let Some(phrase) = self.phrase
            && holds(bytes, phrase.as_bytes())
        {
            self.find(format!("{key} has the phrase"));
        }
        // A ledger retains the ids of erased items.
        let is_ledger = matches!(key, Key::Ledger(..));
        let has_id = !is_ledger && self.forms.iter().any(|form| holds(bytes, form));
        if has_id && self.unexplained.len() <= ERASED_OBJECTS_MAX {
            // All parts of a file count as one object.
            self.unexplained.insert(match key {
                Key::Data(tenant, data, _) => Key::Data(tenant.clone(), *data, 0),
                key => key.clone(),
            });
        }
    }

    fn has_room(&self) -> Result<(), NotRestored> {
        match self.unexplained.len() > ERASED_OBJECTS_MAX {
            true => Err(NotRestored::Away(format!(
                "more than {ERASED_OBJECTS_MAX} objects have the id's bytes"
            ))),
            false => Ok(()),
        }
    }

    /// Verifies each state that has unexplained keys. A full record and all steps behind it are applied at once:
    /// together they have the bytes of all states in between.
    fn states(&mut self) -> Result<(), NotRestored> {
        let (mut state, mut ahead) = (State::default(), Ahead::default());
        for number in readable_numbers(self.driver, self.tenant)? {
            if self.driver.halt.is_raised() {
                return Err(NotRestored::Over);
            }
            // A missing record was removed by a collection meanwhile.
            let read = ahead.read(number, self.tenant, &*self.driver.chain)?;
            let Some(bytes) = read else { continue };
            let (record, _) = Record::decode(&bytes).map_err(NotRestored::Damage)?;
            if matches!(record.kind, Kind::Full(_)) {
                self.look_into(std::mem::take(&mut state))?;
                state.next = number;
            }
            state.add(self.tenant, record, Hash::of(&bytes));
        }
        self.look_into(state)
    }

    fn look_into(&mut self, state: State) -> Result<(), NotRestored> {
        if self.unexplained.is_disjoint(&state.keys) {
            return Ok(());
        }
        let shelf = Shelf { objects: &*self.driver.objects, tenant: self.tenant };
        let goes_on = || !self.driver.halt.is_raised();
        self.copy.apply(shelf, &state.records, &goes_on).map_err(NotRestored::Files)?;
        self.copy.clear().map_err(|error| NotRestored::Files(error.into()))?;
        let last = state.next - 1;
        let looked = verify_erased(&**self.disk, self.id, self.phrase, &mut |_| {});
        let erasure = looked.map_err(|error| NotRestored::Away(error.to_string()))?;
        self.left.has_tombstone |= erasure.has_tombstone;
        // If the erasure is not proven, one finding is reported for the state, not one for each object.
        self.unexplained.retain(|key| !state.keys.contains(key));
        if erasure.is_proven() {
            return Ok(());
        }
        let whole = match () {
            () if erasure.is_pending => Some("its erasure is still pending".to_owned()),
            () if !erasure.has_tombstone => Some("nothing says that it was erased".to_owned()),
            () => erasure.report.findings.first().map(ToString::to_string),
        };
        for why in whole.into_iter().chain(erasure.unproven_reasons) {
            self.find(format!("as of record {last}: {why}"));
        }
        Ok(())
    }
}

impl State {
    /// Adds the next record. After a gap, no record can be restored until the next full record.
    fn add(&mut self, tenant: &Tenant, record: Record, of_bytes: Hash) {
        let number = record.head.number;
        if number != self.next {
            return;
        }
        self.next = number + 1;
        self.keys.insert(Key::Chain(tenant.clone(), number));
        self.keys.insert(Key::Body(tenant.clone(), number, of_bytes.half()));
        let data = record.keys().into_iter();
        self.keys.extend(data.map(|data| Key::Data(tenant.clone(), data, 0)));
        self.records.push(record);
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|part| part == wanted)
}
