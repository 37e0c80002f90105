//! Typed tables within one transaction: find, list, put, remove, and the expiry of records.
//!
//! Owns the mapping from a record type to its table, and `expiries`, which has one entry for each record that expires.
//! Must not know the meaning of records.

use std::cell::RefCell;
use std::ops::Bound;

use redb::{
    AccessGuard, ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};

use super::error::ControlError;
use super::file::guarded;
use super::operations::Operations;
use super::record::{Record, decode, encode};
use super::schema::EXPIRIES;

/// Key and value type of every table.
type Bytes = &'static [u8];

const TIME_BYTES: usize = 8;

pub(super) fn table(name: &'static str) -> TableDefinition<'static, Bytes, Bytes> {
    TableDefinition::new(name)
}

/// An entry of `expiries`: the table and key of a record to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expiry {
    pub(super) at: u64,
    pub(super) number: u8,
    pub(super) key: Vec<u8>,
}

impl Expiry {
    /// Time, table, key. The time is big-endian, so keys are ordered by time.
    pub(super) fn bytes(&self) -> Vec<u8> {
        #[expect(clippy::big_endian_bytes, reason = "keys are ordered by their bytes")]
        let time = self.at.to_be_bytes();
        [&time[..], &[self.number], &self.key].concat()
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, ControlError> {
        let (time, rest) = bytes.split_first_chunk::<TIME_BYTES>().unzip();
        let parts = time.zip(rest.and_then(<[u8]>::split_first));
        let (time, (number, key)) =
            parts.ok_or_else(|| ControlError::damaged(EXPIRIES, "a key is too short"))?;
        #[expect(clippy::big_endian_bytes, reason = "keys are ordered by their bytes")]
        let at = u64::from_be_bytes(*time);
        Ok(Self { at, number: *number, key: key.to_vec() })
    }
}

pub(super) type Entry<R> = (Vec<u8>, R);

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of entries of one page of any list.
    pub const LISTED_MAX: usize = 256;
}

/// Queries within a transaction.
pub(super) trait Look {
    /// Calls `read` with the value of `key`, if any.
    fn value<T>(
        &self,
        name: &'static str,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> Result<T, ControlError>,
    ) -> Result<Option<T>, ControlError>;

    /// Calls `each` with keys and values from `from` on, until it returns false.
    fn walk(
        &self,
        name: &'static str,
        from: Bound<&[u8]>,
        each: impl FnMut(&[u8], &[u8]) -> Result<bool, ControlError>,
    ) -> Result<(), ControlError>;

    /// Number of keys of a table.
    fn count(&self, name: &'static str) -> Result<u64, ControlError>;

    /// The record of `key`.
    fn find<R: Record>(&self, key: &[u8]) -> Result<Option<R>, ControlError> {
        self.value(R::TABLE, key, decode)
    }

    /// Records with keys that begin with `prefix` and follow `after`, in order, at most `most`.
    fn list<R: Record>(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Vec<Entry<R>>, ControlError> {
        let mut found = Vec::new();
        let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
        self.walk(R::TABLE, from, |key, value| {
            if !key.starts_with(prefix) || found.len() >= most {
                return Ok(false);
            }
            found.push((key.to_vec(), decode(value)?));
            Ok(true)
        })?;
        Ok(found)
    }

    /// Number of keys that begin with `prefix`, at most `most`; records are not decoded.
    fn count_of<R: Record>(&self, prefix: &[u8], most: usize) -> Result<usize, ControlError> {
        let mut found = 0;
        self.walk(R::TABLE, Bound::Included(prefix), |key, _| {
            let is_one = key.starts_with(prefix) && found < most;
            found += usize::from(is_one);
            Ok(is_one)
        })?;
        Ok(found)
    }

    /// Entries that have expired by `now`, earliest first, at most `most`.
    fn over(&self, now: u64, most: usize) -> Result<Vec<Expiry>, ControlError> {
        let mut found = Vec::new();
        self.walk(EXPIRIES, Bound::Unbounded, |key, _| {
            let expiry = Expiry::read(key)?;
            if expiry.at > now || found.len() >= most {
                return Ok(false);
            }
            found.push(expiry);
            Ok(true)
        })?;
        Ok(found)
    }
}

/// Records the fault of an operation, after which the file must be reopened.
#[derive(Debug, Default)]
pub(super) struct Health(RefCell<Option<ControlError>>);

impl Health {
    /// The worst fault so far: a fault of the file is worse than that of a record.
    pub(super) fn fault(&self) -> Option<ControlError> {
        self.0.borrow().clone()
    }

    fn noted<T>(&self, done: Result<T, ControlError>) -> Result<T, ControlError> {
        if let Err(why) = &done {
            let mut known = self.0.borrow_mut();
            let is_worse =
                why.is_of_file() && !known.as_ref().is_some_and(ControlError::is_of_file);
            if is_worse || (known.is_none() && why.is_fault()) {
                *known = Some(why.clone());
            }
        }
        done
    }
}

/// A read transaction.
pub(super) struct View<'a> {
    pub(super) transaction: &'a ReadTransaction,
    pub(super) health: &'a Health,
}

/// A write transaction, atomic.
pub(super) struct Change<'a> {
    pub(super) transaction: &'a WriteTransaction,
    pub(super) health: &'a Health,
    /// The change set so far, if the store is replicated.
    pub(super) recorded: Option<RefCell<Operations>>,
}

