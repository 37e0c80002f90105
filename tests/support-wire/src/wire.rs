//! The client side of HTTP/1.1, plain enough to send invalid requests.
//!
//! This module handles bytes and headers; it MUST NOT depend on their meaning to the service.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// A server that is silent for this long fails the test instead of hanging it.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A request to be sent.
#[derive(Debug, Clone)]
pub struct Ask {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Ask {
    /// Makes a request without a body.
    pub fn new(method: &str, target: &str) -> Self {
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, headers: Vec::new(), body: Vec::new() }
    }

    /// Makes a `GET` request.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Makes a `POST` request with a JSON body.
    pub fn post(target: &str, body: &Value) -> Self {
        Self::new("POST", target)
            .header("Content-Type", "application/json")
            .body(body.to_string().into_bytes())
    }

    /// Replaces the target.
    #[must_use]
    pub fn to(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds headers.
    #[must_use]
    pub fn headers(mut self, pairs: &[(&str, &str)]) -> Self {
        for (name, value) in pairs {
            self = self.header(name, value);
        }
        self
    }

    /// Removes a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
        self
    }

    /// Adds a query to the target.
    #[must_use]
    pub fn with_query(mut self, query: &str) -> Self {
        self.target = format!("{}?{query}", self.target);
        self
    }

    /// Replaces the body.
    #[must_use]
    pub fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// Serializes the request for a server of this name.
    pub fn bytes(&self, authority: &str) -> Vec<u8> {
        let has = |name: &str| self.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !has("host") {
            head.push_str(&format!("Host: {authority}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let has_length = has("content-length") || has("transfer-encoding");
        if (!self.body.is_empty() || self.method == "POST") && !has_length {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        [head.into_bytes(), self.body.clone()].concat()
    }
}

/// A response.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body, decoded.
    pub body: Vec<u8>,
}

impl Answer {
    /// Returns a header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }

    /// The header fields, one a line, with their names as received.
    pub fn head(&self) -> String {
        self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// The body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("status {}, {error}: {}", self.status, self.text()))
    }

    /// The data of each event of a stream, as JSON.
    ///
    /// # Panics
    /// The body is no event stream of JSON.
    pub fn events(&self) -> Vec<Value> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"), "{}", self.text());
        let text = self.text();
        let events = text.split("\n\n").filter(|event| event.contains("data:"));
        let data = events.map(|event| {
            let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
            lines.map(str::trim_start).collect::<Vec<_>>().join("\n")
        });
        data.map(|data| serde_json::from_str(&data).expect("an event's data is JSON")).collect()
    }
}

/// A persistent connection, plain or over another protocol.
pub struct Client<S = TcpStream> {
    authority: String,
    stream: S,
    unread: Vec<u8>,
}

impl Client {
    /// Connects to a server.
    ///
    /// # Errors
    /// A system call fails.
    pub fn open(authority: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(authority)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(authority, stream))
    }

    /// Sends a request, and returns the events of the response as they arrive.
    ///
    /// # Panics
    /// The response is no event stream.
    pub fn follow(mut self, ask: &Ask) -> Events {
        self.write(&ask.bytes(&self.authority)).expect("the connection takes the request");
        let head = self.until(b"\r\n\r\n").expect("an answer begins");
        let head = String::from_utf8_lossy(&head);
        assert!(head.contains("text/event-stream"), "{head}");
        Events { client: self, text: String::new(), last_id: None }
    }
}

impl<S: Read + Write> Client<S> {
    /// Makes a client over an open stream.
    pub fn over(authority: &str, stream: S) -> Self {
        Self { authority: authority.to_owned(), stream, unread: Vec::new() }
    }

    /// The underlying stream.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Sends a request and waits for the whole response.
    ///
    /// # Panics
    /// The connection breaks.
    pub fn send(&mut self, ask: &Ask) -> Answer {
        self.try_send(ask).unwrap_or_else(|error| panic!("{} {}: {error}", ask.method, ask.target))
    }

    /// Sends a request to a server that may die meanwhile, and waits for the whole response.
    ///
    /// # Errors
    /// The connection breaks before the response is complete.
    pub fn try_send(&mut self, ask: &Ask) -> io::Result<Answer> {
        self.write(&ask.bytes(&self.authority))?;
        self.read(ask.method == "HEAD")
    }

