use std::sync::Arc;

use engine::DiskError;
use engine::os::disk::Disk;

use super::copy::LocalCopy;
use super::error::NotApplied;
use super::partial::PartialDisk;
use crate::core::{Follower, Found, Mark, Polled};
use crate::driver::Driver;
use crate::fault::Damage;
use crate::names::Tenant;
use crate::objects::Away;
use crate::parts::{Shelf, Untransferred};
use crate::ticks::Ticks;

/// Log tailer: polls the record log of a workspace and brings its local files to the newest record.
#[derive(Debug)]
pub struct Tracker {
    driver: Driver,
    tenant: Tenant,
    follower: Follower,
    copy: LocalCopy,
    /// Time since which the current record is known.
    at_since: Ticks,
}

/// Outcome of one poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// No newer record.
    Newest,
    /// The record log is empty.
    Empty,
    /// The files are at a newer record. The times of the applied records are given, in microseconds since 1970. Readers
    /// of the files must be notified before [`Tracker::settled`].
    On(Vec<i64>),
    /// The poll failed; the next one may succeed.
    Away(String),
    /// The next record is damaged; nothing more is applied.
    Damage(Damage),
    /// The local disk failed.
    Disk(String),
    /// The shutdown signal was raised.
    Over,
}

impl Tracker {
    /// Creates a log tailer on a directory whose lock the caller has. Existing files are reused if they match the
    /// records.
    #[must_use]
    pub fn new(driver: Driver, tenant: Tenant, disk: Arc<dyn Disk>) -> Self {
        Self::keeping(driver, tenant, LocalCopy::over(disk))
    }

    /// Creates a log tailer on a lazy directory: missing segments are fetched on use.
    #[must_use]
    pub fn filling(driver: Driver, tenant: Tenant, kept: Arc<PartialDisk>) -> Self {
        Self::keeping(driver, tenant, LocalCopy::filling(kept))
    }

    fn keeping(driver: Driver, tenant: Tenant, copy: LocalCopy) -> Self {
        Self { driver, tenant, follower: Follower::new(None), copy, at_since: Ticks(0) }
    }

    /// Replaces the driver, for example by one with its own shutdown signal.
    pub fn drive_with(&mut self, driver: Driver) {
        self.driver = driver;
    }

    /// Returns true if there is a store to open.
    #[must_use]
    pub fn is_store(&self) -> bool {
        self.copy.is_store()
    }

    /// Record whose state the files have.
    #[must_use]
    pub fn at(&self) -> Option<&Mark> {
        self.follower.at()
    }

    /// Time since which that record is known.
    #[must_use]
    pub fn at_since(&self) -> Ticks {
        self.at_since
    }

    /// Freshness: everything acknowledged before this time is in the files; `None` if unknown.
    #[must_use]
    pub fn fresh(&self) -> Option<Ticks> {
        self.follower.fresh()
    }

    /// Polls the record log and applies new records to the files.
    pub fn look(&mut self) -> Moved {
        let Self { driver, tenant, follower, .. } = self;
        match driver.run(tenant, async |port| follower.poll(&port).await) {
            None => Moved::Over,
            Some(polled) => self.bring(polled),
        }
    }

    /// Applies the found records; for a log tailer without a position.
    pub fn start(&mut self, found: Found) -> Moved {
        let polled = self.follower.start(found);
        self.bring(polled)
    }

    fn bring(&mut self, polled: Polled) -> Moved {
        let records = match polled {
            Polled::Newest => return Moved::Newest,
            Polled::Empty => return Moved::Empty,
            Polled::Away(Away { why, .. }) => return Moved::Away(why),
            Polled::Damage(damage) => return Moved::Damage(damage),
            Polled::Records(records) => records,
        };
        let Self { driver, tenant, follower, copy, .. } = self;
        let shelf = Shelf { objects: &*driver.objects, tenant };
        let applied = copy.apply(shelf, &records, &|| !driver.halt.is_raised());
        match applied {
            Ok(()) => Moved::On(records.iter().map(|record| record.head.at).collect()),
            Err(NotApplied::Untransferred(Untransferred::Gone(_))) => {
                // The record log has moved on, and this record is history.
                follower.begin_again();
                Moved::Away("an object is gone; the newest record is looked for".into())
            }
            Err(NotApplied::Untransferred(Untransferred::Stopped)) => Moved::Over,
            Err(NotApplied::Untransferred(Untransferred::Other(why))) => {
                Moved::Damage(Damage::new("REM-05", why))
            }
            Err(NotApplied::Untransferred(why)) => Moved::Away(why.to_string()),
            Err(NotApplied::Wrong(why)) => Moved::Damage(Damage::new("REM-04", why)),
            Err(NotApplied::Disk(error)) => Moved::Disk(error.to_string()),
        }
    }

    /// Completes the last poll once all readers use the new files: removes the replaced ones.
    ///
    /// # Errors
    /// The directory failed.
    pub fn settled(&mut self) -> Result<(), DiskError> {
        let before = self.at().map(|at| at.hash);
        self.follower.applied();
        if self.at().map(|at| at.hash) != before {
            self.at_since = self.driver.ticks.now();
        }
        self.copy.clear()
    }

    /// Syncs the files, so that they survive a power cut. Required before this node writes the store.
    ///
    /// # Errors
    /// The directory failed.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.copy.sync()
    }
}
