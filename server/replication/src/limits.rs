//! Limits of the remote layout and its protocol. Mirror of `format-spec/limits.md`.

mod clients;

use std::ops::RangeInclusive;
use std::time::Duration;

pub use clients::*;

limit_table::limits! {
    pub(crate) const LIMITS = [clients];

    /// Bytes of one part of a file on object storage; the last part may be shorter.
    pub const PART_BYTES: u64 = 16 << 20;
    /// Bytes of a whole record.
    pub const RECORD_BYTES_MAX: usize = 16 << 20;
    /// Log bytes inside a record; a longer piece is an object.
    pub const INLINE_BYTES_MAX: usize = 1 << 20;
    /// Bytes of the manifest in a full record; the engine has the same bound.
    pub const MANIFEST_BYTES_MAX: usize = 8 << 20;
    /// Files that a full record references: segment, state and index of each of 4,096 segments.
    pub const FILES_MAX: usize = 3 * 4096;
    /// Logs that a full record references, and pieces of a step; the engine has the same bound for the logs of a
    /// manifest.
    pub const LOGS_MAX: usize = 64;
    /// Log objects that a full record references, over all its logs.
    pub const FOLDS_MAX: usize = 1024;
    /// Bytes of the name of a file in a store.
    pub const FILE_NAME_BYTES_MAX: usize = 64;
    /// Bytes of a node's name.
    pub const NODE_BYTES_MAX: usize = 63;
    /// Bytes of a node's URL.
    pub const URL_BYTES_MAX: usize = 512;
    /// Bytes of a low watermark.
    pub const EDGE_BYTES_MAX: usize = 1 << 20;
    /// Records that a watermark retains at or below its boundary.
    pub const KEPT_MAX: usize = 4096;
    /// Bytes of a heartbeat.
    pub const BEAT_BYTES_MAX: usize = 4 << 10;
    /// Steps since a full record that a writer leaves to its successor: with more steps, it writes a full record before
    /// the release.
    pub const GIVE_STEPS_MAX: usize = 16;
    /// Records that a sequential reader reads concurrently.
    pub const READ_AHEAD: usize = 8;
    /// Sequential reads of records before readahead starts: a reader that is up to date needs fewer.
    pub const READ_AHEAD_AFTER: u32 = 3;
    /// Bytes of records that were read ahead and not requested yet.
    pub const READ_AHEAD_BYTES_MAX: usize = 2 * RECORD_BYTES_MAX;
    /// Bytes of a ledger piece; smaller pieces with this many bytes in total are compacted into one piece.
    pub const LEDGER_PIECE_BYTES_MAX: u64 = 4 << 20;
    /// Bytes below which a ledger piece is small.
    pub const SMALL_PIECE_BYTES: u64 = 64 << 10;
    /// Consecutive small pieces of a ledger at which they are compacted into one piece.
    pub const SMALL_PIECES_MAX: usize = 256;
    /// Ledger pieces of a workspace that are examined.
    pub const LEDGER_PIECES_MAX: usize = 1 << 20;
    /// Time for which the ledger entries of reads may be on this machine only.
    pub const LEDGER_DELAY: Duration = Duration::from_secs(10);
    /// Time for which knowledge of a record number is valid (rule REM-31).
    pub const FRESH_MAX: Duration = Duration::from_secs(30);
    /// Time after a workspace's deletion in which a new record is no sign that the workspace is alive (rule REM-74). By
    /// its end, each node that works with the workspace has received the deletion and released the workspace.
    pub const DELETED_SLACK: Duration = Duration::from_secs(300);
    /// Time for which a record's number must have been known before the record may be removed (rule REM-30).
    pub const CHAIN_KEPT_MIN: Duration = Duration::from_secs(300);
    /// Nodes whose heartbeats are observed.
    pub const NODES_MAX: usize = 1024;
    /// Earlier runs of a node that are remembered: as many as start during a long lease, if each ends after some
    /// seconds.
    pub const RUNS_BEFORE_MAX: usize = 64;
    /// Time for which a creation is tried before its outcome counts as unknown.
    pub const CREATE_WAIT_MAX: Duration = Duration::from_secs(30);
    /// First pause between two attempts; each pause is twice as long as the one before.
    pub const PAUSE_MIN: Duration = Duration::from_millis(50);
    /// Longest pause between two attempts.
    pub const PAUSE_MAX: Duration = Duration::from_secs(2);
    /// Attempts of one search for the newest record while the log advances.
    pub const FIND_TRIES_MAX: usize = 8;
    /// Numbers and keys that are listed in one request.
    pub const NUMBERS_AT_ONCE: usize = 1000;
    /// Steps since a full record at which the next full record is due.
    pub const STEPS_WANTED: usize = 256;
    /// Bytes of steps since a full record at which the next full record is due.
    pub const STEP_BYTES_WANTED: usize = 8 << 20;
    /// Steps since a full record after which no other step is written.
    pub const STEPS_MAX: usize = 4096;
    /// Bytes of steps since a full record after which no other step is written.
    pub const STEP_BYTES_MAX: usize = 32 << 20;
    /// Steps since a full record that a reader reads.
    pub const WALK_STEPS_MAX: usize = STEPS_MAX;
    /// Bytes of steps since a full record that a reader has in memory.
    pub const WALK_BYTES_MAX: usize = STEP_BYTES_MAX + RECORD_BYTES_MAX;
    /// Records of a log above its watermark, not counting those since the newest full record.
    pub const CHAIN_RECORDS_MAX: usize = 32_768;
    /// Pins of a workspace that are read; with more pins, nothing of the workspace's history is removed.
    pub const PINS_MAX: usize = 1024;
    /// Bytes of a pin.
    pub const PIN_BYTES_MAX: u64 = 4 << 10;
    /// Lifetime of a pin, in seconds.
    pub const PIN_SECONDS_MAX: u64 = 24 * 60 * 60;
    /// Watermark objects that are retained below the highest.
    pub const EDGES_KEPT: usize = 2;
    /// Rounds of the start-up probe, each of which races creators of the same object.
    pub const PROBE_ROUNDS: u32 = 16;
    /// Concurrent creators in a round of the probe.
    pub const PROBE_RACERS: usize = 8;
    /// Age, in seconds, of a probe's object that no start uses any more.
    pub const PROBE_SECONDS_MAX: u64 = 60 * 60;
    /// Parts of a file that are uploaded or fetched at a time.
    pub const TRANSFERS_MAX: usize = 4;
    /// WAL bytes outside of the record log at which a step is written at once, even if no write waits.
    pub const STEP_BYTES: u64 = 256 << 10;
    /// Files whose uploaded parts are remembered across a restart.
    pub const CARRIED_FILES_MAX: usize = 4096;
    /// Bytes of the list of uploaded parts.
    pub const CARRIED_BYTES_MAX: u64 = 2 << 20;
    /// Time for which a write waits for the remote before its outcome counts as unknown.
    pub const CARRY_WAIT_MAX: Duration = Duration::from_secs(30);
    /// Time without progress of the remote after which writes are refused at once.
    pub const FAR_HANG: Duration = Duration::from_secs(2);
    /// Writes of a workspace that wait for the remote.
    pub const FAR_WAITERS_MAX: usize = 256;
    /// Attempts to pin a past record that is removed before the pin is in place.
    pub const RESTORE_TRIES_MAX: usize = 8;
    /// Bytes of a node's inventory.
    pub const HOLDS_BYTES_MAX: usize = 16 << 20;
    /// Interval at which a node publishes its inventory.
    pub const HOLDS_PACE: Duration = Duration::from_secs(10);
    /// Intervals (`HOLDS_PACE`) after which a node checks that its published inventory is there.
    pub const HOLDS_ROUNDS: u64 = 6;
    /// Items whose erasure has not reached the remote and its nodes yet.
    pub const ERASING_MAX: usize = 65_536;
    /// Bytes of the list of pending erasures.
    pub const ERASING_BYTES_MAX: u64 = 8 << 20;
    /// Workspaces that are listed.
    pub const TENANTS_MAX: usize = 100_000;
    /// Objects that contain an id whose erasure is to be proven; each is remembered until a state of the store explains
    /// it.
    pub const ERASED_OBJECTS_MAX: usize = 100_000;
    /// Findings that a verification of a remote reports.
    pub const REMOTE_FINDINGS_MAX: usize = 100;
    /// Attempts to find the head of a workspace's log before the workspace is opened, while other nodes write it.
    pub const OPEN_TRIES_MAX: usize = 32;
    /// Set-aside stores beside a workspace's own, with commits that are in no record log.
    pub const LEFT_MAX: usize = 4;
    /// Records that one poll of a follower returns.
    pub const FOLLOW_RECORDS_MAX: usize = 256;
    /// Bytes of the records that one poll of a follower returns, not counting the last record.
    pub const FOLLOW_BYTES_MAX: usize = 8 << 20;
    /// Shortest pause between two polls of a follower.
    pub const FOLLOW_PAUSE_MIN: Duration = Duration::from_millis(250);
    /// Longest pause between two polls of a follower.
    pub const FOLLOW_PAUSE_MAX: Duration = Duration::from_secs(5);
    /// Time after a read in which a follower polls often.
    pub const FOLLOW_WARM_FOR: Duration = Duration::from_secs(10);
    /// Page fetches in progress in a process.
    pub const FETCHES_MAX: usize = 8;
    /// Smallest capacity of a cache, in bytes.
    pub const CACHE_BYTES_MIN: u64 = 64 << 20;
    /// Time for which a fetch waits for space in the cache, or for a permit.
    pub const CACHE_WAIT_MAX: Duration = Duration::from_secs(10);
    /// Local bytes that a segment must have before it is evicted.
    pub const CACHE_LET_GO_MIN: u64 = 512 << 10;
    /// Longest pause of the prefetcher before the next attempt.
    pub const CACHE_PAUSE: Duration = Duration::from_secs(1);
}

/// Largest record number, epoch or file offset, so that a sum of two never overflows.
pub const NUMBER_MAX: u64 = i64::MAX.cast_unsigned();

const _: () = assert!(OBJECT_BYTES_MAX == PART_BYTES);
const _: () = assert!(OBJECT_BYTES_MAX == RECORD_BYTES_MAX as u64);
const _: () = assert!(CHAIN_KEPT_MIN.as_secs() == 10 * FRESH_MAX.as_secs());
const _: () = assert!(
    RECORD_BYTES_MAX
        > MANIFEST_BYTES_MAX + FILES_MAX * 256 + FOLDS_MAX * 256 + INLINE_BYTES_MAX + (1 << 20)
);

/// Permitted lease durations, in seconds.
pub const LEASE_SECONDS: RangeInclusive<u32> = 5..=300;
/// Objects that are listed at a time before they are processed.
pub const LISTED_TOGETHER: usize = 1000;
