//! Encodes responses: status line, fields, framing (RFC 9112, sections 4 and 6).
//!
//! Knows only the properties of the request that shape the response (HEAD, version, persistence).

use std::io::Write;

use super::chunked::is_token;
use super::http::RequestHead;
use super::message::{Head, Method, Response, Version};
use recalld_common::date::Moment;
use recalld_common::request_id;
use recalld_common::request_id::RequestId;

/// Bodies up to this size share the buffer of their head, and so one write.
const JOINED_BODY_BYTES_MAX: usize = 16 * 1024;

/// Initial capacity that fits a typical head without growing.
const HEAD_BYTES_USUAL: usize = 256;

/// Fields that frame or identify the message; only the server writes them.
const FRAMING_FIELDS: [&str; 5] =
    ["content-length", "transfer-encoding", "connection", "date", request_id::FIELD];

/// Properties of a request that shape its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// HEAD request: the body is not sent.
    pub head_only: bool,
    /// The client's version.
    pub version: Version,
    /// True if the connection persists after the response.
    pub keep_alive: bool,
    /// The request id.
    pub id: RequestId,
}

impl Exchange {
    /// Creates the exchange of a request.
    pub(super) fn of(head: &RequestHead, id: RequestId) -> Exchange {
        Exchange {
            head_only: head.method == Method::Head,
            version: head.version,
            keep_alive: head.keep_alive,
            id,
        }
    }

    /// Exchange of a rejected request: a response with its body, then close.
    pub(super) fn refused(id: RequestId) -> Exchange {
        Exchange { head_only: false, version: Version::Http11, keep_alive: false, id }
    }
}

/// Reason why a response cannot be sent: a fault of the service, not of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerFault {
    /// The status is not in 200 to 599.
    Status(u16),
    /// A name that is not a token, a value with control characters, or a framing field.
    Field(String),
}

/// Encodes a response into one buffer, or two if the body is large.
pub(super) fn response(
    exchange: Exchange,
    response: Response,
    moment: &Moment,
) -> Result<(Vec<u8>, Option<Vec<u8>>), AnswerFault> {
    let Response { head, body } = response;
    let mut bytes = begin(exchange, &head, moment)?;
    if !is_bodiless(head.status) {
        number_field(&mut bytes, "content-length", body.len());
    }
    bytes.extend_from_slice(b"\r\n");
    if exchange.head_only || is_bodiless(head.status) || body.is_empty() {
        return Ok((bytes, None));
    }
    if body.len() > JOINED_BODY_BYTES_MAX {
        return Ok((bytes, Some(body)));
    }
    bytes.extend_from_slice(&body);
    Ok((bytes, None))
}

/// Encodes the head of a streamed response. On HTTP/1.0 the end of the connection marks the end of the stream.
pub(super) fn stream_head(
    exchange: Exchange,
    head: &Head,
    moment: &Moment,
) -> Result<Vec<u8>, AnswerFault> {
    let mut bytes = begin(exchange, head, moment)?;
    if exchange.version == Version::Http11 && !is_bodiless(head.status) {
        bytes.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    Ok(bytes)
}

/// Appends one chunk; `data` must not be empty, because an empty chunk ends the body.
pub(super) fn chunk(bytes: &mut Vec<u8>, data: &[u8]) {
    debug_assert!(!data.is_empty());
    write!(bytes, "{:x}\r\n", data.len()).expect("a Vec takes every write");
    bytes.extend_from_slice(data);
    bytes.extend_from_slice(b"\r\n");
}

/// The chunk that ends a body.
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The interim response to `Expect: 100-continue`.
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Returns true if responses of this status never have a body (RFC 9110, section 6.4.1).
pub(super) fn is_bodiless(status: u16) -> bool {
    matches!(status, 204 | 304)
}

/// Encodes the status line, the service's fields, `Date` and `Connection`.
fn begin(exchange: Exchange, head: &Head, moment: &Moment) -> Result<Vec<u8>, AnswerFault> {
    if !(200..=599).contains(&head.status) {
        return Err(AnswerFault::Status(head.status));
    }
    let fields: usize = head.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let mut bytes = Vec::with_capacity(HEAD_BYTES_USUAL + fields);
    write!(bytes, "HTTP/1.1 {} {}\r\n", head.status, reason(head.status))
        .expect("a Vec takes every write");
    for (name, value) in &head.headers {
        check_field(name, value)?;
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"date: ");
    bytes.extend_from_slice(moment.date());
    bytes.extend_from_slice(b"\r\nx-request-id: ");
    bytes.extend_from_slice(exchange.id.as_str().as_bytes());
    bytes.extend_from_slice(b"\r\n");
    match (exchange.keep_alive, exchange.version) {
        (false, _) => bytes.extend_from_slice(b"connection: close\r\n"),
        (true, Version::Http10) => bytes.extend_from_slice(b"connection: keep-alive\r\n"),
        (true, Version::Http11) => {}
    }
    Ok(bytes)
}

fn check_field(name: &str, value: &str) -> Result<(), AnswerFault> {
    let name_ok = !name.is_empty()
        && name.bytes().all(is_token)
        && !FRAMING_FIELDS.iter().any(|framing| name.eq_ignore_ascii_case(framing));
    if name_ok && value.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control()) {
        return Ok(());
    }
    Err(AnswerFault::Field(name.escape_default().to_string()))
}

