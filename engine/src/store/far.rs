//! What carries a store's bytes away from this machine, as the store sees it.
//!
//! Owns what a store asks and tells, and the plain data that it hands over; knows neither networks nor
//! objects, nor what goes where and when.

use std::fmt::Debug;

use crate::ids::Seq;
use crate::layout::{self, FileKind};
pub use crate::log::LogMark;
pub use crate::manifest::{ListedFile, Listing};
use crate::os::disk::{Disk, DiskRead};

/// Carries what a store writes away from this machine.
///
/// All but [`carry`](Self::carry) is called while the writer is held, or while a write waits: it must be
/// quick, wait for no network and ask nothing of the store. What is told of the same log or of manifests may
/// come out of order, from several threads; the smaller one then says nothing new.
pub trait Far: Send + Sync + Debug {
    /// Whether a write is acknowledged, and shown, only once it is carried. Stays the same while a store
    /// is open.
    fn acknowledges(&self) -> bool;

    /// Whether a batch may be logged now, while so many writes wait for what they have logged. Asked before
    /// anything of it is written.
    ///
    /// # Errors
    /// Why not; nothing is written then.
    fn admits(&self, waiting: usize) -> Result<(), NotAdmitted>;

    /// A log was made, or found at the opening. The file stays readable when its name goes, and grows: what
    /// lies before any mark that is told of it never changes.
    fn began_log(&self, mark: LogMark, file: Box<dyn DiskRead>);

    /// A log is on this machine's disk up to the mark.
    fn synced(&self, mark: LogMark);

    /// A manifest was put in place, or found at the opening. Its files are all there now, and may be
    /// removed as soon as this returns.
    fn published(&self, published: &Published<'_>);

    /// An index got its name. No manifest lists it; it goes with its segment.
    fn indexed(&self, name: &str, disk: &dyn Disk);

    /// Returns once all up to commit `seq`, of which the store has told before, would survive without this
    /// machine. Called by one thread at a time, without any lock of the store, and only where this
    /// [acknowledges](Self::acknowledges). It must give up some time; whoever carries the rest later
    /// calls [`Store::show_carried`](crate::Store::show_carried).
    ///
    /// # Errors
    /// Why it is not, or not known to be.
    fn carry(&self, seq: Seq) -> Result<(), NotCarried>;

    /// The newest commit up to which all may be shown: what is carried, or was acknowledged before
    /// anything was. Never falls.
    fn carried(&self) -> Seq;
}

/// Why no batch may be logged now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAdmitted {
    /// What was logged before waits for too long, or too many wait.
    Busy(String),
    /// Another one writes the store by now. Stops the writer for good.
    Fenced(String),
}

/// Why commits are not known to be carried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotCarried {
    /// They may be, or may be yet.
    Unknown(String),
    /// Another one writes the store by now, and without them. Stops the writer for good.
    Fenced(String),
}

/// A manifest that is in place.
#[derive(Debug)]
pub struct Published<'a> {
    /// The file.
    pub bytes: &'a [u8],
    /// What it says.
    pub listing: &'a Listing,
    /// All logs with commits that are in none of its segments, oldest first. All of it is on disk.
    pub logs: &'a [LogMark],
    /// The newest commit of its segments and these logs.
    pub last_seq: Seq,
    /// Whether commits from now on cannot be read without it, or one after it: the model of
    /// embeddings is another one than before.
    pub must_lead: bool,
    /// Whether an erasure ended with it: files from before hold what must not be kept anywhere.
    pub ends_erasure: bool,
    /// Where its files are.
    pub disk: &'a dyn Disk,
}

/// Name of a manifest's file.
pub fn manifest_name(number: u64) -> String {
    layout::name(FileKind::Manifest, number)
}

/// Name of a log's file.
pub fn log_name(number: u64) -> String {
    layout::name(FileKind::Log, number)
}

/// Name of the index of a segment.
pub fn index_name(segment: u64) -> String {
    layout::name(FileKind::Index, segment)
}
