//! Caps and timeouts of this crate, each with the reason for its size.

use std::time::Duration;

use recalld_http_server::limits::IDLE_TIMEOUT;
use recalld_http_server::limits::STREAMS_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Largest body that is looked into for a `ping` on the event loop, where every other connection waits
    /// for it: a message with a few fields beside the method, read in about a microsecond.
    pub const PING_BYTES_MAX: usize = 256;

    /// Items of one answer, as JSON. Holds the largest item there can be, so that the best one found is always
    /// given: its text and all else, however it is escaped, and the ids of `engine`'s `SUPERSEDES_MAX` others.
    /// What does not fit is left out, and the answer says how much. An answer to MCP, which is one message of
    /// a stream, stays below `STREAM_MESSAGE_BYTES_MAX` with room for what stands around it.
    pub const ANSWER_BYTES_MAX: usize = 12 * 1024 * 1024;

    /// Messages of one JSON-RPC batch (revision 2025-03-26).
    pub const BATCH_MESSAGES_MAX: usize = 64;

    /// Longest id of a message, and longest progress token, in bytes: both are kept while a request is under
    /// way, and repeated with all that is said about it. Those of clients have been seen to be UUIDs.
    pub const MESSAGE_ID_BYTES_MAX: usize = 256;

    /// Sessions of clients that began with `initialize`, all callers together. An idle one holds less
    /// than a kilobyte, beside the events that are kept for it.
    pub const SESSIONS_MAX: usize = 4_096;

    /// Sessions of one caller. One more ends the one that was idle longest, whose client is told by 404
    /// to begin anew. Where all callers together have too many, that of the caller with the most ends; so
    /// clients that never end their sessions lock nobody out. Half of all, because a gateway with one
    /// credential has the sessions of everybody behind it.
    pub const SESSIONS_PER_PRINCIPAL_MAX: usize = 2_048;

    /// How long a session lives without a request, a call under way or an open stream.
    pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);

    /// Requests under way in one session, long ones included.
    pub const SESSION_CALLS_MAX: usize = 64;

    /// Questions of ours to one client that it has not answered yet.
    pub const SESSION_ASKS_MAX: usize = 16;

    /// Streams of one session that have ended, and whose events are kept for a client that comes again; the
    /// oldest goes first. One that is not over is never given up: there are as many as requests under way,
    /// and the one that GET opens.
    pub const SESSION_ENDED_STREAMS_MAX: usize = 16;

    /// Events kept of one stream for a client that lost it.
    pub const STREAM_EVENTS_KEPT_MAX: usize = 64;

    /// Bytes of these events.
    pub const STREAM_EVENTS_KEPT_BYTES_MAX: usize = 256 * 1024;

    /// Bytes of kept events in all sessions together; beyond it nothing more is kept, and a client that
    /// lost its stream has to ask again.
    pub const EVENTS_KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

    /// Those of one caller's sessions, so that none takes resumption from the others.
    pub const EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX: usize = 8 * 1024 * 1024;

    /// How long the events of a stream that has ended are kept: a client that lost it comes again at once,
    /// and one that did not will never ask. Looked at with every `STREAM_COMMENT_EVERY`.
    pub const ENDED_STREAM_KEPT: Duration = Duration::from_secs(60);

    /// Resources that one session, or one `subscriptions/listen`, may follow.
    pub const SUBSCRIPTIONS_PER_CLIENT_MAX: usize = 64;

    /// Resources followed by all clients together: each is looked at after each write.
    pub const SUBSCRIPTIONS_MAX: usize = 4_096;

    /// Those of one caller, so that none takes them all.
    pub const SUBSCRIPTIONS_PER_PRINCIPAL_MAX: usize = 512;

    /// Shortest time between two looks at what is followed; what is written meanwhile is looked at together.
    pub const LOOK_EVERY: Duration = Duration::from_millis(100);

    /// A look takes at most one part in so many of a thread's time, however much is followed and however fast
    /// it changes: the next one comes that much later.
    pub const LOOK_SHARE: u32 = 10;

    /// Open `subscriptions/listen` streams.
    pub const LISTENS_MAX: usize = 1_024;

    /// Those of one caller.
    pub const LISTENS_PER_PRINCIPAL_MAX: usize = 128;

    /// Longest URI of a resource, in bytes.
    pub const URI_BYTES_MAX: usize = 2_048;

    /// Calls that may wait (for their client, or for a turn) at a time. Each has a thread of its own, so
    /// that none of them holds a worker.
    pub const LONG_CALLS_MAX: usize = 32;

    /// Rounds of questions that one call may put to its client.
    pub const INPUT_ROUNDS_MAX: usize = 8;

    /// Questions of one round.
    pub const INPUT_REQUESTS_MAX: usize = 16;

    /// How long a client, behind which a person may sit, has for one question of ours.
    pub const ASK_TIME_MAX: Duration = Duration::from_secs(60);

    /// How long a sealed `requestState` is good for.
    pub const INPUT_STATE_TIME_MAX: Duration = Duration::from_secs(10 * 60);

    /// Largest state that is sealed, in bytes: it travels twice.
    pub const INPUT_STATE_BYTES_MAX: usize = 16 * 1024;

    /// How often a quiet stream carries a comment, which keeps proxies from closing it and finds out
    /// who has left. Also how often sessions are looked through for idle ones.
    pub const STREAM_COMMENT_EVERY: Duration = Duration::from_secs(25);

    /// How often those who listen are asked for again: a stream whose credential was revoked or has expired, or whose
    /// workspace is stopped or gone, ends within this time. A look-up for each open stream.
    pub const STREAM_STANDING_EVERY: Duration = Duration::from_secs(5);

    /// What `retry` tells clients to wait before they come again for a stream that ended early.
    pub const STREAM_RETRY: Duration = Duration::from_secs(1);

    /// How long lists may be kept by clients of revision 2026-07-28.
    pub const LIST_CACHE_TIME: Duration = Duration::from_secs(60);

    /// Values of one completion (the protocol's own maximum).
    pub const COMPLETION_VALUES_MAX: usize = 100;
}

const _: () = assert!(SESSIONS_PER_PRINCIPAL_MAX < SESSIONS_MAX);

const _: () = assert!(STREAM_EVENTS_KEPT_BYTES_MAX <= EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX);

const _: () = assert!(EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX < EVENTS_KEPT_BYTES_MAX);

const _: () = assert!(LISTENS_PER_PRINCIPAL_MAX < LISTENS_MAX && LISTENS_MAX < STREAMS_MAX);

const _: () = assert!(SUBSCRIPTIONS_PER_CLIENT_MAX < SUBSCRIPTIONS_PER_PRINCIPAL_MAX);

const _: () = assert!(SUBSCRIPTIONS_PER_PRINCIPAL_MAX < SUBSCRIPTIONS_MAX);

const _: () = assert!(STREAM_COMMENT_EVERY.as_secs() < IDLE_TIMEOUT.as_secs());

const _: () = assert!(STREAM_STANDING_EVERY.as_secs() < STREAM_COMMENT_EVERY.as_secs());
