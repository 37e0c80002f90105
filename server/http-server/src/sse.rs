//! Encodes server-sent events (WHATWG HTML, section 9.2).
//!
//! Implements the text format only; the caller decides when to send events and comments.

use std::fmt;

use super::message::Head;

/// Reason why an event cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldError {
    /// The event name contains a line end.
    Name,
    /// The id contains a line end or NUL, which a client would truncate or ignore.
    Id,
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldError::Name => out.write_str("an event name must be one line"),
            FieldError::Id => out.write_str("an event id must be one line without NUL"),
        }
    }
}

impl std::error::Error for FieldError {}

/// A server-sent event. Fields that are `None` are omitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Event<'a> {
    /// Event type; a client assumes `message` if absent.
    pub name: Option<&'a str>,
    /// Event id, which the client sends as `Last-Event-ID` when reconnecting.
    pub id: Option<&'a str>,
    /// Reconnection delay of the client, in milliseconds.
    pub retry_milliseconds: Option<u64>,
    /// Payload; the client converts line ends of all three kinds to `\n`. Clients do not dispatch an event without
    /// data, but apply its `id` and `retry`.
    pub data: Option<&'a str>,
}

impl Event<'_> {
    /// Encodes the event with its final empty line.
    ///
    /// # Errors
    /// A name or id that contains a line end or, in the id, NUL.
    pub fn encode(&self) -> Result<Vec<u8>, FieldError> {
        if self.name.is_some_and(|name| name.contains(['\r', '\n'])) {
            return Err(FieldError::Name);
        }
        if self.id.is_some_and(|id| id.contains(['\r', '\n', '\0'])) {
            return Err(FieldError::Id);
        }
        let mut text = String::with_capacity(self.data.map_or(0, str::len) + 64);
        if let Some(id) = self.id {
            line(&mut text, "id: ", id);
        }
        if let Some(name) = self.name {
            line(&mut text, "event: ", name);
        }
        if let Some(milliseconds) = self.retry_milliseconds {
            line(&mut text, "retry: ", &milliseconds.to_string());
        }
        for part in self.data.iter().flat_map(|data| lines(data)) {
            line(&mut text, "data: ", part);
        }
        text.push('\n');
        Ok(text.into_bytes())
    }
}

/// Encodes a comment, which clients ignore and which keeps proxies from closing a quiet stream.
pub fn comment(text: &str) -> Vec<u8> {
    let mut out = String::with_capacity(text.len() + 4);
    for part in lines(text) {
        line(&mut out, ": ", part);
    }
    out.push('\n');
    out.into_bytes()
}

/// Response head of an event stream: content type, and headers against caching and proxy buffering.
pub fn head() -> Head {
    Head::new(200)
        .header("content-type", "text/event-stream")
        .header("cache-control", "no-store")
        .header("x-accel-buffering", "no")
}

fn line(out: &mut String, field: &str, value: &str) {
    out.push_str(field);
    out.push_str(value);
    out.push('\n');
}

/// Splits at CRLF, LF and CR, like a client's parser. Yields at least one line.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let now = rest?;
        let Some(at) = now.find(['\r', '\n']) else {
            rest = None;
            return Some(now);
        };
        let width = if now[at..].starts_with("\r\n") { 2 } else { 1 };
        rest = Some(&now[at + width..]);
        Some(&now[..at])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(event: Event<'_>) -> String {
        String::from_utf8(event.encode().unwrap()).unwrap()
    }

    #[test]
    fn fields_in_order() {
        let event = Event {
            name: Some("tick"),
            id: Some("7"),
            retry_milliseconds: Some(1500),
            data: Some("x"),
        };
        assert_eq!(text(event), "id: 7\nevent: tick\nretry: 1500\ndata: x\n\n");
        assert_eq!(text(Event { id: Some(""), ..Event::default() }), "id: \n\n");
    }

    #[test]
    fn data_splits_at_every_line_end() {
        let data = |data| text(Event { data: Some(data), ..Event::default() });
        assert_eq!(data(""), "data: \n\n");
        assert_eq!(data("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
        assert_eq!(data("a\n"), "data: a\ndata: \n\n");
        assert_eq!(data("\n\r"), "data: \ndata: \ndata: \n\n");
        assert_eq!(data(" a:b"), "data:  a:b\n\n");
    }

    #[test]
    fn nothing_breaks_out_of_its_line() {
        let named = |name| Event { name: Some(name), ..Event::default() }.encode();
        assert_eq!(named("a\ndata: x"), Err(FieldError::Name));
        assert_eq!(named("a\r"), Err(FieldError::Name));
        let with_id = |id| Event { id: Some(id), ..Event::default() }.encode();
        assert_eq!(with_id("1\n2"), Err(FieldError::Id));
        assert_eq!(with_id("1\0"), Err(FieldError::Id));
        assert_eq!(comment("a\r\ndata: b"), b": a\n: data: b\n\n");
        assert_eq!(comment(""), b": \n\n");
    }
}
