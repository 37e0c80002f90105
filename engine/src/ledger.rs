//! Hash-chained, append-only audit ledger of one tenant, with signed checkpoints.
//!
//! Owns the bytes of `format-spec/ledger.md`, their files and hashes. The ledger has no access to keys (the caller
//! supplies a [`CheckpointSigner`] for signing), to the clock (every call passes its time), to tools or to policies.
//!
//! Syncing: the ledger owns no thread. [`Ledger::append`] passes the entry to the operating system. The owner waits
//! until [`Ledger::due`], calls [`Ledger::tick`] and runs the returned [`SyncTicket`], if any, outside the ledger's
//! lock: appends continue during the fsync. If an entry must be on disk before the caller responds, the caller calls
//! [`Ledger::sync`].

mod checkpoint;
mod entry;
mod error;
mod files;
mod frame;
mod header;
mod layout;
mod reader;
mod scan;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use checkpoint::{Anchor, Checkpoint, CheckpointSigner, CheckpointVerifier, KeyId, Signature};
pub use entry::{
    Decision, DraftError, Effect, Entry, EntryDraft, Hash, Outcome, ReceiptId, TouchedItem,
};
pub use error::{AppendError, DiskError, LedgerCorruption, LedgerOpenError, ReadError, Remedy};
pub use layout::{
    CHECKPOINT_AFTER_MICROS, CHECKPOINT_ENTRIES_MAX, PRINCIPAL_BYTES_MAX, RULE_BYTES_MAX,
    SYNC_AFTER_MICROS, TOOL_BYTES_MAX, TOUCHED_LISTED_MAX, VOLUME_BYTES_MAX,
};
pub use reader::{Entries, LedgerReader};
pub use scan::volume_name;
pub use verify::{CheckpointCount, LedgerReport, VerifyOptions, verify, verify_with_progress};
pub use writer::{Ledger, LedgerOptions, Receipt, SyncOutcome, SyncTicket, TornTail};
