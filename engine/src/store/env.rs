//! Environment of a store: its disk, clock, randomness and replication sink, injected so that tests can replace them.

use std::path::Path;
use std::sync::Arc;

use crate::error::DiskError;
use crate::os::clock::{Clock, Random, SystemClock, SystemRandom};
use crate::os::disk::{Disk, FsDisk};
use crate::store::replication_sink::ReplicationSink;

/// Environment of a store; a test can replace each part.
#[derive(Debug, Clone)]
pub struct Env {
    /// Directory of the store.
    pub disk: Arc<dyn Disk>,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Source of random bytes.
    pub random: Arc<dyn Random>,
    /// Replication sink; `None` for a store without replication.
    pub replication_sink: Option<Arc<dyn ReplicationSink>>,
}

impl Env {
    /// Environment on a directory of the real file system, the machine's clock and the kernel's randomness.
    pub fn on_disk(root: &Path) -> Result<Self, DiskError> {
        Ok(Self {
            disk: Arc::new(FsDisk::open(root)?),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            replication_sink: None,
        })
    }
}
