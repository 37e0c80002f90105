//! Every cap and timeout of the service, each with the reason for its size.
//!
//! Owns numbers only. `const` assertions at the end state how they relate; a setting may lower a
//! limit (`net::Limits`), never raise it.

use std::time::Duration;

use engine::limits as stored;

/// Largest request head (request line, header fields and the closing empty line).
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most header fields in one request head.
pub const HEADERS_MAX: usize = 64;

/// Longest text an item may carry, in UTF-8 bytes.
pub const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// Largest growth of one byte of text inside a JSON string: a control character becomes `\u00XX`.
pub const JSON_ESCAPE_GROWTH_MAX: usize = 6;

/// Largest request body after chunked decoding. Holds the longest text, however it is escaped, and
/// 2 MiB for everything around it.
pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The body of a call whose caller is not known yet, in bytes: the longest text of letters of two bytes,
/// each escaped as six, as writers of ASCII do. A tenant's credential is looked up once its body is there.
pub const TENANT_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
const _: () = assert!(3 * TEXT_BYTES_MAX < TENANT_BODY_BYTES_MAX);
const _: () = assert!(TENANT_BODY_BYTES_MAX <= BODY_BYTES_MAX);

/// Bytes of all bodies together, from their first byte until their call is answered and nobody has it any
/// more, be its client there or not. Beyond it a
/// body larger than `BODY_BYTES_SMALL` is refused with 503, so that many large bodies cannot use up
/// the memory and small ones still pass.
pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Largest body that is taken without asking the service by the head alone, and even when
/// `BODIES_BYTES_MAX` is reached.
pub const BODY_BYTES_SMALL: usize = 16 * 1024;

/// Bytes of memory that connections hold beside bodies, all together: for what has arrived and is not read
/// yet, and for answers until their last byte is sent, those of TLS and of streams included. Beyond it a
/// connection with more than `WAITING_BYTES_SMALL` is not read on, a larger answer is 503, and a stream with
/// a larger backlog is cut off, so that many clients that send ahead, or do not read, cannot use up the
/// memory.
pub const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Of these, what one peer of the hosted listener may hold before the same is true for it alone: an
/// eighth, so that some slow readers do not make it full for the others. Two of the largest answers.
pub const WAITING_BYTES_PEER_MAX: usize = 32 * 1024 * 1024;

/// Of these, what is kept for the local listener: two of the largest answers.
pub const WAITING_BYTES_LOCAL_RESERVED: usize = 32 * 1024 * 1024;

/// What may be added to `WAITING_BYTES_MAX` by messages of streams whose readers have taken all before
/// them, so that an answer that has begun breaks off only where such readers, too, are many.
pub const WAITING_BYTES_PROMPT_MAX: usize = 64 * 1024 * 1024;

/// What each connection may hold, of either kind, even then: the longest head fits.
pub const WAITING_BYTES_SMALL: usize = HEAD_BYTES_MAX;

/// Longest request id that is taken from a client; ours are shorter.
pub const REQUEST_ID_BYTES_MAX: usize = 64;

/// Log lines that wait to be written; one more is dropped and counted. Some hundred bytes each.
pub const LOG_QUEUE_MAX: usize = 4_096;

/// Unread bytes kept per connection: an unfinished head, or requests sent ahead of their turn.
/// Beyond it the connection is not read until the call in flight is answered.
pub const PIPELINED_BYTES_MAX: usize = 64 * 1024;

/// Longest chunk-size line of a chunked body, extensions included, without its line end.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;

/// Most bytes of chunk extensions in one body; they are ignored, so they must not cost much.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 4 * 1024;

/// Most bytes of trailer fields after a chunked body; they are checked and dropped.
pub const TRAILER_BYTES_MAX: usize = 4 * 1024;

/// How long a connection may stay open between requests.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a request head may take from its first byte to its last.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a TLS handshake may take, from the connection to its end. As long as a request head.
pub const HANDSHAKE_TIMEOUT: Duration = HEAD_TIMEOUT;

