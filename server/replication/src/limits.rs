//! Every maximum of the remote layout and of its protocol. Mirror of `format-spec/limits.md`.

mod clients;

use std::ops::RangeInclusive;
use std::time::Duration;

pub use clients::*;

limit_table::limits! {
    pub(crate) const LIMITS = [clients];

    /// Bytes of one part of a file on object storage; the last one is shorter.
    pub const PART_BYTES: u64 = 16 << 20;
    /// Bytes of a whole record.
    pub const RECORD_BYTES_MAX: usize = 16 << 20;
    /// Log bytes that a record holds itself; more are an object.
    pub const INLINE_BYTES_MAX: usize = 1 << 20;
    /// Bytes of the manifest in a full record, as the engine bounds it.
    pub const MANIFEST_BYTES_MAX: usize = 8 << 20;
    /// Files that a full record names: segment, state and index of each of 4,096.
    pub const FILES_MAX: usize = 3 * 4096;
    /// Logs that a full record names, and pieces of a step, as the engine bounds the logs of a manifest.
    pub const LOGS_MAX: usize = 64;
    /// Folds that a full record names, over all its logs.
    pub const FOLDS_MAX: usize = 1024;
    /// Bytes of the name of a file in a store.
    pub const FILE_NAME_BYTES_MAX: usize = 64;
    /// Bytes of a node's name.
    pub const NODE_BYTES_MAX: usize = 63;
    /// Bytes of the address where a node answers.
    pub const URL_BYTES_MAX: usize = 512;
    /// Bytes of an edge.
    pub const EDGE_BYTES_MAX: usize = 1 << 20;
    /// Records that an edge keeps at or below its boundary.
    pub const KEPT_MAX: usize = 4096;
    /// Bytes of a beat.
    pub const BEAT_BYTES_MAX: usize = 4 << 10;
    /// Steps behind a full record that a writer leaves to whoever comes next: it makes a full record before it gives.
    pub const GIVE_STEPS_MAX: usize = 16;
    /// Records that are read side by side where one after the other is asked for.
    pub const READ_AHEAD: usize = 8;
    /// Records that are asked for one after the other before more are read ahead: a reader that keeps up asks for
    /// fewer.
    pub const READ_AHEAD_AFTER: u32 = 3;
    /// Bytes of records that were read ahead and not asked for yet.
    pub const READ_AHEAD_BYTES_MAX: usize = 2 * RECORD_BYTES_MAX;
    /// Bytes of a piece of a ledger; so many in smaller ones become one.
    pub const LEDGER_PIECE_BYTES_MAX: u64 = 4 << 20;
    /// A piece of a ledger is small if it has less bytes.
    pub const SMALL_PIECE_BYTES: u64 = 64 << 10;
    /// Small pieces of a ledger that follow one another; so many become one.
    pub const SMALL_PIECES_MAX: usize = 256;
    /// Pieces of the ledgers of a workspace that are looked at.
    pub const LEDGER_PIECES_MAX: usize = 1 << 20;
    /// How long the entries of reads may be on this machine alone.
    pub const LEDGER_DELAY: Duration = Duration::from_secs(10);
    /// How long what was known of a number may be believed (rule REM-31).
    pub const FRESH_MAX: Duration = Duration::from_secs(30);
    /// How much later than a workspace was deleted a record may be made without a sign that it is alive (rule REM-74):
    /// by then each node that works with it has heard of that, and has let go of it.
    pub const DELETED_SLACK: Duration = Duration::from_secs(300);
    /// How long a record's number must have been known before it may be removed (rule REM-30).
    pub const CHAIN_KEPT_MIN: Duration = Duration::from_secs(300);
    /// Nodes whose beats are looked at.
    pub const NODES_MAX: usize = 1024;
    /// Runs of a node that are remembered beside the one that is there: as many as begin in a long lease, where each
    /// ends after some seconds.
    pub const RUNS_BEFORE_MAX: usize = 64;
    /// How long a creation is tried before nobody knows.
    pub const CREATE_WAIT_MAX: Duration = Duration::from_secs(30);
    /// The first pause between two attempts; each is twice as long as the one before.
    pub const PAUSE_MIN: Duration = Duration::from_millis(50);
    /// The longest pause between two attempts.
    pub const PAUSE_MAX: Duration = Duration::from_secs(2);
    /// How often the newest record is looked for in one go, while the chain goes on.
    pub const FIND_TRIES_MAX: usize = 8;
    /// Numbers and keys that are listed in one request.
    pub const NUMBERS_AT_ONCE: usize = 1000;
    /// Steps behind a full record at which the next one is due.
    pub const STEPS_WANTED: usize = 256;
    /// Bytes of steps behind a full record at which the next one is due.
    pub const STEP_BYTES_WANTED: usize = 8 << 20;
    /// Steps behind a full record after which no other step is written.
    pub const STEPS_MAX: usize = 4096;
    /// Bytes of steps behind a full record after which no other step is written.
    pub const STEP_BYTES_MAX: usize = 32 << 20;
    /// Steps behind a full record that a reader reads.
    pub const WALK_STEPS_MAX: usize = STEPS_MAX;
    /// Bytes of steps behind a full record that a reader holds.
    pub const WALK_BYTES_MAX: usize = STEP_BYTES_MAX + RECORD_BYTES_MAX;
    /// Records that a chain has above its edge, but for those since the newest full one.
    pub const CHAIN_RECORDS_MAX: usize = 32_768;
    /// Pins of a workspace that are looked at; with more, nothing of its history is removed.
    pub const PINS_MAX: usize = 1024;
    /// Bytes of a pin.
    pub const PIN_BYTES_MAX: u64 = 4 << 10;
    /// How long a pin may hold, in seconds.
    pub const PIN_SECONDS_MAX: u64 = 24 * 60 * 60;
    /// Edges that are kept below the highest.
    pub const EDGES_KEPT: usize = 2;
    /// How often it is tried at a start whether of those who create the same, one does.
    pub const PROBE_ROUNDS: u32 = 16;
    /// How many try to create the same at once.
    pub const PROBE_RACERS: usize = 8;
    /// How old an object of a probe is, in seconds, that no start looks at any more.
    pub const PROBE_SECONDS_MAX: u64 = 60 * 60;
    /// Parts of a file that are sent or fetched at a time.
    pub const TRANSFERS_MAX: usize = 4;
    /// Bytes of logs that are not in the chain at which they go at once, whether anybody waits or not.
    pub const STEP_BYTES: u64 = 256 << 10;
    /// Files of which is remembered across a restart which parts of them lie there.
    pub const CARRIED_FILES_MAX: usize = 4096;
    /// Bytes of the list of these.
    pub const CARRIED_BYTES_MAX: u64 = 2 << 20;
    /// How long a write waits for the remote before nobody knows.
    pub const CARRY_WAIT_MAX: Duration = Duration::from_secs(30);
    /// How long the remote may have taken nothing before writes are refused at once.
    pub const FAR_HANG: Duration = Duration::from_secs(2);
    /// Writes of a workspace that wait for the remote.
    pub const FAR_WAITERS_MAX: usize = 256;
    /// How often a record of the past is looked for that went before it was pinned.
    pub const RESTORE_TRIES_MAX: usize = 8;
    /// Bytes of what a node says that it has copies of.
    pub const HOLDS_BYTES_MAX: usize = 16 << 20;
    /// How often a node says anew what it has copies of.
    pub const HOLDS_PACE: Duration = Duration::from_secs(10);
    /// After so many of these pauses it looks whether what it said is there.
    pub const HOLDS_ROUNDS: u64 = 6;
    /// Items whose erasure is to reach a remote and its nodes still.
    pub const ERASING_MAX: usize = 65_536;
    /// Bytes of the list of these.
    pub const ERASING_BYTES_MAX: u64 = 8 << 20;
    /// Workspaces that are listed.
    pub const TENANTS_MAX: usize = 100_000;
    /// Objects with the bytes of an id whose erasure is to be proven; each is remembered until a state explains it.
    pub const ERASED_OBJECTS_MAX: usize = 100_000;
    /// What a look through a remote names of all that is wrong.
    pub const REMOTE_FINDINGS_MAX: usize = 100;
    /// How often a workspace's chain is looked at anew before it is opened, while others write it.
    pub const OPEN_TRIES_MAX: usize = 32;
    /// Stores with commits that no chain has, which are kept beside a workspace's own.
    pub const LEFT_MAX: usize = 4;
    /// Records that one look of a follower brings.
    pub const FOLLOW_RECORDS_MAX: usize = 256;
    /// Bytes of these, but for the last.
    pub const FOLLOW_BYTES_MAX: usize = 8 << 20;
    /// How long a follower waits at the least before it looks again.
    pub const FOLLOW_PAUSE_MIN: Duration = Duration::from_millis(250);
    /// And at the most.
    pub const FOLLOW_PAUSE_MAX: Duration = Duration::from_secs(5);
    /// How long after somebody asked a follower looks often.
    pub const FOLLOW_WARM_FOR: Duration = Duration::from_secs(10);
    /// Fetches of pages that are under way in a process.
    pub const FETCHES_MAX: usize = 8;
    /// Bytes that a cache must be allowed.
    pub const CACHE_BYTES_MIN: u64 = 64 << 20;
    /// How long room in the cache, or a place among the fetches, is waited for.
    pub const CACHE_WAIT_MAX: Duration = Duration::from_secs(10);
    /// Bytes that must be here of a segment before it is let go of to make room.
    pub const CACHE_LET_GO_MIN: u64 = 512 << 10;
    /// How long whoever fills the cache waits at the most before it tries again.
    pub const CACHE_PAUSE: Duration = Duration::from_secs(1);
}

/// Largest number of a record, an epoch or a place in a file, so that a sum of two never overflows.
pub const NUMBER_MAX: u64 = i64::MAX.cast_unsigned();

const _: () = assert!(OBJECT_BYTES_MAX == PART_BYTES);
const _: () = assert!(OBJECT_BYTES_MAX == RECORD_BYTES_MAX as u64);
const _: () = assert!(CHAIN_KEPT_MIN.as_secs() == 10 * FRESH_MAX.as_secs());
const _: () = assert!(
    RECORD_BYTES_MAX
        > MANIFEST_BYTES_MAX + FILES_MAX * 256 + FOLDS_MAX * 256 + INLINE_BYTES_MAX + (1 << 20)
);

/// How long a lease may be, in seconds.
pub const LEASE_SECONDS: RangeInclusive<u32> = 5..=300;
/// Objects that are listed before they are looked at.
pub const LISTED_TOGETHER: usize = 1000;