fn number_field(bytes: &mut Vec<u8>, name: &str, number: usize) {
    write!(bytes, "{name}: {number}\r\n").expect("a Vec takes every write");
}

/// The reason phrase, which clients ignore and people read.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Instant, UNIX_EPOCH};

    fn kept() -> Exchange {
        let id = RequestId::parse("a-1").unwrap();
        Exchange { head_only: false, version: Version::Http11, keep_alive: true, id }
    }

    fn text(exchange: Exchange, answer: Response) -> Result<String, AnswerFault> {
        let moment = Moment::at(Instant::now(), UNIX_EPOCH);
        let (mut bytes, body) = response(exchange, answer, &moment)?;
        bytes.extend(body.unwrap_or_default());
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn whole_answers() {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                    date: Thu, 01 Jan 1970 00:00:00 GMT\r\nx-request-id: a-1\r\n";
        let answer = || Response::json(200, b"{}".to_vec());
        assert_eq!(text(kept(), answer()).unwrap(), format!("{head}content-length: 2\r\n\r\n{{}}"));
        let exchange = Exchange { head_only: true, ..kept() };
        assert_eq!(text(exchange, answer()).unwrap(), format!("{head}content-length: 2\r\n\r\n"));
        let exchange = Exchange { keep_alive: false, ..kept() };
        let closed = format!("{head}connection: close\r\ncontent-length: 2\r\n\r\n{{}}");
        assert_eq!(text(exchange, answer()).unwrap(), closed);
        let exchange = Exchange { version: Version::Http10, ..kept() };
        assert!(text(exchange, answer()).unwrap().contains("connection: keep-alive\r\n"));
        let bodiless = text(kept(), Response::empty(204)).unwrap();
        assert!(!bodiless.contains("content-length"));
    }

    #[test]
    fn fields_cannot_break_out_or_frame() {
        for (name, value) in [
            ("x", "a\r\nSet-Cookie: b"),
            ("x", "a\nb"),
            ("x", "a\0b"),
            ("x\r\ny", "a"),
            ("x y", "a"),
            ("", "a"),
            ("Content-Length", "3"),
            ("transfer-encoding", "chunked"),
            ("Connection", "close"),
            ("date", "x"),
            ("X-Request-Id", "x"),
        ] {
            let answer = Response::empty(200).header(name, value);
            assert!(
                matches!(text(kept(), answer), Err(AnswerFault::Field(_))),
                "{name:?} {value:?}"
            );
        }
        assert!(text(kept(), Response::empty(200).header("x", "tab\there \u{e9}")).is_ok());
        assert_eq!(text(kept(), Response::empty(101)), Err(AnswerFault::Status(101)));
    }
}