/// Largest record with its header (RFC 8446, section 5.2).
pub const TLS_RECORD_BYTES_MAX: usize = 16 * 1024 + 256 + 5;

/// Costly steps of TLS handshakes (a signature; in TLS 1.2 the agreement of keys behind it, too) that one
/// pass of an event loop does; the others wait for the next pass. The costliest holds up all other
/// connections of the loop for 0.1 ms with a key of ECDSA P-256, and for 0.6 ms with one of RSA-2048
/// (format-spec/operation.md).
pub const HANDSHAKES_PER_PASS: usize = 4;

/// Bytes received and not yet given to the connection, with TLS: one read, and a record that was not
/// whole before it. A handshake message, which may
/// come in many records, has to fit as well.
pub const TLS_RECEIVED_BYTES_MAX: usize = 96 * 1024;

/// Plaintext that is encrypted in one go: four whole records.
pub const TLS_SEALED_BYTES_MAX: usize = 64 * 1024;

/// What a record may be longer than its plaintext: header, type, nonce, tag (RFC 8446, section 5.2,
/// allows 256 bytes and a header of 5).
pub const TLS_RECORD_OVERHEAD_MAX: usize = 64;

/// Bytes of the protocol's own that may wait to be sent: a handshake with a long chain of
/// certificates. Who lets more pile up, by asking for new keys again and again, is cut off.
pub const TLS_UNSENT_BYTES_MAX: usize = 256 * 1024;

/// Largest file of certificates, or of a key.
pub const TLS_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// How long a body may take; every `BODY_BYTES_PER_SECOND_MIN` received earn one second more.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Slowest pace at which a body may come once `BODY_TIMEOUT` is used up.
pub const BODY_BYTES_PER_SECOND_MIN: usize = 64 * 1024;

/// How long waiting bytes may stay unread by the client; every `WRITE_BYTES_PER_SECOND_MIN` taken
/// earn one second more.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Slowest pace at which a client may take an answer once `WRITE_TIMEOUT` is used up.
pub const WRITE_BYTES_PER_SECOND_MIN: usize = 16 * 1024;

/// How long an answer, or a message of a stream, may take to be sent, however steadily its client reads: it
/// is held meanwhile. The largest, of 12 MiB, needs 42 KB/s.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(300);

/// How long a client that closed its sending half is still worked for. It may only have said that
/// nothing more will come (`nc`, `shutdown`), or be gone; only time tells the two apart.
pub const HALF_CLOSED_GRACE: Duration = Duration::from_millis(250);

/// How long a connection we closed is drained, so that a late byte of the client's does not reset it
/// before it has read the answer (RFC 9112, section 9.6).
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

/// Most bytes thrown away while draining a connection we closed: the largest body, for a client that
/// sends it whole before it looks at the answer that the head alone has got. They cost no memory, and no
/// more than `LINGER_TIMEOUT`.
pub const LINGER_BYTES_MAX: usize = BODY_BYTES_MAX;

/// Most connections at a time, all listeners together.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Places for connections that only the local listener takes, so that its operator gets in while the
/// hosted one is full: some clients, their streams, and whoever scrapes.
pub const CONNECTIONS_LOCAL_RESERVED: usize = 256;

/// Connections of one peer address on the hosted listener, where no setting says otherwise: a sixteenth
/// of all, so that one peer does not take the places of the others. A gateway in front is one peer.
pub const PEER_CONNECTIONS_DEFAULT: usize = 1_024;

/// Descriptors beside those of connections: segments, logs, backups, the encoder's files.
pub const DESCRIPTORS_BESIDE: usize = 1_024;

/// Most open streams at a time; the rest of the connections stays free for calls.
pub const STREAMS_MAX: usize = 4_096;

/// Bytes a stream may have waiting behind a slow reader. One message into an empty buffer may be
/// larger, up to `STREAM_MESSAGE_BYTES_MAX`.
pub const STREAM_BACKLOG_BYTES_MAX: usize = 1024 * 1024;

/// Largest single message of a stream.
pub const STREAM_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Calls waiting for a worker; one more is answered 503 at once.
pub const QUEUE_MAX: usize = 512;

