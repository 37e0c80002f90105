//! Limits and timeouts of this crate, each with the reason for its value.

use std::time::Duration;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Largest request head (request line, header fields and the closing empty line).
    pub const HEAD_BYTES_MAX: usize = 16 * 1024;

    /// Header fields in one request head.
    pub const HEADERS_MAX: usize = 64;

    /// Largest request body after chunked decoding. Fits the longest text, however escaped, and 2 MiB around the text.
    pub const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

    /// Bytes of all request bodies in memory. A body counts from its first byte until its request is answered and the
    /// service has dropped the body, even after a disconnect. Above this limit, a body larger than `BODY_BYTES_SMALL`
    /// is rejected with 503. So many large bodies cannot exhaust the memory, and small bodies still pass.
    pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;

    /// Largest body that is read without a body decision of the service, and even when `BODIES_BYTES_MAX` is reached.
    pub const BODY_BYTES_SMALL: usize = 16 * 1024;

    /// Memory of all connections for unread bytes and for responses until their last byte is sent, TLS and streams
    /// included. Bodies do not count. Above this limit, a connection with more than `WAITING_BYTES_SMALL` is no longer
    /// read, a larger response becomes 503, and a stream with a larger backlog is aborted. So many clients that
    /// pipeline, or do not read, cannot exhaust the memory.
    pub const WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;

    /// Additional memory above `WAITING_BYTES_MAX` for stream messages to readers who have received all earlier bytes.
    /// A response that has begun is aborted only if such readers are numerous too.
    pub const WAITING_BYTES_PROMPT_MAX: usize = 64 * 1024 * 1024;

    /// Memory of either kind that each connection may use even above the limits: the longest head fits.
    pub const WAITING_BYTES_SMALL: usize = HEAD_BYTES_MAX;

    /// Unparsed bytes buffered per connection: an unfinished head, or pipelined requests. Above this limit the
    /// connection is not read until the request in flight is answered.
    pub const PIPELINED_BYTES_MAX: usize = 64 * 1024;

    /// Longest chunk-size line of a chunked body, with extensions, without its line end.
    pub const CHUNK_LINE_BYTES_MAX: usize = 256;

    /// Bytes of chunk extensions in one body; extensions are ignored, so they must be cheap.
    pub const CHUNK_EXTENSION_BYTES_MAX: usize = 4 * 1024;

    /// Bytes of trailer fields after a chunked body; they are validated and discarded.
    pub const TRAILER_BYTES_MAX: usize = 4 * 1024;

    /// Maximum idle time of a connection between requests.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

    /// Time limit of a request head, from its first byte to its last.
    pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

    /// Time limit of a TLS handshake, from the start of the connection. Equal to that of a request head.
    pub const HANDSHAKE_TIMEOUT: Duration = HEAD_TIMEOUT;

    /// Costly steps of TLS handshakes per pass of an event loop; further handshakes wait for the next pass. A costly
    /// step is a signature, or the key agreement of TLS 1.2. The costliest step delays the other connections of the
    /// loop by 0.1 ms with an ECDSA P-256 key, and by 0.6 ms with RSA-2048 (format-spec/operation.md).
    pub const HANDSHAKES_PER_PASS: usize = 4;

    /// Received TLS bytes not yet passed to the connection: one read, and an incomplete record before the read. A
    /// handshake message, which may span many records, must fit too.
    pub const TLS_RECEIVED_BYTES_MAX: usize = 96 * 1024;

    /// Plaintext encrypted at a time: four full records.
    pub const TLS_SEALED_BYTES_MAX: usize = 64 * 1024;

    /// Unsent bytes of the TLS protocol itself: a handshake with a long certificate chain. A client that exceeds the
    /// limit by repeated key updates is aborted.
    pub const TLS_UNSENT_BYTES_MAX: usize = 256 * 1024;

    /// Largest certificate or key file.
    pub const TLS_FILE_BYTES_MAX: u64 = 1024 * 1024;

    /// Time limit of a body; each `BODY_BYTES_PER_SECOND_MIN` received bytes extend the limit by one second.
    pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

    /// Lowest rate of a body after `BODY_TIMEOUT`, in bytes per second.
    pub const BODY_BYTES_PER_SECOND_MIN: usize = 64 * 1024;

    /// Time limit for the client to read buffered bytes; each `WRITE_BYTES_PER_SECOND_MIN` bytes sent extend the limit
    /// by one second.
    pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

    /// Lowest rate at which a client may read a response after `WRITE_TIMEOUT`, in bytes per second.
    pub const WRITE_BYTES_PER_SECOND_MIN: usize = 16 * 1024;

    /// Time limit for sending a response, or a message of a stream, however steadily the client reads: the bytes occupy
    /// memory meanwhile. The largest response, of 12 MiB, needs 42 KB/s.
    pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(300);

    /// Time for which a request of a client that closed its sending half is still processed. The client may only have
    /// announced the end of its input (`nc`, `shutdown`) or be gone; only time distinguishes the two.
    pub const HALF_CLOSED_GRACE: Duration = Duration::from_millis(250);

    /// Time for a lingering close, so that a late byte of the client does not reset the connection before the client
    /// has read its response (RFC 9112, section 9.6).
    pub const LINGER_TIMEOUT: Duration = Duration::from_secs(2);

    /// Bytes discarded by a lingering close: the largest body, for a client that sends the whole body before reading a
    /// response decided by the head. The bytes use no memory, and at most `LINGER_TIMEOUT`.
    pub const LINGER_BYTES_MAX: usize = BODY_BYTES_MAX;

    /// Concurrent connections of all listeners.
    pub const CONNECTIONS_MAX: usize = 16_384;

    /// Concurrently open streams; the remaining connections stay free for other requests.
    pub const STREAMS_MAX: usize = 4_096;

    /// Backlog of a stream with a slow reader, in bytes. A single message into an empty backlog may be larger, up to
    /// `STREAM_MESSAGE_BYTES_MAX`.
    pub const STREAM_BACKLOG_BYTES_MAX: usize = 1024 * 1024;

    /// Largest message of a stream.
    pub const STREAM_MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

    /// Requests waiting for a worker; one more is answered 503 immediately.
    pub const QUEUE_MAX: usize = 512;

    /// Number of event loops. A loop answers about 200,000 small requests per second on its own core; the other cores
    /// process the requests.
    pub const LOOPS_MAX: usize = 4;

    /// Threads for long-running requests of the operator, which may run or wait for hours. They have separate threads
    /// so that ordinary requests always find workers.
    pub const JOB_THREADS: usize = 8;

    /// Long-running requests waiting for a thread; one more is answered 503 immediately.
    pub const JOB_QUEUE_MAX: usize = 32;

    /// Number of workers; more threads only add context switches.
    pub const WORKERS_MAX: usize = 256;

    /// Grace period of a drain, for requests in flight and for streams to send their last bytes.
    pub const DRAIN_GRACE: Duration = Duration::from_secs(10);

    /// Bytes per read of a socket; all connections of a loop share the buffer.
    pub const READ_BYTES_MAX: usize = 64 * 1024;

    /// Reads and writes of one connection before other connections are driven.
    pub const TURN_STEPS_MAX: usize = 32;

    /// Connections accepted from one listener before open connections are driven.
    pub const ACCEPT_BURST_MAX: usize = 256;

    /// Pause of accepting after the system refused a socket (no descriptors or memory).
    pub const ACCEPT_RETRY: Duration = Duration::from_millis(100);

    /// Readiness events per poll.
    pub const EVENTS_MAX: usize = 1_024;

    /// Listeners of one server.
    pub const LISTENERS_MAX: usize = 16;

    /// Longest origin: a scheme, the longest host name (253 bytes) and a port.
    pub const ORIGIN_BYTES_MAX: usize = 288;

    /// Fewest workers, so that one long request does not block all others, and enough queries can form a batch.
    pub const WORKERS_MIN: usize = 8;

    /// Workers per core. A worker whose query waits for a shared vector scan, or for its embedding, uses no core, so
    /// there are more workers than cores.
    pub const WORKERS_PER_CORE: usize = 4;
}

/// Largest TLS record with its header (RFC 8446, section 5.2).
pub const TLS_RECORD_BYTES_MAX: usize = 16 * 1024 + 256 + 5;

/// Maximum expansion of a record over its plaintext: header, type, nonce, tag (RFC 8446, section 5.2, allows 256 bytes
/// and a header of 5).
pub const TLS_RECORD_OVERHEAD_MAX: usize = 64;

/// Value of `Retry-After` in responses to overload.
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

/// Returns the number of workers for a machine with `cores` cores.
#[must_use]
pub const fn workers(cores: usize) -> usize {
    let wanted = cores * WORKERS_PER_CORE;
    match wanted {
        0..WORKERS_MIN => WORKERS_MIN,
        WORKERS_MIN..=WORKERS_MAX => wanted,
        _ => WORKERS_MAX,
    }
}
