//! Replication of the metastore: applies change sets of other nodes, and copies the whole state for them.
//!
//! Owns the table `far`, which only this node has: its replication position, written in the same transaction as the
//! replicated rows. The caller defines the content of the position.

use std::cell::RefCell;
use std::ops::Bound;
use std::sync::Arc;

use redb::{ReadTransaction, TableError};

use super::error::ControlError;
use super::far::{Elsewhere, Far};
use super::file::guarded;
use super::operations::{Operation, Operations, TablesDigest};
use super::record::{Record, decode};
use super::schema::{EXPIRIES, TABLE_NAMES};
use super::store::{Control, Meta, VERSION_KEY};
use super::table::{Change, Look, View, table};
use super::tenants::Tenant;

/// Table of this node only; not replicated.
const FAR: &str = "far";
const PLACE: &[u8] = b"place";

/// Receives rows: table, key and value.
pub(crate) type EachRow<'a> =
    &'a mut dyn FnMut(&'static str, &[u8], &[u8]) -> Result<(), ControlError>;

/// A replica that only a running server may change, because several nodes share the store.
pub struct Foreign(pub String);

impl Far for Foreign {
    fn may_read(&self) -> Result<(), ControlError> {
        Ok(())
    }

    fn may_write(&self) -> Result<(), ControlError> {
        Err(ControlError::far(self.0.clone()))
    }

    fn carry(&self, _: &Operations) -> Result<Vec<u8>, ControlError> {
        self.may_write().map(|()| Vec::new())
    }

    fn missed(&self) {}
}

impl Change<'_> {
    /// Records the replication position of this node.
    pub(super) fn keep_place(&self, place: &[u8]) -> Result<(), ControlError> {
        let opened = guarded(|| self.transaction.open_table(table(FAR)));
        opened.and_then(|mut table| guarded(|| table.insert(PLACE, place).map(drop)))
    }

    fn turned(&self) -> TablesDigest {
        self.recorded.as_ref().map(|recorded| recorded.borrow().turned()).unwrap_or_default()
    }

    fn apply(&self, operation: &Operation) -> Result<(), ControlError> {
        let Operation { table, key, value } = operation;
        match value {
            Some(value) => self.insert(table, key, value),
            None => self.delete(table, key),
        }
    }

    fn clear(&self) -> Result<(), ControlError> {
        for name in names() {
            guarded(|| self.transaction.delete_table(table(name)).map(drop))?;
            self.make(name)?;
        }
        Ok(())
    }
}

/// All replicated tables.
fn names() -> impl Iterator<Item = &'static str> {
    TABLE_NAMES.iter().map(|(name, _)| *name).chain([EXPIRIES])
}

fn place_in(transaction: &ReadTransaction) -> Result<Option<Vec<u8>>, ControlError> {
    let opened = match transaction.open_table(table(FAR)) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        opened => guarded(|| opened)?,
    };
    let found = guarded(|| opened.get(PLACE))?;
    Ok(found.map(|found| found.value().to_vec()))
}

/// Passes all rows of a snapshot to `each`, and returns their digest.
fn rows(view: &View<'_>, each: EachRow<'_>) -> Result<TablesDigest, ControlError> {
    let mut digest = TablesDigest::default();
    for name in names() {
        view.walk(name, Bound::Unbounded, |key, value| {
            digest.turn(name, key, value);
            each(name, key, value).map(|()| true)
        })?;
    }
    Ok(digest)
}

impl Control {
    /// Installs the change sink: from now on the store is replicated. Only the first call has an effect.
    pub fn carry_by(&self, far: Arc<dyn Far>) {
        let _the_first_stays = self.far.set(far);
    }

    /// Installs the client for operations that only the leader can perform. Only the first call has an effect.
    pub fn ask_by(&self, elsewhere: Arc<dyn Elsewhere>) {
        let _the_first_stays = self.elsewhere.set(elsewhere);
    }