/// Answers to questions by meaning that are kept for whoever asks the same again, until the next
/// write.
pub const ANSWERS_MAX: usize = 1024;

/// Bytes that these take, with the tables that they lie in.
pub const ANSWERS_BYTES_MAX: usize = 1024 * 1024;

/// Most event loops. One answers some 200,000 small requests a second on a core of its own; the other
/// cores are for the work behind the requests.
pub const LOOPS_MAX: usize = 4;

/// Threads for the operator's jobs, which may take hours, or wait that long for their turn. They have
/// threads of their own, so that calls always have the workers.
pub const JOB_THREADS: usize = 8;

/// Jobs waiting for one of these threads; one more is answered 503 at once.
pub const JOB_QUEUE_MAX: usize = 32;

/// Workers for each core. A worker whose question waits for others to share a pass over the vectors
/// with, or for its encoding, works on nothing; so there are more of them than cores.
pub const WORKERS_PER_CORE: usize = 4;

/// Fewest workers, so that one long call never stops all others, and so many questions can gather.
pub const WORKERS_MIN: usize = 8;

/// Most workers; beyond it threads only add switching.
pub const WORKERS_MAX: usize = 256;

/// Workers of a machine with so many cores.
#[must_use]
pub const fn workers(cores: usize) -> usize {
    let wanted = cores * WORKERS_PER_CORE;
    match wanted {
        0..WORKERS_MIN => WORKERS_MIN,
        WORKERS_MIN..=WORKERS_MAX => wanted,
        _ => WORKERS_MAX,
    }
}

/// Largest body that is looked into for a `ping` on the event loop, where every other connection waits
/// for it: a message with a few fields beside the method, read in about a microsecond.
pub const PING_BYTES_MAX: usize = 256;

/// What `Retry-After` says when we are full.
pub const RETRY_AFTER_SECONDS: u32 = 1;

/// How long a drain waits for calls in flight and for streams to take their last bytes.
pub const DRAIN_GRACE: Duration = Duration::from_secs(10);

/// Bytes taken from a socket by one read; the buffer is shared by all connections.
pub const READ_BYTES_MAX: usize = 64 * 1024;

/// Reads and writes one connection may do before the others have their turn.
pub const TURN_STEPS_MAX: usize = 32;

/// Connections taken from one listener before the open ones have their turn.
pub const ACCEPT_BURST_MAX: usize = 256;

/// Pause of accepting after the system refused a socket (out of descriptors or memory).
pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Readiness events taken from the system by one poll.
pub const EVENTS_MAX: usize = 1_024;

/// Most listeners of one server.
pub const LISTENERS_MAX: usize = 16;

const _: () = assert!(HEAD_BYTES_MAX <= PIPELINED_BYTES_MAX, "an unfinished head must fit");
const _: () = assert!(READ_BYTES_MAX <= PIPELINED_BYTES_MAX);
const _: () = assert!(READ_BYTES_MAX + TLS_RECORD_BYTES_MAX <= TLS_RECEIVED_BYTES_MAX);
const _: () = assert!(HEAD_BYTES_MAX <= WAITING_BYTES_SMALL, "an unfinished head must fit");
const _: () = assert!(WAITING_BYTES_SMALL < PIPELINED_BYTES_MAX);
const _: () = assert!(TEXT_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX + 2 * 1024 * 1024 <= BODY_BYTES_MAX);
const _: () = assert!(BODY_BYTES_SMALL < BODY_BYTES_MAX && BODY_BYTES_MAX < BODIES_BYTES_MAX);
const _: () = assert!(CHUNK_LINE_BYTES_MAX <= CHUNK_EXTENSION_BYTES_MAX);
const _: () = assert!(STREAMS_MAX < CONNECTIONS_MAX);
const _: () = assert!(PEER_CONNECTIONS_DEFAULT + CONNECTIONS_LOCAL_RESERVED < CONNECTIONS_MAX);
const _: () = assert!(QUEUE_MAX < CONNECTIONS_MAX);
const _: () = assert!(JOB_THREADS + JOB_QUEUE_MAX < CONNECTIONS_MAX);
const _: () = assert!(WORKERS_MIN <= WORKERS_MAX);
const _: () = assert!(STREAM_BACKLOG_BYTES_MAX <= STREAM_MESSAGE_BYTES_MAX);
const _: () = assert!(WAITING_BYTES_PEER_MAX + WAITING_BYTES_LOCAL_RESERVED < WAITING_BYTES_MAX);
const _: () = assert!(WRITE_TIMEOUT.as_secs() < ANSWER_TIME_MAX.as_secs());
const _: () = assert!(HEAD_TIMEOUT.as_secs() < IDLE_TIMEOUT.as_secs());
const _: () = assert!(LINGER_TIMEOUT.as_secs() < DRAIN_GRACE.as_secs());

