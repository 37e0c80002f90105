//! Request heads: finding their end, parsing, and deriving the body framing.
//!
//! Implements the grammar of RFC 9112, without connections. Deliberately strict: input that two servers could interpret
//! differently is rejected, because request smuggling exploits such differences. Examples are both lengths, repeated
//! lengths, bare line feeds, folded lines, and whitespace before a colon.

use std::borrow::Cow;

use super::chunked::is_token;
use super::config::Limits;
use super::message::{Headers, Method, Response, Version};
use crate::limits::HEADERS_MAX;
use recalld_common::request_id;
use recalld_common::request_id::RequestId;

/// A request error found by the HTTP server itself. The connection closes after the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Status of the response.
    pub status: u16,
    /// Error text for the client; never contains input of the client.
    pub detail: Cow<'static, str>,
    /// The client's request id, if the head was parsed that far.
    pub id: Option<RequestId>,
}

impl Fault {
    fn new(status: u16, detail: impl Into<Cow<'static, str>>) -> Fault {
        Fault { status, detail: detail.into(), id: None }
    }

    /// 400 with the reason.
    pub(super) fn bad(what: &str) -> Fault {
        Fault::new(400, format!("Bad Request: {what}"))
    }

    /// 413.
    pub(super) fn body_too_large() -> Fault {
        Fault::new(413, "Content Too Large")
    }

    /// 431; `part` names the oversized part.
    pub(super) fn head_too_large(part: &str) -> Fault {
        Fault::new(431, format!("Request Header Fields Too Large: {part}"))
    }

    /// 408.
    pub(super) fn too_slow() -> Fault {
        Fault::new(408, "Request Timeout")
    }

    fn not_implemented(what: &str) -> Fault {
        Fault::new(501, format!("Not Implemented: {what}"))
    }

    /// The response to send.
    pub(super) fn response(&self) -> Response {
        Response::detail(self.status, &self.detail)
    }
}

/// Framing of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// By `Content-Length`; zero if the field is absent.
    Length(usize),
    /// By chunked transfer coding.
    Chunked,
}

#[derive(Debug)]
pub(super) struct RequestHead {
    pub method: Method,
    pub target: String,
    pub version: Version,
    pub headers: Headers,
    pub framing: Framing,
    /// The client's request id, if valid.
    pub id: Option<RequestId>,
    /// True if the client wants a persistent connection.
    pub keep_alive: bool,
    /// True if the client waits for `100 Continue` before sending the body.
    pub expects_continue: bool,
}

/// Searches the end of a head in `bytes[scanned..]`, validating lines meanwhile, and returns the length of the head.
/// `None` means that more bytes are needed; the next scan may start at the current end of `bytes`.
///
/// Errors are detected as early as possible. A client that speaks another protocol (TLS, bare line feeds) gets its
/// response at once and not after the head timeout.
pub(super) fn find_head_end(
    bytes: &[u8],
    scanned: usize,
    head_bytes_max: usize,
) -> Result<Option<usize>, Fault> {
    let end = bytes.len().min(head_bytes_max);
    for at in scanned..end {
        let before = if at == 0 { b'\n' } else { bytes[at - 1] };
        match bytes[at] {
            b'\n' if before != b'\r' => return Err(Fault::bad("bare line feed in the head")),
            b'\n' if at >= 3 && bytes[at - 2] == b'\n' => return Ok(Some(at + 1)),
            b'\n' => {}
            _ if before == b'\r' => return Err(Fault::bad("bare carriage return in the head")),
            b' ' | b'\t' if before == b'\n' => {
                return Err(Fault::bad("line begins with whitespace"));
            }
            b'\r' | b'\t' => {}
            0..0x20 | 0x7f => return Err(Fault::bad("control character in the head")),
            _ => {}
        }
    }
    if bytes.len() >= head_bytes_max {
        return Err(Fault::head_too_large("the whole head"));
    }
    Ok(None)
}

/// Parses a complete head, its final empty line included, as delimited by `find_head_end`.
pub(super) fn parse_head(bytes: &[u8], limits: &Limits) -> Result<RequestHead, Fault> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut fields[..limits.headers_max]);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(Fault::bad("unfinished head")),
        Err(error) => return Err(head_fault(error, bytes)),
    }
    let method = Method::from_name(parsed.method.unwrap_or_default());
    let version = if parsed.version == Some(0) { Version::Http10 } else { Version::Http11 };

    let mut headers = Headers::with_capacity(parsed.headers.len(), bytes.len());
    for field in parsed.headers.iter() {
        headers.push(field.name, field.value);
    }
    let id = headers.get(request_id::FIELD).and_then(RequestId::parse);
    let path = parsed.path.unwrap_or_default();
    understand(Parsed { method, path, version, headers, id }, limits)
        .map_err(|fault| Fault { id, ..fault })
}

