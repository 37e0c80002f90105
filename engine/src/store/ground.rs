//! What a store stands on: the disk, the clock, randomness, and what carries its bytes away, none of which
//! it makes itself.
//!
//! Owns the choice of the real ones. A test puts its own in their place.

use std::path::Path;
use std::sync::Arc;

use crate::error::DiskError;
use crate::os::clock::{Clock, Random, SystemClock, SystemRandom};
use crate::os::disk::{Disk, RealDisk};
use crate::store::far::Far;

/// What the store stands on: all of it can be replaced in a test.
#[derive(Debug, Clone)]
pub struct Ground {
    /// Its directory.
    pub disk: Arc<dyn Disk>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// What carries the store away from this machine, if anything does.
    pub far: Option<Arc<dyn Far>>,
}

impl Ground {
    /// A directory of the real file system, the machine's clock and the kernel's randomness.
    pub fn real(root: &Path) -> Result<Self, DiskError> {
        Ok(Self {
            disk: Arc::new(RealDisk::open(root)?),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            far: None,
        })
    }
}
