//! Limits and timeouts of this crate, each with the reason for its value.

use std::time::Duration;

use recalld_http_server::limits::IDLE_TIMEOUT;
use recalld_http_server::limits::STREAMS_MAX;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Largest body that the event loop checks for a `ping`, while every other connection waits. Fits a message with a
    /// few fields besides the method, parsed in about a microsecond.
    pub const PING_BYTES_MAX: usize = 256;

    /// Bytes of the items of one response, as JSON. Fits the largest possible item, so that the best result is always
    /// returned: its text and other fields, however escaped, and the ids of `engine`'s `SUPERSEDES_MAX` others. Items
    /// that do not fit are omitted, and the response states the number. An MCP response is one message of a stream, and
    /// stays below `STREAM_MESSAGE_BYTES_MAX` with its envelope.
    pub const ANSWER_BYTES_MAX: usize = 12 * 1024 * 1024;

    /// Messages of one JSON-RPC batch (revision 2025-03-26).
    pub const BATCH_MESSAGES_MAX: usize = 64;

    /// Longest message id and longest progress token, in bytes. Both are stored while a request is in flight, and
    /// repeated in every message about the request. Known clients send UUIDs.
    pub const MESSAGE_ID_BYTES_MAX: usize = 256;

    /// Sessions begun with `initialize`, of all callers. An idle session uses less than a kilobyte, besides its replay
    /// buffers.
    pub const SESSIONS_MAX: usize = 4_096;

    /// Sessions of one caller. An additional session ends the session idle longest, whose client gets a 404 and must
    /// initialize again. Above the limit of all callers, a session of the caller with the most idle sessions ends. So
    /// clients that never end their idle sessions lock nobody out. A session with a request in flight or an open
    /// standalone stream is not idle; if no session is idle, `initialize` is answered 503 `too_many_sessions`. Half of
    /// the total, because a gateway with one credential owns the sessions of all its users.
    pub const SESSIONS_PER_PRINCIPAL_MAX: usize = 2_048;

    /// Lifetime of a session without a request, a request in flight or an open stream.
    pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);

    /// Requests in flight per session, long-running ones included.
    pub const SESSION_CALLS_MAX: usize = 64;

    /// Pending requests of the server to one client.
    pub const SESSION_ASKS_MAX: usize = 16;

    /// Completed streams of one session whose events are retained for a client that reconnects; the oldest is evicted
    /// first. An incomplete stream is never evicted. There are at most as many as requests in flight, plus the
    /// standalone stream.
    pub const SESSION_ENDED_STREAMS_MAX: usize = 16;

    /// Events in the replay buffer of one stream.
    pub const STREAM_EVENTS_KEPT_MAX: usize = 64;

    /// Bytes in the replay buffer of one stream.
    pub const STREAM_EVENTS_KEPT_BYTES_MAX: usize = 256 * 1024;

    /// Bytes in the replay buffers of all sessions. Above this limit no event is retained, and a client that lost its
    /// stream must repeat the request.
    pub const EVENTS_KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

    /// Bytes in the replay buffers of one caller's sessions, so that no caller deprives others of resumption.
    pub const EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX: usize = 8 * 1024 * 1024;

    /// Retention of a completed stream's events: a client that lost the stream reconnects at once, and any other client
    /// never does. Checked every `STREAM_COMMENT_EVERY`.
    pub const ENDED_STREAM_KEPT: Duration = Duration::from_secs(60);

    /// Resources that one session, or one `subscriptions/listen`, may follow.
    pub const SUBSCRIPTIONS_PER_CLIENT_MAX: usize = 64;

    /// Resources followed by all clients: each is polled after every write.
    pub const SUBSCRIPTIONS_MAX: usize = 4_096;

    /// Resources followed by one caller, so that no caller uses up the total.
    pub const SUBSCRIPTIONS_PER_PRINCIPAL_MAX: usize = 512;

    /// Minimum interval between two polls of the followed resources; writes in between are covered by one poll.
    pub const LOOK_EVERY: Duration = Duration::from_millis(100);

    /// Inverse of the maximum share of a thread's time spent on polls, however many resources are followed and however
    /// fast they change: the next poll is delayed accordingly.
    pub const LOOK_SHARE: u32 = 10;

    /// Open `subscriptions/listen` streams.
    pub const LISTENS_MAX: usize = 1_024;

    /// Open `subscriptions/listen` streams of one caller.
    pub const LISTENS_PER_PRINCIPAL_MAX: usize = 128;

    /// Longest URI of a resource, in bytes.
    pub const URI_BYTES_MAX: usize = 2_048;

    /// Concurrent calls that may block (on their client, or on a lock). Each has its own thread, so that none occupies
    /// a worker.
    pub const LONG_CALLS_MAX: usize = 32;

    /// Rounds of input requests per call.
    pub const INPUT_ROUNDS_MAX: usize = 8;

    /// Input requests per round.
    pub const INPUT_REQUESTS_MAX: usize = 16;

    /// Time limit for the client's response to one request of the server; a person may have to answer.
    pub const ASK_TIME_MAX: Duration = Duration::from_secs(60);

    /// Lifetime of a `requestState` token.
    pub const INPUT_STATE_TIME_MAX: Duration = Duration::from_secs(10 * 60);

    /// Largest state in a state token, in bytes: the token is sent in both directions.
    pub const INPUT_STATE_BYTES_MAX: usize = 16 * 1024;

    /// Interval of comments on quiet streams, which keep proxies from closing them and detect disconnected clients.
    /// Also the interval of the check for idle sessions.
    pub const STREAM_COMMENT_EVERY: Duration = Duration::from_secs(25);

    /// Interval at which the callers of open streams are checked. A stream ends within this time if its credential was
    /// revoked or has expired, or if its workspace is stopped or gone. Costs one look-up per open stream.
    pub const STREAM_STANDING_EVERY: Duration = Duration::from_secs(5);

    /// Reconnection delay sent to clients as `retry`, for a stream that ended early.
    pub const STREAM_RETRY: Duration = Duration::from_secs(1);

    /// Time for which clients of revision 2026-07-28 may cache lists.
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