/// A head parsed by its grammar, not yet validated.
struct Parsed<'a> {
    method: Method,
    path: &'a str,
    version: Version,
    headers: Headers,
    id: Option<RequestId>,
}

/// Validates a head and derives framing, expectation and persistence.
fn understand(parsed: Parsed<'_>, limits: &Limits) -> Result<RequestHead, Fault> {
    let Parsed { method, path, version, mut headers, id } = parsed;
    check_host(&headers, version)?;
    let target = target(path, &method, &mut headers)?;
    let framing = framing(&headers, version, limits)?;
    let expects_continue = expectation(&headers, version)?;
    let keep_alive = keep_alive(&headers, version);
    Ok(RequestHead { method, target, version, headers, framing, id, keep_alive, expects_continue })
}

fn head_fault(error: httparse::Error, bytes: &[u8]) -> Fault {
    match error {
        httparse::Error::TooManyHeaders => Fault::head_too_large("too many fields"),
        httparse::Error::HeaderName => Fault::bad("odd header field name"),
        httparse::Error::HeaderValue => Fault::bad("odd header field value"),
        httparse::Error::Version if names_other_version(bytes) => {
            Fault::new(505, "HTTP Version Not Supported: use HTTP/1.1")
        }
        _ => Fault::bad("odd request line"),
    }
}

/// Returns true if the request line is a method, a target and `HTTP/d.d`.
fn names_other_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let Some(at) = line.len().checked_sub(b" HTTP/1.1".len()) else { return false };
    let (before, version) = line.split_at(at);
    before.iter().filter(|byte| **byte == b' ').count() == 1
        && matches!(version, [b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// Requires exactly one `Host` on HTTP/1.1 and at most one on 1.0, containing only a host and a port.
fn check_host(headers: &Headers, version: Version) -> Result<(), Fault> {
    let mut hosts = headers.get_all("host");
    match (hosts.next(), hosts.next()) {
        (_, Some(_)) => Err(Fault::bad("more than one Host")),
        (Some(host), None) => check_authority(host),
        (None, None) if version == Version::Http11 => Err(Fault::bad("no Host")),
        (None, None) => Ok(()),
    }
}

/// Checks the characters of `host [":" port]` (RFC 3986, section 3.2).
fn check_authority(text: &str) -> Result<(), Fault> {
    let (host, port) = match text.rfind(':') {
        Some(colon) if !text.ends_with(']') => (&text[..colon], &text[colon + 1..]),
        _ => (text, ""),
    };
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let host_ok = match inner {
        Some(literal) => {
            literal.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.')
                && !literal.is_empty()
        }
        None => {
            host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&b))
                && !host.is_empty()
        }
    };
    if host_ok && port.bytes().all(|b| b.is_ascii_digit()) && port.len() <= 5 {
        return Ok(());
    }
    Err(Fault::bad("odd Host"))
}

/// Returns the target in origin form. The authority of an absolute target replaces `Host` (RFC 9112, section 3.2.2).
fn target(sent: &str, method: &Method, headers: &mut Headers) -> Result<String, Fault> {
    if method.as_str() == "CONNECT" {
        return Err(Fault::not_implemented("CONNECT"));
    }
    if !sent.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(Fault::bad("odd byte in the target"));
    }
    if sent.starts_with('/') || (sent == "*" && *method == Method::Options) {
        return Ok(sent.to_owned());
    }
    let rest = ["http://", "https://"].into_iter().find_map(|scheme| {
        let head = sent.get(..scheme.len())?;
        head.eq_ignore_ascii_case(scheme).then(|| &sent[scheme.len()..])
    });
    let rest = rest.ok_or(Fault::bad("the target must begin with a slash"))?;
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    check_authority(authority)?;
    headers.replace("Host", authority.as_bytes());
    Ok(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
}

