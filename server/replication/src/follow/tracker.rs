//! A reader's place in a chain and the files that go with it, moved on together.

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

/// A workspace as far as it was followed.
#[derive(Debug)]
pub struct Tracker {
    driver: Driver,
    tenant: Tenant,
    follower: Follower,
    copy: LocalCopy,
    /// Since when its record is known.
    at_since: Ticks,
}

/// What one look at the chain came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// There was nothing newer.
    Newest,
    /// The chain has no record.
    Empty,
    /// The files are as of a newer record. Those that led to it were made at these times (microseconds since 1970).
    /// Whoever reads the files is to be told, and then [`Tracker::settled`].
    On(Vec<i64>),
    /// Not this time; the next look may.
    Away(String),
    /// What comes next cannot be; nothing more is applied.
    Damage(Damage),
    /// This machine's disk failed.
    Disk(String),
    /// All was over first.
    Over,
}

impl Tracker {
    /// Over a directory whose lock whoever calls this has. What is in it is used where it is what the chain says.
    #[must_use]
    pub fn new(driver: Driver, tenant: Tenant, disk: Arc<dyn Disk>) -> Self {
        Self::keeping(driver, tenant, LocalCopy::over(disk))
    }

    /// The same, where a segment that is not here is fetched when it is used.
    #[must_use]
    pub fn filling(driver: Driver, tenant: Tenant, kept: Arc<PartialDisk>) -> Self {
        Self::keeping(driver, tenant, LocalCopy::filling(kept))
    }

    fn keeping(driver: Driver, tenant: Tenant, copy: LocalCopy) -> Self {
        Self { driver, tenant, follower: Follower::new(None), copy, at_since: Ticks(0) }
    }

    /// From now on it is driven by this, which may be ended by itself.
    pub fn drive_with(&mut self, driver: Driver) {
        self.driver = driver;
    }

    /// Whether there is a store to open.
    #[must_use]
    pub fn is_store(&self) -> bool {
        self.copy.is_store()
    }

    /// The record that the files are as of.
    #[must_use]
    pub fn at(&self) -> Option<&Mark> {
        self.follower.at()
    }

    /// A moment since which that record is known.
    #[must_use]
    pub fn at_since(&self) -> Ticks {
        self.at_since
    }

    /// A moment such that all that was acknowledged before it is in the files; `None` where that is not known.
    #[must_use]
    pub fn fresh(&self) -> Option<Ticks> {
        self.follower.fresh()
    }

    /// Looks whether there is more, and brings the files to it.
    pub fn look(&mut self) -> Moved {
        let Self { driver, tenant, follower, .. } = self;
        match driver.run(tenant, async |port| follower.poll(&port).await) {
            None => Moved::Over,
            Some(polled) => self.bring(polled),
        }
    }

    /// Brings the files to what was found for a reader who has nothing yet.
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
                // The chain went on, and this record is history.
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

    /// Whoever reads the files has what the last look brought: what was left behind goes.
    ///
    /// # Errors
    /// The directory.
    pub fn settled(&mut self) -> Result<(), DiskError> {
        let before = self.at().map(|at| at.hash);
        self.follower.applied();
        if self.at().map(|at| at.hash) != before {
            self.at_since = self.driver.ticks.now();
        }
        self.copy.clear()
    }

    /// Returns once the files survive a power cut, as whoever is about to write the store must know.
    ///
    /// # Errors
    /// The directory.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.copy.sync()
    }
}
