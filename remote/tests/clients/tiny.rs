//! An S3 of a few lines over a socket. It answers as it is told, and notes each request on the wire.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use url::{Url, form_urlencoded};

/// How the next request of a method ends.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// This status and code, and nothing is done.
    Says(u16, &'static str),
    /// This status and code, and it was done.
    DoneAndSays(u16, &'static str),
    /// The connection is reset, and nothing is done.
    Resets,
    /// The connection is reset, and it was done.
    DoneAndResets,
    /// Half of the answer comes.
    Cut,
    /// Its answer has a header more.
    With(u16, &'static str, &'static str),
    /// A body of this.
    Body(&'static str),
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) url: Url,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    fates: BTreeMap<String, VecDeque<Fate>>,
    seen: Vec<Seen>,
    /// Names in an answer to a list.
    page: Option<usize>,
    knows_no_bulk: bool,
}

/// The server. It ends with the test.
pub(crate) struct Tiny {
    state: Arc<Mutex<State>>,
    pub(crate) endpoint: String,
}

impl Tiny {
    /// Listens on a port of its own; the bucket is `memories`.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::<Mutex<State>>::default();
        let theirs = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), Arc::clone(&theirs));
                thread::spawn(move || while serve(&stream, &state).is_some() {});
            }
        });
        Self { state, endpoint }
    }

    /// Of the next requests of this method.
    pub(crate) fn will(&self, method: &str, fates: &[Fate]) {
        let mut state = self.state.lock().unwrap();
        state.fates.entry(method.into()).or_default().extend(fates.iter().cloned());
    }

    /// Lists come in pages of so many names.
    pub(crate) fn pages(&self, names: usize) {
        self.state.lock().unwrap().page = Some(names);
    }

    /// Removes only one by one.
    pub(crate) fn knows_no_bulk(&self) {
        self.state.lock().unwrap().knows_no_bulk = true;
    }

    /// Puts an object there as another client would.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        self.state.lock().unwrap().objects.insert(name.into(), bytes.into());
    }

    /// What came since this was asked last.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.lock().unwrap().seen)
    }

    /// The methods of what came since this was asked last.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.method).collect()
    }
}

impl Seen {
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        let pair = self.url.query_pairs().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.into_owned())
    }

    fn key(&self) -> String {
        let path = self.url.path().strip_prefix("/memories").unwrap_or_default();
        path.trim_start_matches('/').to_owned()
    }
}