/// Body of one call of the HTTP API, in bytes: its questions are short, and checking a hostile body
/// takes many times its size.
pub const API_BODY_BYTES_MAX: usize = 1024 * 1024;

const _: () = assert!(API_BODY_BYTES_MAX <= BODY_BYTES_MAX);

/// Items of one answer, as JSON. Holds the largest item there can be, so that the best one found is always
/// given: its text and all else, however it is escaped, and the ids of `engine`'s `SUPERSEDES_MAX` others.
/// What does not fit is left out, and the answer says how much. An answer to MCP, which is one message of
/// a stream, stays below `STREAM_MESSAGE_BYTES_MAX` with room for what stands around it.
pub const ANSWER_BYTES_MAX: usize = 12 * 1024 * 1024;

const _: () = {
    let text = TEXT_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX;
    let tags_and_gates =
        2 * stored::LIST_MAX * (stored::NAME_BYTES_MAX * JSON_ESCAPE_GROWTH_MAX + 3);
    // An id, and where that item was erased the id once more, with the time.
    let replaced = stored::SUPERSEDES_MAX * 128;
    let titles_and_names = 1024 * 1024;
    assert!(text + tags_and_gates + replaced + titles_and_names <= ANSWER_BYTES_MAX);
    assert!(ANSWER_BYTES_MAX + 2 * 1024 * 1024 <= STREAM_MESSAGE_BYTES_MAX);
};

/// Kinds, and modalities, that statistics count by name: the most frequent. An installation has some
/// dozens; a client that makes up new ones all the time does not make `GET /stats` grow.
pub const NAMES_COUNTED_MAX: usize = 256;

/// Origins that an operator may list; more is a mistake, and each is compared with on every call.
pub const ORIGINS_MAX: usize = 64;

/// Longest origin: a scheme, the longest host name (253 bytes) and a port.
pub const ORIGIN_BYTES_MAX: usize = 288;

/// How long a browser may remember what a preflight said; a shorter list takes that long to be noticed.
pub const PREFLIGHT_AGE: Duration = Duration::from_secs(600);

/// How often the log is synced where writes do not wait for it.
pub const SYNC_INTERVAL: Duration = Duration::from_millis(50);

/// How often a server looks whether a backup that still has to lose something can be reached again.
pub const BACKUP_ERASURES_EVERY: Duration = Duration::from_secs(60);

/// Between two looks whether a backup is due.
pub const BACKUP_SCHEDULE_EVERY: Duration = Duration::from_secs(20);

/// From a backup on schedule that failed to the next attempt.
pub const BACKUP_RETRY_AFTER: Duration = Duration::from_secs(600);

/// From the time at which a backup on schedule was due to when it is told as overdue.
pub const BACKUP_OVERDUE_AFTER: Duration = Duration::from_secs(3600);

/// Longest that a tool call may take.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(120);

/// Calls that are being passed on to other nodes, each on a thread of its own with its body and up to
/// `RELAY_BYTES_MAX` of its answer; a stream holds its thread until it ends.
pub const RELAYS_MAX: usize = 64;

