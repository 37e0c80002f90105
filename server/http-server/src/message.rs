//! Requests and responses as values: what a service is given and what it gives back.
//!
//! Knows field names and bytes; must not know sockets, framing or time.

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
    /// Any other token, as sent.
    Other(String),
}

impl Method {
    /// The method named `name`.
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

    /// The name of a method of RFC 9110; `other` for any other.
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

    /// The name as it stands on the wire.
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
    /// HTTP/1.0: closes after each answer unless asked otherwise, knows no chunks.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// Header fields in the order they were sent. Names compare without case.
///
/// Values are bytes on the wire; each byte stands here as the character of the same number
/// (ISO 8859-1), which loses nothing and leaves ASCII as it is.
///
/// `Debug` shows names only, because values carry credentials.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    text: String,
    fields: Vec<Field>,
}

/// Where one field stands in `Headers::text`: the name from `start`, the value from `value` to `end`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Field {
    start: usize,
    value: usize,
    end: usize,
}

impl Headers {
    /// No fields, with room for `fields` of them.
    pub fn with_capacity(fields: usize, bytes: usize) -> Headers {
        Headers { text: String::with_capacity(bytes), fields: Vec::with_capacity(fields) }
    }

    /// Adds a field after the others.
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

    /// Puts `value` in the place of all fields of that name.
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

    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_all(name).next()
    }

    /// Every value of a field, in order.
    pub fn get_all<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a str> + use<'a, 'n> {
        self.iter().filter(move |(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    }

    /// All fields, in order, names as sent.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|at| (&self.text[at.start..at.value], &self.text[at.value..at.end]))
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// A whole request, its body decoded.
///
/// `Debug` shows neither field values nor query nor body, because any of them may carry a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub method: Method,
    /// Path and query as sent: visible ASCII beginning with `/`, or `*` for OPTIONS. An absolute
    /// target arrives here without its scheme and authority, which then stands in `Host`.
    pub target: String,
    /// The client's version.
    pub version: Version,
    /// All header fields. There is exactly one `Host` on HTTP/1.1 and at most one on 1.0.
    pub headers: Headers,
    /// The body; empty when there was none.
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

/// Status and header fields of an answer. Framing fields (`Content-Length`, `Transfer-Encoding`,
/// `Connection`, `Date`) are the transport's; an answer that names one, or whose fields could break
/// out of their line, is replaced by a 500.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// 200 to 599.
    pub status: u16,
    /// Fields in the order they will be sent.
    pub headers: Vec<(Cow<'static, str>, Cow<'static, str>)>,
}

impl Head {
    /// A head without fields.
    pub fn new(status: u16) -> Head {
        Head { status, headers: Vec::new() }
    }

    /// Adds a field.
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

/// A whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status and fields.
    pub head: Head,
    /// Not sent for HEAD, 204 and 304; its length is still announced for HEAD.
    pub body: Vec<u8>,
}

impl Response {
    /// An answer without fields and body.
    pub fn empty(status: u16) -> Response {
        Response { head: Head::new(status), body: Vec::new() }
    }

    /// A JSON answer; `body` is the JSON text.
    pub fn json(status: u16, body: Vec<u8>) -> Response {
        Response { head: Head::new(status).header("content-type", "application/json"), body }
    }

    /// `{"detail": "..."}`, the shape of every plain error. `detail` is our own words: no quotes, no
    /// backslashes, nothing the client sent.
    pub(super) fn detail(status: u16, detail: &str) -> Response {
        debug_assert!(!detail.contains(['"', '\\']) && detail.is_ascii());
        Response::json(status, format!("{{\"detail\": \"{detail}\"}}").into_bytes())
    }

    /// 500, naming the request: what went wrong is in the log beside that name.
    pub(super) fn internal(id: &RequestId) -> Response {
        let body = format!("{{\"detail\": \"Internal Server Error\", \"request_id\": \"{id}\"}}");
        Response::json(500, body.into_bytes())
    }

    /// Adds a field.
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