    /// Sends bytes unchanged.
    ///
    /// # Errors
    /// A system call fails.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Reads one response.
    ///
    /// # Errors
    /// The connection ends before the response is complete.
    pub fn read(&mut self, head_only: bool) -> io::Result<Answer> {
        let mut answer = self.read_head()?;
        if !head_only {
            self.read_body(&mut answer)?;
        }
        Ok(answer)
    }

    /// Reads the head of a response, whose body is read next or never.
    ///
    /// # Errors
    /// The connection ends before the head is complete.
    pub fn read_head(&mut self) -> io::Result<Answer> {
        let head = self.until(b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.split("\r\n").filter(|line| !line.is_empty());
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status: u16 = status.ok_or_else(|| broken("no status line"))?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Ok(Answer { status, headers, body: Vec::new() })
    }

    /// Reads the body of a response whose head was read.
    ///
    /// # Errors
    /// The connection ends before the body is complete.
    pub fn read_body(&mut self, answer: &mut Answer) -> io::Result<()> {
        if answer.status < 200 || answer.status == 204 {
            return Ok(());
        }
        answer.body = if answer.header("transfer-encoding") == Some("chunked") {
            self.chunks()?
        } else if let Some(length) = answer.header("content-length") {
            let length = length.parse().map_err(|_| broken("a length that is no number"))?;
            self.exactly(length)?
        } else {
            self.remainder()?
        };
        Ok(())
    }

    /// Returns true if the server has closed its side without sending more.
    ///
    /// # Errors
    /// A system call fails.
    pub fn is_closed(&mut self) -> io::Result<bool> {
        Ok(self.remainder()?.is_empty())
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let chunk = self.chunk()?;
            if chunk.is_empty() {
                return Ok(body);
            }
            body.extend_from_slice(&chunk);
        }
    }

    fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let line = self.until(b"\r\n")?;
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        let size = usize::from_str_radix(&line, 16).map_err(|_| broken("no chunk size"))?;
        let mut chunk = self.exactly(size + 2)?;
        chunk.truncate(size);
        Ok(chunk)
    }

    fn until(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        loop {
            let found = self.unread.windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Ok(self.unread.drain(..at + end.len()).collect());
            }
            self.more()?;
        }
    }

    fn exactly(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.unread.len() < length {
            self.more()?;
        }
        Ok(self.unread.drain(..length).collect())
    }

    fn remainder(&mut self) -> io::Result<Vec<u8>> {
        let mut all = std::mem::take(&mut self.unread);
        self.stream.read_to_end(&mut all)?;
        Ok(all)
    }

    fn more(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16 * 1024];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(broken("the connection ended")),
            Ok(count) => {
                self.unread.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            // The system does not restart a read with a timeout after a signal.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The events of a response in progress. Dropping the value closes the connection; the server continues its work.
pub struct Events {
    client: Client,
    text: String,
    last_id: Option<String>,
}

impl Events {
    /// The id of the last event with an id, even one without data.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the next event's name and data.
    ///
    /// # Errors
    /// The stream ends, in an orderly way or not.
    ///
    /// # Panics
    /// The data is not JSON.
    pub fn next_event(&mut self) -> io::Result<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let Some(id) = line("id: ") {
                    self.last_id = Some(id.to_owned());
                }
                let found = line("event: ").zip(line("data: ")).map(|(name, data)| {
                    (name.to_owned(), serde_json::from_str(data).expect("data is JSON"))
                });
                self.text = rest.to_owned();
                match found {
                    Some(found) => return Ok(found),
                    None => continue, // a comment, which keeps the connection open
                }
            }
            let chunk = self.client.chunk()?;
            if chunk.is_empty() {
                return Err(broken("the stream ended"));
            }
            self.text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}

/// Sends one request on a connection of its own.
///
/// # Panics
/// The server does not respond.
pub fn ask(authority: &str, ask: &Ask) -> Answer {
    let mut client = Client::open(authority).expect("the server takes connections");
    client.send(ask)
}