/// `None` once the connection is over.
fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let seen = read(stream)?;
    let mut state = state.lock().unwrap();
    state.seen.push(seen.clone());
    let fate = state.fates.get_mut(&seen.method).and_then(VecDeque::pop_front);
    let answer = match fate {
        None => state.act(&seen),
        Some(Fate::Says(status, code)) => Answer::error(status, code),
        Some(Fate::DoneAndSays(status, code)) => {
            state.act(&seen);
            Answer::error(status, code)
        }
        Some(Fate::Resets) => return None,
        Some(Fate::DoneAndResets) => {
            state.act(&seen);
            return None;
        }
        Some(Fate::Cut) => {
            let answer = state.act(&seen);
            let bytes = answer.bytes(&seen.method);
            (&mut &*stream).write_all(&bytes[..bytes.len() - 1]).unwrap();
            return None;
        }
        Some(Fate::With(status, name, value)) => {
            let mut answer = Answer::error(status, "Told");
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

impl State {
    fn act(&mut self, seen: &Seen) -> Answer {
        if !seen.url.path().starts_with("/memories") {
            return Answer::error(404, "NoSuchBucket");
        }
        let key = seen.key();
        match seen.method.as_str() {
            "PUT" => {
                assert!(seen.headers.contains_key("content-length"));
                if seen.headers.get("if-none-match").is_some_and(|value| value == "*") {
                    assert_eq!(seen.query("X-Amz-SignedHeaders").unwrap(), "host;if-none-match");
                    if self.objects.contains_key(&key) {
                        return Answer::error(412, "PreconditionFailed");
                    }
                }
                self.objects.insert(key, seen.body.clone());
                Answer::new(200, Vec::new())
            }
            "GET" if seen.query("list-type").is_some() => self.list(seen),
            "GET" | "HEAD" => match self.objects.get(&key) {
                None => Answer::error(404, "NoSuchKey"),
                Some(bytes) => part(bytes, seen.headers.get("range")),
            },
            "DELETE" => {
                self.objects.remove(&key);
                Answer::new(204, Vec::new())
            }
            "POST" if self.knows_no_bulk => Answer::error(501, "NotImplemented"),
            "POST" => self.remove(seen),
            _ => Answer::error(405, "MethodNotAllowed"),
        }
    }

    fn list(&self, seen: &Seen) -> Answer {
        let prefix = seen.query("prefix").unwrap_or_default();
        let after = seen.query("continuation-token").or_else(|| seen.query("start-after"));
        let most: usize = seen.query("max-keys").unwrap().parse().unwrap();
        let most = most.min(self.page.unwrap_or(1000));
        let mut text = format!("<ListBucketResult xmlns=\"{NAMESPACE}\"><Name>memories</Name>");
        let matching: Vec<_> = self
            .objects
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix) && Some(*name) > after.as_ref())
            .collect();
        for (name, bytes) in matching.iter().take(most) {
            let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
            let length = bytes.len();
            write!(text, "<Contents><Key>{name}</Key><LastModified>2026-11-26T06:00:00.000Z</LastModified><ETag>\"e\"</ETag><Size>{length}</Size><StorageClass>STANDARD</StorageClass></Contents>").unwrap();
        }
        let is_cut = matching.len() > most;
        write!(text, "<EncodingType>url</EncodingType><IsTruncated>{is_cut}</IsTruncated>")
            .unwrap();
        if is_cut {
            let last = matching[most - 1].0;
            write!(text, "<NextContinuationToken>{last}</NextContinuationToken>").unwrap();
        }
        text.push_str("</ListBucketResult>");
        Answer::new(200, text.into())
    }

    fn remove(&mut self, seen: &Seen) -> Answer {
        // As Ceph has it: what says something of the content must be signed.
        assert!(!seen.headers.contains_key("content-type"));
        assert_eq!(seen.query("X-Amz-SignedHeaders").unwrap(), "content-md5;host");
        assert!(seen.headers.contains_key("content-md5"));
        let body = String::from_utf8(seen.body.clone()).unwrap();
        let mut text = format!("<DeleteResult xmlns=\"{NAMESPACE}\">");
        for part in body.split("<Key>").skip(1) {
            let name = part.split("</Key>").next().unwrap();
            if name.ends_with("locked") {
                write!(
                    text,
                    "<Error><Key>{name}</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
                )
                .unwrap();
            } else {
                self.objects.remove(name);
                write!(text, "<Deleted><Key>{name}</Key></Deleted>").unwrap();
            }
        }
        text.push_str("</DeleteResult>");
        Answer::new(200, text.into())
    }
}

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

fn part(bytes: &[u8], range: Option<&String>) -> Answer {
    let Some(range) = range else { return Answer::new(200, bytes.into()) };
    let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    if from >= bytes.len() {
        return Answer::error(416, "InvalidRange");
    }
    let to = to.min(bytes.len() - 1);
    let mut answer = Answer::new(206, bytes[from..=to].into());
    answer.headers.push(("content-range", format!("bytes {from}-{to}/{}", bytes.len())));
    answer
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, body: Vec<u8>) -> Self {
        let modified = ("last-modified", "Thu, 26 Nov 2026 06:00:00 GMT".into());
        let date = ("date", "Thu, 26 Nov 2026 06:01:30 GMT".into());
        Self { status, headers: vec![modified, date], body }
    }

    fn error(status: u16, code: &str) -> Self {
        let body = format!("<Error><Code>{code}</Code><Message>told to</Message></Error>");
        Self { status, headers: Vec::new(), body: body.into() }
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
