//! A running server and plain blocking clients for it.
#![expect(clippy::unwrap_used, reason = "tests say what went wrong by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime};

use recalld_http_server::{
    Call, Counters, Drained, Identity, Limits, Listen, ListenerId, NetConfig, Reply, Server,
    Service, ShutdownHandle,
};

/// A time limit that only a broken server reaches.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Event loops of a server: more than one, so that all tests also cover several loops.
const LOOPS: usize = 2;

/// A server on free ports, drained when dropped.
pub(crate) struct Bench {
    pub(crate) address: SocketAddr,
    pub(crate) addresses: Vec<(ListenerId, SocketAddr)>,
    pub(crate) handle: ShutdownHandle,
    pub(crate) counters: Arc<Counters>,
    ended: Receiver<Drained>,
}

pub(crate) struct Function<F>(F);

impl<F: Fn(Call, Reply) + Send + Sync + 'static> Service for Function<F> {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        (self.0)(call, reply);
    }
}

/// Argument of `Bench::start`: a service, or a function that becomes one.
pub(crate) trait IntoService<Kind> {
    type Service: Service;

    fn into_service(self) -> Arc<Self::Service>;
}

impl<S: Service> IntoService<Call> for S {
    type Service = S;

    fn into_service(self) -> Arc<S> {
        Arc::new(self)
    }
}

impl<F: Fn(Call, Reply) + Send + Sync + 'static> IntoService<Reply> for F {
    type Service = Function<F>;

    fn into_service(self) -> Arc<Function<F>> {
        Arc::new(Function(self))
    }
}

impl Bench {
    pub(crate) fn start<Kind>(
        service: impl IntoService<Kind>,
        limits: Limits,
        workers: usize,
    ) -> Bench {
        Bench::start_with(service, limits, workers, None)
    }

    /// Starts a server whose second listener speaks TLS, if a certificate is passed.
    pub(crate) fn start_with<Kind>(
        service: impl IntoService<Kind>,
        limits: Limits,
        workers: usize,
        identity: Option<&Arc<Identity>>,
    ) -> Bench {
        Bench::start_where(service, limits, workers, |server| match identity {
            Some(identity) => server.with_tls(ListenerId(9), identity),
            None => server,
        })
    }

    /// Starts a server; `settle` configures the server further. The listeners are 7 and 9.
    pub(crate) fn start_where<Kind>(
        service: impl IntoService<Kind>,
        limits: Limits,
        workers: usize,
        settle: impl FnOnce(Server) -> Server,
    ) -> Bench {
        let service = service.into_service();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listeners = [7, 9].map(|id| Listen { id: ListenerId(id), address }).to_vec();
        let config = NetConfig { listeners, workers, limits, wall_clock: SystemTime::now };
        let server = settle(Server::bind(config).unwrap().with_loops(LOOPS));
        let counters = server.counters();
        let addresses = server.addresses().unwrap();
        let handle = server.handle();
        let (end, ended) = channel();
        // A test that does not stop its server has dropped the receiver too.
        std::thread::spawn(move || {
            let _ = end.send(server.run(service).unwrap());
        });
        Bench { address: addresses[0].1, addresses, handle, counters, ended }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Drains the server and waits for its end.
    pub(crate) fn stop(self) -> Drained {
        self.handle.drain();
        self.ended.recv_timeout(LONG).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.handle.drain();
    }
}

pub(crate) struct Answer {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        status(&self.head)
    }

    /// Value of a header field; names are sent in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.set_write_timeout(Some(LONG)).unwrap();
        let reader = BufReader::new(socket.try_clone().unwrap());
        Client { socket, reader }
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    /// Reads one line, without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "not a line: {line:?}");
        line.truncate(line.len() - 2);
        line
    }

    /// Reads a head, without its final empty line.
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        loop {
            match self.line() {
                line if line.is_empty() => return head,
                line => head.push_str(&(line + "\n")),
            }
        }
    }

    /// Reads a response without a body and returns its status.
    pub(crate) fn head_status(&mut self) -> u16 {
        status(&self.head())
    }

    /// Reads a response with `Content-Length`.
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.head();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        self.reader.read_exact(&mut body).unwrap();
        Answer { head, body }
    }

    /// Reads the rest of a chunked response.
    pub(crate) fn chunked_body(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let size = usize::from_str_radix(&self.line(), 16).unwrap();
            let mut chunk = vec![0; size];
            self.reader.read_exact(&mut chunk).unwrap();
            body.extend(chunk);
            assert_eq!(self.line(), "");
            if size == 0 {
                return body;
            }
        }
    }

    /// Returns true if the server closes without sending another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.reader.read(&mut [0]).unwrap() == 0
    }

    /// Sends a GET and returns the status of the response, or `None` if the connection closes first.
    pub(crate) fn try_get(&mut self) -> Option<u16> {
        self.socket.write_all(get("/").as_bytes()).ok()?;
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        line.split(' ').nth(1)?.parse().ok()
    }

    /// Returns true if a response has arrived, without waiting.
    pub(crate) fn has_bytes(&mut self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let has = matches!(self.socket.peek(&mut [0]), Ok(1));
        self.socket.set_nonblocking(false).unwrap();
        has
    }

    /// Closes with unread bytes, so that the server sees a reset and not an end of file; therefore a response must be
    /// in transit.
    pub(crate) fn leave_by_reset(mut self) {
        until(|| self.has_bytes());
    }
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Waits until the condition is true.
pub(crate) fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "waited in vain");
        std::thread::yield_now();
    }
}
