//! A fake model hub on a loopback port with scripted responses.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A response: the end of the status line, further header lines, the declared body length, the body.
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) headers: String,
    pub(crate) told: usize,
    pub(crate) body: Vec<u8>,
}

/// Response of the hub to a request: its path, its resume offset, and the number of earlier requests.
pub(crate) type Behaviour = Box<dyn Fn(&str, Option<usize>, usize) -> Answer + Send>;

/// A running hub. Its thread ends with the process.
pub(crate) struct FakeHub {
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Answer {
    pub(crate) fn whole(body: &[u8]) -> Self {
        Self { status: "200 OK", headers: String::new(), told: body.len(), body: body.to_vec() }
    }

    pub(crate) fn status(status: &'static str) -> Self {
        Self { status, ..Self::whole(b"no such thing") }
    }

    /// The rest of `body` from byte `from`.
    pub(crate) fn rest(body: &[u8], from: usize) -> Self {
        let headers = format!("Content-Range: bytes {from}-{}/{}\r\n", body.len() - 1, body.len());
        Self { status: "206 Partial Content", headers, ..Self::whole(&body[from..]) }
    }

    /// Truncates the body to `bytes` bytes; the declared length stays.
    pub(crate) fn cut(mut self, bytes: usize) -> Self {
        self.body.truncate(bytes);
        self
    }
}

impl FakeHub {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                serve(stream.unwrap(), &behaviour, &log);
            }
        });
        Self { url, seen }
    }

    /// A hub that serves `files`; any other path is 404.
    pub(crate) fn of(files: Vec<(&'static str, Vec<u8>)>) -> Self {
        Self::start(Box::new(move |path, from, _| {
            match files.iter().find(|(name, _)| path.ends_with(name)) {
                Some((_, body)) => {
                    from.map_or_else(|| Answer::whole(body), |from| Answer::rest(body, from))
                }
                None => Answer::status("404 Not Found"),
            }
        }))
    }

    /// Every request so far, as `path` or `path from N`.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, behaviour: &Behaviour, log: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let path = first.split(' ').nth(1).unwrap().to_owned();
    let mut from = None;
    for line in lines.map(Result::unwrap).take_while(|line| !line.is_empty()) {
        if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            from = Some(range.trim_end_matches('-').parse().unwrap());
        }
    }
    let before = {
        let mut log = log.lock().unwrap();
        log.push(from.map_or_else(|| path.clone(), |from| format!("{path} from {from}")));
        log.len() - 1
    };
    let Answer { status, headers, told, body } = behaviour(&path, from, before);
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {told}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
}
