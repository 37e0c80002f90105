//! Requests and responses as values: input and output of a service.
//!
//! Must not know sockets, framing or time.

use std::borrow::Cow;
use std::fmt;

use recalld_common::request_id::RequestId;

/// A request method. Names are case-sensitive (RFC 9110, section 9.1).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the methods of RFC 9110 explain themselves")]
#[non_exhaustive]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    /// Any other token, as received.
    Other(String),
}

impl Method {
    /// Returns the method named `name`.
    pub(super) fn from_name(name: &str) -> Method {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "PATCH" => Method::Patch,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            other => Method::Other(other.to_owned()),
        }
    }

    /// The name of a method of RFC 9110; `other` for any other method.
    pub fn name(&self) -> &'static str {
        match self {
            Method::Other(_) => "other",
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
        }
    }

    /// The name as on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Method::Other(name) => name,
            known => known.name(),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The protocol version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: closes after each response unless the client asks for persistence; no chunked coding.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// Header fields in the order received. Names compare case-insensitively.
///
/// Values are bytes on the wire. Each byte is represented by the character of the same number (ISO 8859-1), which is
/// lossless and leaves ASCII unchanged.
///
/// `Debug` shows names only, because values contain credentials.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    text: String,
    fields: Vec<Field>,
}

/// Position of one field in `Headers::text`: name from `start`, value from `value` to `end`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Field {
    start: usize,
    value: usize,
    end: usize,
}

impl Headers {
    /// Creates an empty list with capacity for `fields` fields and `bytes` bytes of text.
    pub fn with_capacity(fields: usize, bytes: usize) -> Headers {
        Headers { text: String::with_capacity(bytes), fields: Vec::with_capacity(fields) }
    }

    /// Appends a field.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        let start = self.text.len();
        self.text.push_str(name);
        let value_at = self.text.len();
        match std::str::from_utf8(value) {
            Ok(text) if text.is_ascii() => self.text.push_str(text),
            _ => self.text.extend(value.iter().map(|byte| char::from(*byte))),
        }
        self.fields.push(Field { start, value: value_at, end: self.text.len() });
    }

    /// Replaces all fields of this name by one field with `value`.
    pub(super) fn replace(&mut self, name: &str, value: &[u8]) {
        let others: Vec<(String, String)> = self
            .iter()
            .filter(|(other, _)| !other.eq_ignore_ascii_case(name))
            .map(|(other, value)| (other.to_owned(), value.to_owned()))
            .collect();
        *self = Headers::default();
        self.push(name, value);
        for (other, value) in others {
            let bytes: Vec<u8> = value.chars().filter_map(|c| u8::try_from(c).ok()).collect();
            self.push(&other, &bytes);
        }
    }

    /// Returns the first value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_all(name).next()
    }

    /// Returns all values of a field, in order.
    pub fn get_all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.iter().filter(move |(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    }

    /// Returns all fields in order, with names as received.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|at| (&self.text[at.start..at.value], &self.text[at.value..at.end]))
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns true if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// A complete request with its decoded body.
///
/// `Debug` shows neither field values nor query nor body, because any of them may contain a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// The request method.
    pub method: Method,
    /// Path and query as received: visible ASCII beginning with `/`, or `*` for OPTIONS. Scheme and authority of an
    /// absolute target are removed, and the authority is in `Host`.
    pub target: String,
    /// The client's version.
    pub version: Version,
    /// All header fields, with exactly one `Host` on HTTP/1.1 and at most one on 1.0.
    pub headers: Headers,
    /// The body; empty if absent.
    pub body: Vec<u8>,
}

impl Request {
    /// The path of the target, still percent-encoded.
    pub fn path(&self) -> &str {
        self.target.split_once('?').map_or(self.target.as_str(), |(path, _)| path)
    }

    /// The query of the target, without its `?`, still percent-encoded.
    pub fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Request")
            .field("method", &self.method)
            .field("path", &self.path())
            .field("version", &self.version)
            .field("headers", &self.headers)
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Status and header fields of a response. The server writes the framing fields (`Content-Length`, `Transfer-Encoding`,
/// `Connection`, `Date`). A response that contains a framing field, or a field that could inject a line, is replaced by
/// a 500.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Status code, 200 to 599.
    pub status: u16,
    /// Fields in the order of sending.
    pub headers: Vec<(Cow<'static, str>, Cow<'static, str>)>,
}

impl Head {
    /// Creates a head without fields.
    pub fn new(status: u16) -> Head {
        Head { status, headers: Vec::new() }
    }

    /// Appends a field.
    #[must_use]
    pub fn header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Head {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// A complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status and header fields.
    pub head: Head,
    /// Body, not sent for HEAD, 204 and 304; for HEAD its length is still sent.
    pub body: Vec<u8>,
}

impl Response {
    /// Creates a response without fields and body.
    pub fn empty(status: u16) -> Response {
        Response { head: Head::new(status), body: Vec::new() }
    }

    /// Creates a JSON response; `body` is the JSON text.
    pub fn json(status: u16, body: Vec<u8>) -> Response {
        Response { head: Head::new(status).header("content-type", "application/json"), body }
    }

    /// `{"detail": "..."}`, the shape of every plain error. `detail` must be text of the server: no quotes, no
    /// backslashes, no client input.
    pub(super) fn detail(status: u16, detail: &str) -> Response {
        debug_assert!(!detail.contains(['"', '\\']) && detail.is_ascii());
        Response::json(status, format!("{{\"detail\": \"{detail}\"}}").into_bytes())
    }

    /// 500 with the request id: the log has the error under this id.
    pub(super) fn internal(id: &RequestId) -> Response {
        let body = format!("{{\"detail\": \"Internal Server Error\", \"request_id\": \"{id}\"}}");
        Response::json(500, body.into_bytes())
    }

    /// Appends a field.
    #[must_use]
    pub fn header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Response {
        self.head = self.head.header(name, value);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_without_case_and_order_is_kept() {
        let mut headers = Headers::default();
        headers.push("Host", b"a");
        headers.push("X-Two", b"1");
        headers.push("x-two", b"2");
        assert_eq!(headers.get("hOST"), Some("a"));
        assert_eq!(headers.get_all("X-TWO").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(headers.get("absent"), None);
        assert_eq!(headers.len(), 3);
        headers.replace("X-Two", b"\xe9");
        assert_eq!(headers.get_all("x-two").collect::<Vec<_>>(), ["\u{e9}"]);
        assert_eq!(headers.get("host"), Some("a"));
    }

    #[test]
    fn debug_hides_values() {
        let mut headers = Headers::default();
        headers.push("Authorization", b"Bearer secret");
        let request = Request {
            method: Method::Get,
            target: "/a?secret".into(),
            version: Version::Http11,
            headers,
            body: b"secret".to_vec(),
        };
        let text = format!("{request:?}");
        assert!(text.contains("Authorization") && text.contains("/a"), "{text}");
        assert!(!text.contains("secret") && !text.contains("115"), "{text}");
    }

    #[test]
    fn target_splits_at_the_first_question_mark() {
        let request = Request {
            method: Method::Get,
            target: "/a?b?c".into(),
            version: Version::Http11,
            headers: Headers::default(),
            body: Vec::new(),
        };
        assert_eq!((request.path(), request.query()), ("/a", Some("b?c")));
    }
}
