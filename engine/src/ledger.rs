//! The hash-chained, append-only audit ledger of one tenant, with signed checkpoints.
//!
//! Owns the bytes of `format-spec/ledger.md`. Knows files and hashes; it must not know keys
//! (signing is a [`Seal`] that the caller brings), the clock (every act takes its time), tools or
//! policies.
//!
//! Who syncs: the ledger owns no thread. [`Ledger::append`] hands the entry to the operating
//! system; the owner waits until [`Ledger::due`], calls [`Ledger::tick`], and runs the
//! [`SyncTicket`] it may get outside its lock, so that appends go on while the disk works. A caller
//! that must have its entry on disk before it answers calls [`Ledger::sync`].

mod checkpoint;
mod entry;
mod error;
mod files;
mod frame;
mod header;
mod layout;
mod reader;
#[cfg(test)]
mod tests;
mod verify;
mod walk;
mod writer;

pub use checkpoint::{Anchor, CheckSeal, Checkpoint, KeyId, Seal, Signature};
pub use entry::{Decision, Draft, DraftError, Effect, Entry, Hash, Outcome, ReceiptId, Touched};
pub use error::{AppendError, Damage, DiskError, LedgerOpenError, ReadError, Remedy};
pub use layout::{
    CHECKPOINT_AFTER_MICROS, CHECKPOINT_ENTRIES_MAX, PRINCIPAL_BYTES_MAX, RULE_BYTES_MAX,
    SYNC_AFTER_MICROS, TOOL_BYTES_MAX, TOUCHED_LISTED_MAX, VOLUME_BYTES_MAX,
};
pub use reader::{Entries, Reader};
pub use verify::{CheckpointCount, Report, VerifyWith, verify, verify_telling};
pub use walk::volume_name;
pub use writer::{Ledger, OpenWith, Receipt, SyncDone, SyncTicket, TornTail};