/// Bytes of an answer of another node that is kept until it is whole, if it says its length; a longer one is passed on
/// as it comes. Our own have less (`ANSWER_BYTES_MAX`).
pub const RELAY_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How long the name of another node may be looked up, and how long it may be connected to.
pub const RELAY_CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long another node may be silent: longer than a call may take there, and than between the comments of a stream.
pub const RELAY_SILENCE_MAX: Duration = Duration::from_secs(130);

/// How long a node waits for what another one answers it itself: well below what a call may wait for a block.
pub const NODE_ANSWER_MAX: Duration = Duration::from_secs(4);

const _: () = assert!(RELAY_SILENCE_MAX.as_secs() > CALL_TIME_MAX.as_secs());
const _: () = assert!(RELAY_SILENCE_MAX.as_secs() > STREAM_COMMENT_EVERY.as_secs());

/// Messages of one JSON-RPC batch (revision 2025-03-26).
pub const BATCH_MESSAGES_MAX: usize = 64;

/// Characters of an unknown name (an argument's, a tool's) that are looked at and shown: the longest
/// name of ours has 60.
pub const MISSPELT_CHARS_MAX: usize = 64;

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

const _: () = assert!(SESSIONS_PER_PRINCIPAL_MAX < SESSIONS_MAX);
const _: () = assert!(STREAM_EVENTS_KEPT_BYTES_MAX <= EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX);
const _: () = assert!(EVENTS_KEPT_PER_PRINCIPAL_BYTES_MAX < EVENTS_KEPT_BYTES_MAX);
const _: () = assert!(LISTENS_PER_PRINCIPAL_MAX < LISTENS_MAX && LISTENS_MAX < STREAMS_MAX);
const _: () = assert!(SUBSCRIPTIONS_PER_CLIENT_MAX < SUBSCRIPTIONS_PER_PRINCIPAL_MAX);
const _: () = assert!(SUBSCRIPTIONS_PER_PRINCIPAL_MAX < SUBSCRIPTIONS_MAX);
const _: () = assert!(ASK_TIME_MAX.as_secs() < CALL_TIME_MAX.as_secs());
const _: () = assert!(STREAM_COMMENT_EVERY.as_secs() < IDLE_TIMEOUT.as_secs());
const _: () = assert!(STREAM_STANDING_EVERY.as_secs() < STREAM_COMMENT_EVERY.as_secs());

/// Stores of tenants that are open at a time, `local` beside them. Each may take some 20 MiB: its unsealed
/// tail (`TENANT_TAIL_BYTES_SEAL`, about twice that while it is merged), answers that are kept, and threads of
/// its ledger.
pub const OPEN_STORES_MAX: usize = 64;

/// How long a call waits for its workspace to be opened, or for a place among those that are.
pub const OPEN_WAIT_MAX: Duration = Duration::from_secs(10);

/// Calls of one workspace that wait so long for it. Each holds a worker: those that come when so many wait already
/// wait for `OPEN_CROWD_WAIT_MAX`.
pub const OPEN_WAITERS_MAX: usize = 4;

/// How long these wait: most stores open within it.
pub const OPEN_CROWD_WAIT_MAX: Duration = Duration::from_millis(250);

/// Calls that open or close workspaces of tenants which are on a remote, or wait so long for that, at a time, at the
/// least: half of the workers. A remote that does not answer leaves the others, but for those below.
pub const OPENINGS_MIN: usize = WORKERS_MIN / 2;

/// Calls that wait so long until this node may write what nobody writes.
pub const TAKERS_MAX: usize = 3;

const _: () = assert!(OPENINGS_MIN + TAKERS_MAX < WORKERS_MIN);

/// How long a tenant's store stays open when nobody uses it.
pub const STORE_IDLE_MAX: Duration = Duration::from_secs(300);

/// Heap bytes of the tail at which a tenant's store seals it: small, because many are open.
pub const TENANT_TAIL_BYTES_SEAL: usize = 4 * 1024 * 1024;

/// Encoders of models that tenants' stores have and `local` has not, which are kept.
pub const TENANT_MODELS_MAX: usize = 2;