fn value_in<T>(
    table: &impl ReadableTable<Bytes, Bytes>,
    key: &[u8],
    read: impl FnOnce(&[u8]) -> Result<T, ControlError>,
) -> Result<Option<T>, ControlError> {
    let found = guarded(|| table.get(key))?;
    found.map(|guard| read(guard.value())).transpose()
}

fn walk_in(
    table: &impl ReadableTable<Bytes, Bytes>,
    from: Bound<&[u8]>,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<bool, ControlError>,
) -> Result<(), ControlError> {
    let mut entries = guarded(|| table.range::<&[u8]>((from, Bound::Unbounded)))?;
    while let Some((key, value)) = guarded(|| entries.next().transpose())? {
        if !each(key.value(), value.value())? {
            break;
        }
    }
    Ok(())
}

/// Identical code for two types of transactions, whose tables have different types.
macro_rules! look {
    ($($way:ident)*) => {$(
        impl Look for $way<'_> {
            fn value<T>(
                &self,
                name: &'static str,
                key: &[u8],
                read: impl FnOnce(&[u8]) -> Result<T, ControlError>,
            ) -> Result<Option<T>, ControlError> {
                let opened = guarded(|| self.transaction.open_table(table(name)));
                self.health.noted(opened.and_then(|table| value_in(&table, key, read)))
            }

            fn walk(
                &self,
                name: &'static str,
                from: Bound<&[u8]>,
                each: impl FnMut(&[u8], &[u8]) -> Result<bool, ControlError>,
            ) -> Result<(), ControlError> {
                let opened = guarded(|| self.transaction.open_table(table(name)));
                self.health.noted(opened.and_then(|table| walk_in(&table, from, each)))
            }

            fn count(&self, name: &'static str) -> Result<u64, ControlError> {
                let opened = guarded(|| self.transaction.open_table(table(name)));
                self.health.noted(opened.and_then(|table| guarded(|| table.len())))
            }
        }
    )*};
}

look!(View Change);

impl Change<'_> {
    /// Creates the table if it does not exist.
    pub(super) fn make(&self, name: &'static str) -> Result<(), ControlError> {
        let made = guarded(|| self.transaction.open_table(table(name)).map(drop));
        self.health.noted(made)
    }

    /// Stores `record` at `key`, and updates its entry in `expiries`.
    pub(super) fn put<R: Record>(&self, key: &[u8], record: &R) -> Result<(), ControlError> {
        let bytes = encode(record)?;
        let before = self.find::<R>(key)?.and_then(|record| record.removed_at());
        self.insert(R::TABLE, key, &bytes)?;
        self.move_expiry::<R>(key, before, record.removed_at())
    }

    /// Removes and returns the record of `key`, with its entry in `expiries`.
    pub(super) fn remove<R: Record>(&self, key: &[u8]) -> Result<Option<R>, ControlError> {
        let Some(record) = self.find::<R>(key)? else { return Ok(None) };
        self.delete(R::TABLE, key)?;
        self.move_expiry::<R>(key, record.removed_at(), None)?;
        Ok(Some(record))
    }

    /// Removes an entry of `expiries` whose record does not exist.
    pub(super) fn forget(&self, expiry: &Expiry) -> Result<(), ControlError> {
        self.delete(EXPIRIES, &expiry.bytes())
    }

    fn move_expiry<R: Record>(
        &self,
        key: &[u8],
        before: Option<u64>,
        after: Option<u64>,
    ) -> Result<(), ControlError> {
        if before == after {
            return Ok(());
        }
        let entry = |at| Expiry { at, number: R::NUMBER, key: key.to_vec() }.bytes();
        before.map_or(Ok(()), |at| self.delete(EXPIRIES, &entry(at)))?;
        after.map_or(Ok(()), |at| self.insert(EXPIRIES, &entry(at), &[]))
    }

    pub(super) fn insert(
        &self,
        name: &'static str,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), ControlError> {
        let opened = guarded(|| self.transaction.open_table(table(name)));
        let put = opened.and_then(|mut table| {
            guarded(|| {
                let before = table.insert(key, value)?;
                self.note(name, key, before.as_ref().map(AccessGuard::value), Some(value));
                Ok::<(), redb::StorageError>(())
            })
        });
        self.health.noted(put)
    }

    /// Adds a row change to the change set, if recorded.
    fn note(&self, name: &str, key: &[u8], before: Option<&[u8]>, after: Option<&[u8]>) {
        let Some(recorded) = &self.recorded else { return };
        let mut recorded = recorded.borrow_mut();
        for value in [before, after].into_iter().flatten() {
            recorded.turned.turn(name, key, value);
        }
        recorded.push(name, key, after);
    }

    pub(super) fn delete(&self, name: &'static str, key: &[u8]) -> Result<(), ControlError> {
        let opened = guarded(|| self.transaction.open_table(table(name)));
        let removed = opened.and_then(|mut table| {
            guarded(|| {
                let before = table.remove(key)?;
                if let Some(before) = &before {
                    self.note(name, key, Some(before.value()), None);
                }
                Ok::<(), redb::StorageError>(())
            })
        });
        self.health.noted(removed)
    }
}