    /// Returns true if this node may change the store.
    pub fn may_change(&self) -> bool {
        self.far.get().is_none_or(|far| far.may_write().is_ok())
    }

    /// The recorded replication position; `None` if the store was never replicated.
    ///
    /// # Errors
    /// A store error.
    pub fn place(&self) -> Result<Option<Vec<u8>>, ControlError> {
        self.look(|view| place_in(view.transaction))
    }

    /// Records the replication position that `place` returns while no change is in flight; nothing if `None`.
    ///
    /// # Errors
    /// A store error, or a timeout behind another change.
    pub fn keep_place(&self, place: &dyn Fn() -> Option<Vec<u8>>) -> Result<(), ControlError> {
        let _turn = self.turn()?;
        let Some(place) = place() else { return Ok(()) };
        self.transact(|change| change.keep_place(&place), |_| Ok(()))
    }

    /// Number of workspaces, including deleted ones.
    ///
    /// # Errors
    /// A store error.
    pub fn count_tenants(&self) -> Result<u64, ControlError> {
        self.look(|view| view.count(Tenant::TABLE))
    }

    /// Applies a change set of another node, atomically. `kept` receives the change of the digest, and returns the new
    /// replication position.
    ///
    /// # Errors
    /// A store error, or the error of `kept`.
    pub fn apply(
        &self,
        operations: &[Operation],
        kept: impl FnOnce(TablesDigest) -> Result<Vec<u8>, ControlError>,
    ) -> Result<(), ControlError> {
        self.transact(
            |change| operations.iter().try_for_each(|one| change.apply(one)),
            |change| change.keep_place(&kept(change.turned())?),
        )?;
        self.note_latest(operations)
    }

    /// Replaces the whole content. `next` returns the new rows in portions, then `None`; `kept` is as in
    /// [`Control::apply`], with the digest of all rows.
    ///
    /// # Errors
    /// As [`Control::apply`]; on an error the content is unchanged.
    pub fn become_other(
        &self,
        next: &mut dyn FnMut() -> Result<Option<Vec<Operation>>, ControlError>,
        kept: impl FnOnce(TablesDigest) -> Result<Vec<u8>, ControlError>,
    ) -> Result<(), ControlError> {
        let mut last = Vec::new();
        self.transact(
            |change| {
                change.clear()?;
                let mut digest = TablesDigest::default();
                while let Some(operations) = next()? {
                    operations.iter().try_for_each(|one| change.apply(one))?;
                    // Drained per portion: otherwise the recorded operations would be as large as the store.
                    let noted = change.recorded.as_ref().map(RefCell::take).unwrap_or_default();
                    digest.add(&noted.turned());
                    last.extend(operations.into_iter().filter(is_latest));
                }
                change.keep_place(&kept(digest)?)
            },
            |_| Ok(()),
        )?;
        self.note_latest(&last)
    }

    /// Copies a snapshot: calls `begun` while no change is in flight, then passes the rows of that moment to `each`.
    /// Returns their digest.
    ///
    /// # Errors
    /// A store error, an error of `begun` or `each`, or a timeout behind another change.
    pub fn copy_state(
        &self,
        begun: &mut dyn FnMut() -> Result<(), ControlError>,
        each: EachRow<'_>,
    ) -> Result<TablesDigest, ControlError> {
        let mut turn = Some(self.turn()?);
        self.look(|view| {
            begun()?;
            // Other changes may continue; the snapshot is unaffected.
            drop(turn.take());
            rows(view, each)
        })
    }

    /// Updates the clock watermark by the watermark of other nodes (CTL-09).
    fn note_latest(&self, operations: &[Operation]) -> Result<(), ControlError> {
        let metas = operations.iter().filter(|one| is_latest(one));
        for value in metas.filter_map(|one| one.value.as_deref()) {
            self.latest.read(decode::<Meta>(value)?.latest);
        }
        Ok(())
    }
}

fn is_latest(operation: &Operation) -> bool {
    operation.table == Meta::TABLE && operation.key == VERSION_KEY
}
