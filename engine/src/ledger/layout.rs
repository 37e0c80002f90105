//! Byte positions and limits of a ledger. Mirror of format-spec/ledger.md; `tests.rs` compares the two.

/// First bytes of every volume.
pub(super) const MAGIC: [u8; 8] = *b"RCLEDGER";
/// Highest version that this build reads (LED-05).
pub(super) const READ_VERSION: u32 = 1;
/// Highest version that this build appends to (LED-05).
pub(super) const WRITE_VERSION: u32 = 1;

pub(super) const HEADER_BYTES: usize = 128;
pub(super) const HEADER_MAGIC: usize = 0;
pub(super) const HEADER_READ_VERSION: usize = 8;
pub(super) const HEADER_WRITE_VERSION: usize = 12;
pub(super) const HEADER_FIRST_SEQ: usize = 16;
pub(super) const HEADER_PREVIOUS: usize = 24;
pub(super) const HEADER_TENANT: usize = 56;
pub(super) const HEADER_RESERVED: usize = 88;
pub(super) const HEADER_CHECK: usize = 124;

pub(super) const FRAME_HEAD_BYTES: usize = 8;
pub(super) const FRAME_LENGTH: usize = 0;
pub(super) const FRAME_LENGTH_CHECK: usize = 2;
pub(super) const FRAME_CHECK: usize = 4;

pub(super) const KIND_ENTRY: u8 = 1;
pub(super) const KIND_CHECKPOINT: u8 = 2;

pub(super) const ENTRY_FIXED_BYTES: usize = 144;
pub(super) const ENTRY_KIND: usize = 0;
pub(super) const ENTRY_DECISION: usize = 1;
pub(super) const ENTRY_OUTCOME: usize = 2;
pub(super) const ENTRY_TOUCHED_COUNT: usize = 3;
pub(super) const ENTRY_TOUCHED_TOTAL: usize = 4;
pub(super) const ENTRY_SEQ: usize = 8;
pub(super) const ENTRY_AT_MICROS: usize = 16;
pub(super) const ENTRY_PREVIOUS: usize = 24;
pub(super) const ENTRY_RECEIPT: usize = 56;
pub(super) const ENTRY_ARGUMENTS: usize = 72;
pub(super) const ENTRY_TOUCHED_REST: usize = 104;
pub(super) const ENTRY_TOOL_LENGTH: usize = 136;
pub(super) const ENTRY_PRINCIPAL_LENGTH: usize = 137;
pub(super) const ENTRY_RULE_LENGTH: usize = 138;
pub(super) const ENTRY_RESERVED: usize = 139;
pub(super) const TOUCHED_BYTES: usize = 17;

pub(super) const CHECKPOINT_BYTES: usize = 128;
pub(super) const CHECKPOINT_KIND: usize = 0;
pub(super) const CHECKPOINT_RESERVED: usize = 1;
pub(super) const CHECKPOINT_SEQ: usize = 8;
pub(super) const CHECKPOINT_HEAD: usize = 16;
pub(super) const CHECKPOINT_AT_MICROS: usize = 48;
pub(super) const CHECKPOINT_KEY: usize = 56;
pub(super) const CHECKPOINT_SIGNATURE: usize = 64;

/// Maximum length of a tool's name, in bytes.
pub const TOOL_BYTES_MAX: usize = 64;
/// Maximum length of a principal, in bytes.
pub const PRINCIPAL_BYTES_MAX: usize = 160;
/// Maximum length of a rule's name, in bytes.
pub const RULE_BYTES_MAX: usize = 96;
/// Maximum number of listed items per entry; further items are counted and folded into a hash.
pub const TOUCHED_LISTED_MAX: usize = 64;
/// Maximum number of consecutive entries without a checkpoint (LED-17).
pub const CHECKPOINT_ENTRIES_MAX: u64 = 1_000;
/// Age of the first unsigned entry at which a checkpoint is due (LED-17).
pub const CHECKPOINT_AFTER_MICROS: u64 = 60_000_000;
/// Age of the first unsynced entry at which a sync is due.
pub const SYNC_AFTER_MICROS: u64 = 50_000;
/// Maximum size of a volume, in bytes (LED-03).
pub const VOLUME_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum number of volumes per ledger (LED-03).
pub(super) const VOLUMES_MAX: usize = 65_536;
/// Unit in which a disk loses writes (LED-18).
pub(super) const SECTOR_BYTES: usize = 512;

/// Length of the longest possible body.
pub(super) const BODY_BYTES_MAX: usize = ENTRY_FIXED_BYTES
    + TOOL_BYTES_MAX
    + PRINCIPAL_BYTES_MAX
    + RULE_BYTES_MAX
    + TOUCHED_LISTED_MAX * TOUCHED_BYTES;
/// Free space that an append needs in its volume: the entry, one checkpoint before and one after, and the final
/// checkpoint of the volume (LED-17).
pub(super) const APPEND_ROOM_BYTES: u64 =
    (FRAME_HEAD_BYTES + BODY_BYTES_MAX + 3 * (FRAME_HEAD_BYTES + CHECKPOINT_BYTES)) as u64;

const _: () = assert!(BODY_BYTES_MAX == 1_552);
const _: () = assert!(BODY_BYTES_MAX <= u16::MAX as usize);
const _: () = assert!(HEADER_CHECK + 4 == HEADER_BYTES);
const _: () = assert!(ENTRY_RESERVED + 5 == ENTRY_FIXED_BYTES);
const _: () = assert!(CHECKPOINT_SIGNATURE + 64 == CHECKPOINT_BYTES);
const _: () = assert!(TOUCHED_LISTED_MAX <= u8::MAX as usize);
const _: () = assert!(PRINCIPAL_BYTES_MAX <= u8::MAX as usize);

/// Returns the `N` bytes at `at`; `None` if `bytes` is too short.
pub(super) fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Returns true if all bytes are zero, as reserved bytes must be.
pub(super) fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}
