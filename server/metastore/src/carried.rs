//! A control store that is one of several: what others changed comes in, and a copy of all goes out.
//!
//! Owns the table `far`, which is this node's alone: how far it is, in the same transaction as what it has. What that
//! says is for whoever carries.

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

/// Of this node alone: no other one gets it.
const FAR: &str = "far";
const PLACE: &[u8] = b"place";

/// Told of rows: table, key and value.
pub(crate) type EachRow<'a> =
    &'a mut dyn FnMut(&'static str, &[u8], &[u8]) -> Result<(), ControlError>;

/// A store that only a server may change, since it is one of several nodes'.
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
    /// Keeps how far this node is.
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

/// All tables but this node's own.
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

/// All rows of a state, and what they make.
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
    /// From now on it is one of several. The first stays.
    pub fn carry_by(&self, far: Arc<dyn Far>) {
        let _the_first_stays = self.far.set(far);
    }

    /// From now on, what only the node that changes the store can do is asked of it this way. The first stays.
    pub fn ask_by(&self, elsewhere: Arc<dyn Elsewhere>) {
        let _the_first_stays = self.elsewhere.set(elsewhere);
    }

    /// Whether it can be changed on this node.
    pub fn may_change(&self) -> bool {
        self.far.get().is_none_or(|far| far.may_write().is_ok())
    }

    /// How far it is, as it was kept; `None` where it never was one of several.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn place(&self) -> Result<Option<Vec<u8>>, ControlError> {
        self.look(|view| place_in(view.transaction))
    }

    /// Keeps how far it is, as `place` says while nothing is on its way; nothing where it says nothing.
    ///
    /// # Errors
    /// A fault of the store, or a change that takes too long.
    pub fn keep_place(&self, place: &dyn Fn() -> Option<Vec<u8>>) -> Result<(), ControlError> {
        let _turn = self.turn()?;
        let Some(place) = place() else { return Ok(()) };
        self.transact(|change| change.keep_place(&place), |_| Ok(()))
    }

    /// How many workspaces are on record.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn count_tenants(&self) -> Result<u64, ControlError> {
        self.look(|view| view.count(Tenant::TABLE))
    }

    /// Takes in what others changed, all of it or nothing. `kept` is given what it did to the digest, and says how far
    /// this store is then.
    ///
    /// # Errors
    /// A fault of the store, or what `kept` found.
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

    /// Becomes another store. `next` gives its rows, some at a time, until there are none; `kept` is as in
    /// [`Control::apply`], of all rows.
    ///
    /// # Errors
    /// As there; this one is as it was then.
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
                    // Taken some at a time: what is noted would be all of the store.
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

    /// Copies one state: `begun` is called at a moment at which nothing is on its way, and `each` is given the rows of
    /// just then. Gives what they make.
    ///
    /// # Errors
    /// A fault of the store, what `each` found, or a change that takes too long.
    pub fn copy_state(
        &self,
        begun: &mut dyn FnMut() -> Result<(), ControlError>,
        each: EachRow<'_>,
    ) -> Result<TablesDigest, ControlError> {
        let mut turn = Some(self.turn()?);
        self.look(|view| {
            begun()?;
            // Others go on: this state stays what it is.
            drop(turn.take());
            rows(view, each)
        })
    }

    /// The latest time that others have seen counts here, too (CTL-09).
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
