//! Scripted HTTP server on a real socket, which records each request.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use url::Url;

/// Scripted end of the next request of a method.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// Responds with this status and code, and does not execute the request.
    Says(u16, &'static str),
    /// Executes the request, and responds with this status and code.
    DoneAndSays(u16, &'static str),
    /// Resets the connection, and does not execute the request.
    Resets,
    /// Executes the request, and resets the connection.
    DoneAndResets,
    /// Truncates the response.
    Cut,
    /// Responds with this status and one more header.
    With(u16, &'static str, &'static str),
    /// Responds with this body.
    Body(&'static str),
}

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) url: Url,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

pub(crate) trait Acts: Default + Send + 'static {
    fn act(&mut self, seen: &Seen) -> Answer;
    /// Error response.
    fn error(status: u16, code: &str) -> Answer;
}

#[derive(Debug, Default)]
struct State<A> {
    acts: A,
    fates: BTreeMap<String, VecDeque<Fate>>,
    seen: Vec<Seen>,
}

/// The server, which ends with the test process.
pub(crate) struct Server<A> {
    state: Arc<Mutex<State<A>>>,
    pub(crate) host: String,
}

impl<A: Acts> Server<A> {
    /// Listens on a free port.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let state = Arc::<Mutex<State<A>>>::default();
        let theirs = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), Arc::clone(&theirs));
                thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        Self { state, host }
    }

    fn state(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap()
    }

    /// Scripts the next requests of this method.
    pub(crate) fn will(&self, method: &str, fates: &[Fate]) {
        self.state().fates.entry(method.into()).or_default().extend(fates.iter().cloned());
    }

    /// Reads or changes the state of the handler.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut A) -> T) -> T {
        act(&mut self.state().acts)
    }

    /// Requests since the last call.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state().seen)
    }

    /// Methods of the requests since the last call.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.method).collect()
    }
}

impl Seen {
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        let pair = self.url.query_pairs().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.into_owned())
    }
}

/// Serves one request; `None` once the connection has ended.
fn serve<A: Acts>(stream: &TcpStream, state: &Mutex<State<A>>) -> Option<()> {
    let seen = read(stream)?;
    let mut state = state.lock().unwrap();
    state.seen.push(seen.clone());
    let fate = state.fates.get_mut(&seen.method).and_then(VecDeque::pop_front);
    let answer = match fate {
        None => state.acts.act(&seen),
        Some(Fate::Says(status, code)) => A::error(status, code),
        Some(Fate::DoneAndSays(status, code)) => {
            state.acts.act(&seen);
            A::error(status, code)
        }
        Some(Fate::Resets) => return None,
        Some(Fate::DoneAndResets) => {
            state.acts.act(&seen);
            return None;
        }
        Some(Fate::Cut) => {
            let answer = state.acts.act(&seen);
            let bytes = answer.bytes(&seen.method);
            (&mut &*stream).write_all(&bytes[..bytes.len() - 1]).unwrap();
            return None;
        }
        Some(Fate::With(status, name, value)) => {
            let mut answer = A::error(status, "Told");
            answer.headers = vec![(name, value.into())];
            answer
        }
        Some(Fate::Body(text)) => Answer::new(200, text.into()),
    };
    (&mut &*stream).write_all(&answer.bytes(&seen.method)).ok()
}

fn read(stream: &TcpStream) -> Option<Seen> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let url = Url::parse("http://tiny").unwrap().join(&target).unwrap();
    Some(Seen { method, url, headers, body })
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn new(status: u16, body: Vec<u8>) -> Self {
        let modified = ("last-modified", "Thu, 26 Nov 2026 06:00:00 GMT".into());
        let date = ("date", "Thu, 26 Nov 2026 06:01:30 GMT".into());
        Self { status, headers: vec![modified, date], body }
    }

    fn bytes(&self, method: &str) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Told\r\n", self.status);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        if self.status != 204 {
            write!(head, "content-length: {}\r\n", self.body.len()).unwrap();
        }
        head.push_str("\r\n");
        let body: &[u8] = if method == "HEAD" { &[] } else { &self.body };
        [head.as_bytes(), body].concat()
    }
}