/// Body framing by RFC 9112, section 6.3; every ambiguous case is rejected.
fn framing(headers: &Headers, version: Version, limits: &Limits) -> Result<Framing, Fault> {
    let mut lengths = headers.get_all("content-length");
    let length = lengths.next();
    if lengths.next().is_some() {
        return Err(Fault::bad("more than one Content-Length"));
    }
    if headers.get("transfer-encoding").is_some() {
        if length.is_some() {
            return Err(Fault::bad("both Content-Length and Transfer-Encoding"));
        }
        if version == Version::Http10 {
            return Err(Fault::bad("Transfer-Encoding on HTTP/1.0"));
        }
        return transfer_coding(headers);
    }
    let Some(length) = length else { return Ok(Framing::Length(0)) };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::bad("odd Content-Length"));
    }
    // The value is all digits: a number that overflows is a body that is too large.
    match length.parse::<usize>() {
        Ok(bytes) if bytes <= limits.body_bytes_max => Ok(Framing::Length(bytes)),
        _ => Err(Fault::body_too_large()),
    }
}

/// The only supported coding is `chunked`, once and last.
fn transfer_coding(headers: &Headers) -> Result<Framing, Fault> {
    let mut chunked_seen = false;
    let codings = headers.get_all("transfer-encoding").flat_map(|value| value.split(','));
    for coding in codings.map(|coding| coding.trim_matches([' ', '\t'])) {
        if chunked_seen {
            return Err(Fault::bad("a transfer coding after chunked"));
        }
        if coding.is_empty() || !coding.bytes().all(is_token) {
            return Err(Fault::bad("odd Transfer-Encoding"));
        }
        if !coding.eq_ignore_ascii_case("chunked") {
            return Err(Fault::not_implemented("the only transfer coding is chunked"));
        }
        chunked_seen = true;
    }
    Ok(Framing::Chunked)
}

/// Returns true if the client waits for `100 Continue`; HTTP/1.0 clients cannot (RFC 9110, section 10.1.1).
fn expectation(headers: &Headers, version: Version) -> Result<bool, Fault> {
    if version == Version::Http10 {
        return Ok(false);
    }
    let mut values = headers.get_all("expect").peekable();
    let expects = values.peek().is_some();
    if values.all(|value| value.eq_ignore_ascii_case("100-continue")) {
        return Ok(expects);
    }
    Err(Fault::new(417, "Expectation Failed: only 100-continue is known"))
}

/// Persistence by RFC 9112, section 9.3.
fn keep_alive(headers: &Headers, version: Version) -> bool {
    let named = |wanted: &str| {
        headers
            .get_all("connection")
            .flat_map(|value| value.split(','))
            .any(|option| option.trim_matches([' ', '\t']).eq_ignore_ascii_case(wanted))
    };
    !named("close") && (version == Version::Http11 || named("keep-alive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<RequestHead, Fault> {
        let end = find_head_end(text.as_bytes(), 0, 16 * 1024)?.expect("a whole head");
        parse_head(&text.as_bytes()[..end], &Limits::default())
    }

    #[test]
    fn a_plain_head() {
        let head =
            head("POST /a?b=c HTTP/1.1\r\nHost: x:80\r\nContent-Length: 5\r\nX-Y:  v \r\n\r\n");
        let head = head.unwrap();
        assert_eq!(head.method, Method::Post);
        assert_eq!(head.target, "/a?b=c");
        assert_eq!(head.version, Version::Http11);
        assert_eq!(head.framing, Framing::Length(5));
        assert_eq!(head.headers.get("x-y"), Some("v"));
        assert!(head.keep_alive && !head.expects_continue);
    }

    #[test]
    fn an_absolute_target_overrules_host() {
        let text = "GET http://one:81?q HTTP/1.1\r\nHost: two\r\nA: b\r\n\r\n";
        let head = head(text).unwrap();
        assert_eq!(head.target, "/?q");
        assert_eq!(head.headers.get_all("host").collect::<Vec<_>>(), ["one:81"]);
        assert_eq!(head.headers.get("a"), Some("b"));
    }

    #[test]
    fn keep_alive_rules() {
        let keeps = |line: &str, fields: &str| {
            head(&format!("{line}\r\nHost: x\r\n{fields}\r\n")).unwrap().keep_alive
        };
        assert!(keeps("GET / HTTP/1.1", ""));
        assert!(!keeps("GET / HTTP/1.1", "Connection: Close\r\n"));
        assert!(!keeps("GET / HTTP/1.1", "Connection: keep-alive, close\r\n"));
        assert!(!keeps("GET / HTTP/1.0", ""));
        assert!(keeps("GET / HTTP/1.0", "Connection: x\r\nConnection: Keep-Alive\r\n"));
    }

    #[test]
    fn a_scan_goes_on_where_it_stopped() {
        let text = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nrest";
        for at in 0..text.len() - 4 {
            assert_eq!(find_head_end(&text[..at], 0, 1000).unwrap(), None);
            assert_eq!(find_head_end(text, at, 1000).unwrap(), Some(text.len() - 4));
        }
    }
}
