//! Replication sink: the receiver of log and manifest events that copies a store off this machine.
//!
//! Defines the events and the data passed with them; networks, objects and their layout are the sink's concern.

use std::fmt::Debug;

use crate::ids::Seq;
use crate::layout::{self, FileKind};
pub use crate::manifest::{ListedFile, ManifestView};
use crate::os::disk::{Disk, DiskRead};
pub use crate::wal::WalPosition;

/// Receiver of log and manifest events that copies a store off this machine.
///
/// All methods but [`Self::wait_replicated`] are called under the writer's lock or while a write waits: they
/// must be quick, wait for no network and call nothing of the store. Events about one log, or about manifests, may
/// arrive out of order, from several threads; the smaller event then has no new information.
pub trait ReplicationSink: Send + Sync + Debug {
    /// Returns true if a write is acknowledged, and visible, only once it is replicated. Constant while a store is
    /// open.
    fn is_synchronous(&self) -> bool;

    /// Decides if a batch may be logged now, with `waiting` earlier writes in flight. Called before any of the batch is
    /// written.
    ///
    /// # Errors
    /// Why the batch is rejected; nothing is written then.
    fn admit(&self, waiting: usize) -> Result<(), SinkRejectedError>;

    /// A log was created, or found by the open. The file stays readable after its name is removed, and grows; bytes
    /// before any reported position never change.
    fn on_log_created(&self, mark: WalPosition, file: Box<dyn DiskRead>);

    /// A log is on this machine's disk up to `mark`.
    fn on_log_synced(&self, mark: WalPosition);

    /// A manifest was published, or found by the open. The manifest's files all exist during the call, and may be
    /// removed after the call.
    fn on_manifest_published(&self, published: &PublishedManifest<'_>);

    /// An index file was completed. No manifest lists indexes; an index is removed with its segment.
    fn on_index_created(&self, name: &str, disk: &dyn Disk);

    /// Blocks until all commits up to `seq`, which the store has reported before, survive the loss of this machine.
    ///
    /// Called by one thread at a time, without any lock of the store, and only if the sink is
    /// [synchronous](Self::is_synchronous). The call must give up after a bounded time. If the sink replicates the
    /// commits later, it must then call [`Store::release_replicated`](crate::Store::release_replicated).
    ///
    /// # Errors
    /// The commits are not replicated, or their outcome is unknown.
    fn wait_replicated(&self, seq: Seq) -> Result<(), ReplicationError>;

    /// Newest commit that may be visible: all commits up to it are replicated, or were acknowledged before replication
    /// began. Never decreases.
    fn replicated_seq(&self) -> Seq;
}

/// Rejection of a batch by the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkRejectedError {
    /// Earlier commits wait for too long, or too many writes wait.
    Busy(String),
    /// Another writer has taken over the store. Stops this writer for good.
    Fenced(String),
}

/// Error of the replication of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicationError {
    /// Indeterminate: the commits may be replicated, now or later.
    Indeterminate(String),
    /// Another writer has taken over the store, without these commits. Stops this writer for good.
    Fenced(String),
}

/// Published manifest.
#[derive(Debug)]
pub struct PublishedManifest<'a> {
    /// Bytes of the file.
    pub bytes: &'a [u8],
    /// Decoded contents.
    pub manifest: &'a ManifestView,
    /// All logs with commits that are not in a segment, oldest first. All of their bytes are on disk.
    pub logs: &'a [WalPosition],
    /// Newest commit of the segments and these logs.
    pub last_seq: Seq,
    /// True if later commits cannot be read without this manifest or a later one, as the embedding model has changed.
    pub is_barrier: bool,
    /// True if this manifest completes an erasure: earlier files have erased bytes and must not be retained anywhere.
    pub completes_erasure: bool,
    /// Directory with the manifest's files.
    pub disk: &'a dyn Disk,
}

/// File name of a manifest.
pub fn manifest_name(number: u64) -> String {
    layout::file_name(FileKind::Manifest, number)
}

/// File name of a log.
pub fn log_name(number: u64) -> String {
    layout::file_name(FileKind::Log, number)
}

/// File name of a segment's index.
pub fn index_name(segment: u64) -> String {
    layout::file_name(FileKind::Index, segment)
}
