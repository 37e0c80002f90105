//! Every hostile request of `tests/hostile/` against the real program, over loopback: whole, in two pieces cut at every
//! byte, byte by byte, aborted at every byte; plain and with TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use support_wire::hostile::{self, Case, Names, Step, Wanted};
use support_wire::service::{Service, scratch};
use support_wire::tls;
use support_wire::tree::workspace;
use support_wire::wire::{Ask, Client};

/// Concurrent clients.
const TOGETHER: usize = 4;

/// Most connections open at the end of a test: those of concurrent tests, and some that were closed just before.
const LEFT_MAX: u64 = 16 * TOGETHER as u64;

/// Cases of at most this many bytes are cut at every byte; longer ones at `CUTS_OF_LONG` evenly spaced bytes.
const CUT_EVERYWHERE_MAX: usize = 400;
const CUTS_OF_LONG: usize = 48;

/// A timeout that only a broken program reaches.
const TIME_MAX: Duration = Duration::from_secs(60);

struct Target {
    service: Service,
    settings: Arc<ClientConfig>,
}

fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let scratch = scratch();
        let settings = tls::trusting(&tls::renew(scratch.path()));
        let file = |name: &str| scratch.path().join(name).display().to_string();
        let (certificate, key) = (file("certificate.pem"), file("key.pem"));
        let arguments = ["--hosted", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key];
        Target { service: Service::start_shared(scratch, &arguments), settings }
    })
}

/// A stream whose client can half-close.
trait Half: Read + Write {
    fn half_close(&mut self) -> io::Result<()>;
}

impl Half for TcpStream {
    fn half_close(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Half for StreamOwned<ClientConnection, TcpStream> {
    fn half_close(&mut self) -> io::Result<()> {
        // A session can be closed only after its handshake.
        while self.conn.is_handshaking() {
            self.conn.complete_io(&mut self.sock)?;
        }
        self.conn.send_close_notify();
        self.flush()
    }
}

/// Fragmentation of a case's bytes.
#[derive(Debug, Clone, Copy)]
enum Pieces {
    Whole,
    CutAt(usize),
    Bytes,
}

/// The listener that a case runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listener {
    Local,
    Hosted,
}

impl Listener {
    fn authority(self) -> &'static str {
        match self {
            Listener::Local => target().service.local(),
            Listener::Hosted => target().service.hosted(),
        }
    }

    fn names(self) -> Names {
        let bearer = target().service.credentials().bearer.clone();
        Names { host: self.authority().to_owned(), bearer, sessions: Vec::new() }
    }

    fn play(self, case: &Case, pieces: Pieces) -> Result<(), String> {
        let authority = self.authority();
        match self {
            Listener::Local => {
                let client = Client::open(authority).map_err(|error| error.to_string())?;
                played(client, self.names(), case, pieces)
            }
            Listener::Hosted => {
                let stream = tls::connect_with(authority, &target().settings);
                let stream = stream.map_err(|error| error.to_string())?;
                played(Client::over(authority, stream), self.names(), case, pieces)
            }
        }
    }
}

fn cases(listener: Listener) -> Vec<Case> {
    let folder = workspace().join("tests/hostile");
    let mut cases = hostile::cases(&folder);
    let other = if listener == Listener::Local { "hosted" } else { "local" };
    cases.retain(|case| case.listener != other);
    assert!(cases.len() > 200, "{} cases", cases.len());
    cases
}

/// All bytes that a case sends. Session ids are not known yet, so placeholders of the same length are used.
fn sent(listener: Listener, case: &Case) -> Vec<u8> {
    let sessions = vec!["A".repeat(32); 2];
    let names = Names { sessions, ..listener.names() };
    let texts = case.steps.iter().filter_map(|step| match step {
        Step::Send(text) => Some(text.bytes(&names)),
        _ => None,
    });
    texts.flatten().collect()
}

/// Runs a case on a new connection, and returns how the outcome differs from the expected one.
fn played<S: Half>(
    mut client: Client<S>,
    mut names: Names,
    case: &Case,
    pieces: Pieces,
) -> Result<(), String> {
    let mut before = 0;
    for step in &case.steps {
        match step {
            Step::Send(text) => {
                let bytes = text.bytes(&names);
                // A client that is rejected before it has sent everything finds the connection closed.
                if let Err(error) = send(&mut client, &bytes, before, pieces)
                    && !case.closes
                {
                    return Err(format!("while it was sent: {error}"));
                }
                before += bytes.len();
            }
            Step::HalfClose => {
                client.stream().half_close().map_err(|error| format!("half closed: {error}"))?;
            }
            Step::Answer(wanted) => {
                if let Some(session) = answered(&mut client, wanted)? {
                    names.sessions.push(session);
                }
            }
        }
    }
    if case.closes {
        return match client.is_closed() {
            Ok(true) => Ok(()),
            Ok(false) => Err("something follows the last answer".to_owned()),
            Err(error) => Err(format!("not closed: {error}")),
        };
    }
    let health = client.try_send(&Ask::get("/health")).map_err(|error| format!("open: {error}"))?;
    (health.status == 200)
        .then_some(())
        .ok_or_else(|| format!("what follows has status {}: {}", health.status, health.text()))
}

/// Sends one step's bytes, of which `before` were sent by earlier steps.
fn send<S: Half>(
    client: &mut Client<S>,
    bytes: &[u8],
    before: usize,
    pieces: Pieces,
) -> io::Result<()> {
    match pieces {
        Pieces::Bytes => bytes.chunks(1).try_for_each(|byte| client.write(byte)),
        Pieces::CutAt(at) if (before + 1..before + bytes.len()).contains(&at) => {
            let (first, second) = bytes.split_at(at - before);
            client.write(first)?;
            client.write(second)
        }
        _ => client.write(bytes),
    }
}

