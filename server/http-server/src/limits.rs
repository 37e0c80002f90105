//! Caps and timeouts of this crate, each with the reason for its size.

use std::time::Duration;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Largest request head (request line, header fields and the closing empty line).
    pub const HEAD_BYTES_MAX: usize = 16 * 1024;

    /// Most header fields in one request head.
    pub const HEADERS_MAX: usize = 64;

    /// Largest request body after chunked decoding. Holds the longest text, however it is escaped, and
    /// 2 MiB for everything around it.
    pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

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

    /// What may be added to `WAITING_BYTES_MAX` by messages of streams whose readers have taken all before
    /// them, so that an answer that has begun breaks off only where such readers, too, are many.
    pub const WAITING_BYTES_PROMPT_MAX: usize = 64 * 1024 * 1024;

    /// What each connection may hold, of either kind, even then: the longest head fits.
    pub const WAITING_BYTES_SMALL: usize = HEAD_BYTES_MAX;

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

    /// Most open streams at a time; the rest of the connections stays free for calls.
    pub const STREAMS_MAX: usize = 4_096;

    /// Bytes a stream may have waiting behind a slow reader. One message into an empty buffer may be
    /// larger, up to `STREAM_MESSAGE_BYTES_MAX`.
    pub const STREAM_BACKLOG_BYTES_MAX: usize = 1024 * 1024;

    /// Largest single message of a stream.
    pub const STREAM_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

    /// Calls waiting for a worker; one more is answered 503 at once.
    pub const QUEUE_MAX: usize = 512;

    /// Most event loops. One answers some 200,000 small requests a second on a core of its own; the other
    /// cores are for the work behind the requests.
    pub const LOOPS_MAX: usize = 4;

    /// Threads for the operator's jobs, which may take hours, or wait that long for their turn. They have
    /// threads of their own, so that calls always have the workers.
    pub const JOB_THREADS: usize = 8;

    /// Jobs waiting for one of these threads; one more is answered 503 at once.
    pub const JOB_QUEUE_MAX: usize = 32;

    /// Most workers; beyond it threads only add switching.
    pub const WORKERS_MAX: usize = 256;

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

    /// Longest origin: a scheme, the longest host name (253 bytes) and a port.
    pub const ORIGIN_BYTES_MAX: usize = 288;

    /// Fewest workers, so that one long call never stops all others, and so many questions can gather.
    pub const WORKERS_MIN: usize = 8;

    /// Workers for each core. A worker whose question waits for others to share a pass over the vectors
    /// with, or for its encoding, works on nothing; so there are more of them than cores.
    pub const WORKERS_PER_CORE: usize = 4;
}

/// Largest record with its header (RFC 8446, section 5.2).
pub const TLS_RECORD_BYTES_MAX: usize = 16 * 1024 + 256 + 5;

/// What a record may be longer than its plaintext: header, type, nonce, tag (RFC 8446, section 5.2,
/// allows 256 bytes and a header of 5).
pub const TLS_RECORD_OVERHEAD_MAX: usize = 64;

/// What `Retry-After` says when we are full.
pub const RETRY_AFTER_SECONDS: u32 = 1;

const _: () = assert!(HEAD_BYTES_MAX <= PIPELINED_BYTES_MAX, "an unfinished head must fit");

const _: () = assert!(READ_BYTES_MAX <= PIPELINED_BYTES_MAX);

const _: () = assert!(READ_BYTES_MAX + TLS_RECORD_BYTES_MAX <= TLS_RECEIVED_BYTES_MAX);

const _: () = assert!(HEAD_BYTES_MAX <= WAITING_BYTES_SMALL, "an unfinished head must fit");

const _: () = assert!(WAITING_BYTES_SMALL < PIPELINED_BYTES_MAX);

const _: () = assert!(BODY_BYTES_SMALL < BODY_BYTES_MAX && BODY_BYTES_MAX < BODIES_BYTES_MAX);

const _: () = assert!(CHUNK_LINE_BYTES_MAX <= CHUNK_EXTENSION_BYTES_MAX);

const _: () = assert!(STREAMS_MAX < CONNECTIONS_MAX);

const _: () = assert!(QUEUE_MAX < CONNECTIONS_MAX);

const _: () = assert!(JOB_THREADS + JOB_QUEUE_MAX < CONNECTIONS_MAX);

const _: () = assert!(STREAM_BACKLOG_BYTES_MAX <= STREAM_MESSAGE_BYTES_MAX);

const _: () = assert!(WRITE_TIMEOUT.as_secs() < ANSWER_TIME_MAX.as_secs());

const _: () = assert!(HEAD_TIMEOUT.as_secs() < IDLE_TIMEOUT.as_secs());

const _: () = assert!(LINGER_TIMEOUT.as_secs() < DRAIN_GRACE.as_secs());

const _: () = assert!(WORKERS_MIN <= WORKERS_MAX);

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