/// Reads one response and returns its session id.
fn answered<S: Half>(client: &mut Client<S>, wanted: &Wanted) -> Result<Option<String>, String> {
    let answer = client
        .read(wanted.is_head)
        .map_err(|error| format!("no answer where {} was wanted: {error}", wanted.status))?;
    let said = format!("{}\n{}", answer.head(), answer.text());
    if answer.status != wanted.status || !said.contains(&wanted.text) {
        return Err(format!("not {} {:?} but {said}", wanted.status, wanted.text));
    }
    Ok(answer.header("mcp-session-id").map(str::to_owned))
}

/// Runs a function on each case, with several clients at a time, and reports all faults.
fn with_each(cases: &[Case], what: impl Fn(&Case) -> Vec<String> + Sync) {
    let next = AtomicUsize::new(0);
    let mut faults: Vec<String> = Vec::new();
    thread::scope(|scope| {
        let work = || {
            let mut faults = Vec::new();
            while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                let found = catch_unwind(AssertUnwindSafe(|| what(case)));
                let found = found.unwrap_or_else(|panic| {
                    println!("while playing {}", case.name);
                    resume_unwind(panic)
                });
                faults.extend(found.into_iter().map(|fault| format!("{}\n  {fault}", case.name)));
            }
            faults
        };
        let clients: Vec<_> = (0..TOGETHER).map(|_| scope.spawn(work)).collect();
        clients.into_iter().for_each(|client| faults.extend(client.join().unwrap()));
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert_nobody_is_left();
}

/// Asserts that every connection is released, and that the program still responds.
fn assert_nobody_is_left() {
    let began = Instant::now();
    loop {
        let page = target().service.ask(&Ask::get("/metrics")).text();
        let lines = page.lines().filter_map(|line| line.strip_prefix("recalld_connections "));
        let open: Vec<u64> = lines.map(|count| count.parse().unwrap()).collect();
        // Concurrent tests of this file have connections, too.
        if open.iter().all(|open| *open <= LEFT_MAX) {
            return;
        }
        assert!(began.elapsed() < TIME_MAX, "connections stay open: {open:?}");
        thread::yield_now();
    }
}

/// Positions at which a case of this length is cut in two.
fn cuts(length: usize) -> Vec<usize> {
    match length {
        0..=CUT_EVERYWHERE_MAX => (1..length).collect(),
        _ => (1..=CUTS_OF_LONG).map(|cut| cut * length / (CUTS_OF_LONG + 1)).collect(),
    }
}

fn whole_and_by_bytes(listener: Listener) {
    with_each(&cases(listener), |case| {
        let mut faults: Vec<String> =
            listener.play(case, Pieces::Whole).err().into_iter().collect();
        if faults.is_empty() && sent(listener, case).len() <= CUT_EVERYWHERE_MAX {
            let fault = listener.play(case, Pieces::Bytes).err();
            faults.extend(fault.map(|fault| format!("byte by byte: {fault}")));
        }
        faults
    });
}

#[test]
fn each_gets_its_answer() {
    whole_and_by_bytes(Listener::Local);
}

#[test]
fn each_gets_its_answer_under_tls() {
    whole_and_by_bytes(Listener::Hosted);
}

#[test]
fn where_the_bytes_are_cut_changes_nothing() {
    with_each(&cases(Listener::Local), |case| {
        let cuts = cuts(sent(Listener::Local, case).len()).into_iter();
        let fault = |cut| {
            let fault = Listener::Local.play(case, Pieces::CutAt(cut)).err()?;
            Some(format!("cut at {cut}: {fault}"))
        };
        // A single fault per case is enough.
        cuts.filter_map(fault).take(1).collect()
    });
}

/// Sends a request that ends in the middle, by an end or by a reset. All responses until then are complete.
fn broken_off(bytes: &[u8], resets: bool) -> Result<(), String> {
    let authority = Listener::Local.authority();
    let mut client = Client::open(authority).map_err(|error| error.to_string())?;
    let mut first = Ask::get("/health").bytes(authority);
    if !resets {
        first.clear();
    }
    first.extend(bytes);
    let _refused_already = client.write(&first);
    if resets {
        // Closing with unread bytes causes a reset, so a response must have arrived.
        let mut byte = [0];
        return client.stream().peek(&mut byte).map(|_| ()).map_err(|error| error.to_string());
    }
    let _refused_already = client.stream().half_close();
    let mut said = Vec::new();
    client.stream().read_to_end(&mut said).map_err(|error| format!("no end: {error}"))?;
    let said = String::from_utf8_lossy(&said);
    let is_ours = said.is_empty() || said.starts_with("HTTP/1.1 ");
    let is_fine = is_ours && !said.contains("HTTP/1.1 500");
    is_fine.then_some(()).ok_or_else(|| format!("{said:?}"))
}

#[test]
fn a_client_may_leave_at_every_byte() {
    with_each(&cases(Listener::Local), |case| {
        let bytes = sent(Listener::Local, case);
        let fault = |cut: usize| {
            // Ends and resets alternate.
            let fault = broken_off(&bytes[..cut], cut % 2 == 1).err()?;
            Some(format!("left at {cut}: {fault}"))
        };
        cuts(bytes.len()).into_iter().filter_map(fault).take(1).collect()
    });
}
