//! Tests of the state machine without a socket: every request split at every byte, every deadline, and every hostile
//! request with its required response.

use std::path::Path;
use std::time::UNIX_EPOCH;

use super::*;

use crate::limits;
use crate::message::Method;

#[path = "../../../../tests/support-wire/src/hostile.rs"]
#[expect(unreachable_pub, reason = "a public module of another package, which uses all of it")]
mod hostile;
mod judged;

use hostile::{Case, Names, Step};

const NUMBERING: Numbering = Numbering { instance: 1, connection: 2, requests: 0 };

/// Returns the maximum body size in bytes, or the status of a rejection.
type Judge = dyn Fn(&Request, usize) -> Result<usize, u16>;

/// A connection, its clock and its output so far.
struct Bench {
    conn: Conn,
    moment: Moment,
    said: Vec<u8>,
    calls: Vec<Request>,
    judge: Box<Judge>,
    /// The sizes for which a body decision was requested.
    asked: Vec<usize>,
}

impl Bench {
    fn new() -> Bench {
        Bench::limited(Limits::default())
    }

    fn limited(limits: Limits) -> Bench {
        let moment = Moment::at(Instant::now(), UNIX_EPOCH);
        let conn = Conn::open(Arc::new(limits), NUMBERING, moment.now);
        let judge = Box::new(|_: &Request, _| Ok(usize::MAX));
        Bench { conn, moment, said: Vec::new(), calls: Vec::new(), judge, asked: Vec::new() }
    }

    /// Feeds bytes and answers each request with its own method, target and body.
    fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let now = rest.len().min(self.conn.room());
            self.conn.receive(&rest[..now], self.moment.now);
            rest = &rest[now..];
            self.serve();
            if rest.is_empty() || self.conn.room() == 0 {
                return;
            }
        }
    }

    fn serve(&mut self) {
        loop {
            let arrived = self.conn.advance(&self.moment);
            let served = arrived.is_some();
            if let Some(Arrived::Head(request, bytes)) = arrived {
                self.asked.push(bytes);
                match (self.judge)(&request, bytes) {
                    Ok(bytes_max) => self.conn.admit(request, bytes_max, &self.moment),
                    Err(status) => {
                        self.conn.decline(Response::empty(status), &self.moment).unwrap();
                    }
                }
            } else if let Some(Arrived::Call(request)) = arrived {
                let mut body = format!("{} {} ", request.method, request.target).into_bytes();
                body.extend(&request.body);
                let answer = Response { head: Head::new(200), body };
                self.conn.respond(answer, &self.moment).unwrap();
                self.calls.push(request);
            }
            if !self.flush() && !served {
                return;
            }
        }
    }

    /// Sends the whole output, three bytes at a time.
    fn flush(&mut self) -> bool {
        let before = self.said.len();
        while !self.conn.output().is_empty() {
            let piece = &self.conn.output()[..self.conn.output().len().min(3)];
            self.said.extend(piece);
            let count = piece.len();
            self.conn.wrote(count, self.moment.now);
        }
        self.said.len() > before
    }

    fn end(&mut self) {
        self.conn.end(self.moment.now);
        self.serve();
    }

    fn later(&mut self, wait: Duration) {
        self.moment.advance(self.moment.now + wait, UNIX_EPOCH);
    }

    /// Advances the clock to the deadline, which must be `wait` away.
    fn expire_after(&mut self, wait: Duration) {
        assert_eq!(self.conn.deadline(), Some(self.moment.now + wait));
        self.later(wait);
        self.conn.expire(&self.moment);
        self.serve();
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.said).into_owned()
    }

    /// The status codes of the output so far.
    fn statuses(&self) -> Vec<u16> {
        let text = self.text();
        let lines = text.split("HTTP/1.1 ").skip(1);
        lines.map(|line| line[..3].parse().unwrap()).collect()
    }
}

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn every_split_gives_the_same_calls_and_answers() {
    let streams: &[&[u8]] = &[
        GET,
        b"HEAD /h HTTP/1.1\r\nHost: x\r\n\r\nGET /i HTTP/1.0\r\n\r\n",
        b"\r\n\r\nPOST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello\r\nGET /q HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;e=1\r\nde\r\n0\r\nT: v\r\n\r\nDELETE /d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /never HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PUT /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nokGET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab",
        b"GET / HTTP/1.1\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
    ];
    for stream in streams {
        let mut whole = Bench::new();
        whole.feed(stream);
        assert!(!whole.said.is_empty());
        for at in 0..=stream.len() {
            let mut split = Bench::new();
            split.feed(&stream[..at]);
            split.feed(&stream[at..]);
            assert_eq!(split.calls, whole.calls, "split at {at}");
            assert_eq!(split.text(), whole.text(), "split at {at}");
        }
        let mut bytes = Bench::new();
        stream.iter().for_each(|byte| bytes.feed(&[*byte]));
        assert_eq!((&bytes.calls, bytes.text()), (&whole.calls, whole.text()));
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_and_buffers_given_back() {
    let mut bench = Bench::new();
    bench.feed(&GET.repeat(100));
    assert_eq!(bench.statuses(), vec![200; 100]);
    assert_eq!(bench.conn.inbox.held(), 0);
    assert_eq!(bench.conn.deadline(), Some(bench.moment.now + crate::limits::IDLE_TIMEOUT));
}

#[test]
fn one_call_at_a_time_and_what_waits_is_bounded() {
    let mut bench = Bench::limited(Limits {
        pipelined_bytes_max: 100,
        head_bytes_max: 100,
        ..Limits::default()
    });
    bench.conn.receive(GET, bench.moment.now);
    assert!(bench.conn.advance(&bench.moment).is_some());
    bench.conn.receive(&[b'x'; 100], bench.moment.now);
    assert!(bench.conn.advance(&bench.moment).is_none());
    assert_eq!(bench.conn.room(), 0);
    assert_eq!(bench.conn.deadline(), None);
}

/// Statuses with which a connection itself rejects a request and closes. Every other request goes to the service, which
/// answers 200 here.
const FAULTS: [u16; 7] = [400, 408, 413, 417, 431, 501, 505];

/// Cases of at most this many bytes are split at every byte; longer cases at `CUTS_OF_LONG` evenly spaced bytes.
const CUT_EVERYWHERE_MAX: usize = 400;
const CUTS_OF_LONG: usize = 48;

/// Checks a case of the corpus with its bytes split at `cut`.
fn play(case: &Case, cut: usize) {
    let names = Names {
        host: "localhost:80".to_owned(),
        bearer: "bearer".to_owned(),
        sessions: vec!["one".to_owned(), "two".to_owned()],
    };
    let at = format!("{}, cut at {cut}", case.name);
    let mut bench = Bench::new();
    // The service rejects by the head all paths but `/mcp`; for `/mcp` the checks of the listener apply.
    let is_local = case.listener == "local";
    bench.judge = Box::new(move |request, _| {
        let field = |name| request.headers.get(name);
        let is_known = match is_local {
            true => field("host") == Some("localhost:80") && field("origin").is_none(),
            false => field("authorization") == Some("Bearer bearer"),
        };
        if request.path() == "/mcp" && is_known { Ok(usize::MAX) } else { Err(200) }
    });
    let mut wanted = Vec::new();
    let mut before = 0;
    for step in &case.steps {
        match step {
            Step::Send(text) => {
                let bytes = text.bytes(&names);
                let (first, second) = bytes.split_at(cut.saturating_sub(before).min(bytes.len()));
                bench.feed(first);
                bench.feed(second);
                before += bytes.len();
            }
            Step::HalfClose => bench.end(),
            Step::Answer(answer) => wanted.push(answer.status),
        }
    }
    let fault = wanted.pop_if(|last| case.closes && FAULTS.contains(last));
    let mut wanted: Vec<u16> =
        wanted.iter().map(|status| if *status == 100 { 100 } else { 200 }).collect();
    let served = wanted.iter().filter(|status| **status == 200).count();
    let declined =
        usize::from(case.closes && bench.calls.len() < served && !bench.asked.is_empty());
    assert_eq!(bench.calls.len() + declined, served, "{at}: {}", bench.text());
    wanted.extend(fault);
    assert_eq!(bench.statuses(), wanted, "{at}: {}", bench.text());
    if fault.is_some() {
        assert!(bench.text().contains("connection: close\r\n"), "{at}");
        assert!(bench.text().contains("content-type: application/json\r\n"), "{at}");
        assert!(bench.text().contains("\r\n\r\n{\"detail\": \""), "{at}");
    }
    let is_over = bench.conn.is_lingering() || bench.conn.is_closed();
    assert_eq!(is_over, case.closes, "{at}: {}", bench.text());
    if !is_over {
        bench.feed(GET);
        assert_eq!(bench.calls.len(), served + 1, "{at}: what follows is answered");
    }
}

#[test]
fn hostile_requests_get_their_answer_wherever_they_are_cut() {
    let cases = hostile::cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile"));
    assert!(cases.len() > 200, "{} cases", cases.len());
    for case in cases {
        let names = Names::default();
        let texts = case.steps.iter().filter_map(|step| match step {
            Step::Send(text) => Some(text.bytes(&names).len()),
            _ => None,
        });
        let length: usize = texts.sum();
        match length {
            0..=CUT_EVERYWHERE_MAX => (0..length.max(1)).for_each(|cut| play(&case, cut)),
            _ => (0..=CUTS_OF_LONG).for_each(|cut| play(&case, cut * length / CUTS_OF_LONG)),
        }
    }
}

#[test]
fn continue_is_said_before_the_body_and_never_to_http10() {
    let mut bench = Bench::new();
    bench.feed(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(bench.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    bench.feed(b"ok");
    assert_eq!(bench.statuses(), [100, 200]);
    for quiet in [
        "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
        "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
    ] {
        let mut bench = Bench::new();
        bench.feed(quiet.as_bytes());
        assert_eq!(bench.statuses(), [200]);
    }
}

#[test]
fn silence_between_requests_closes_without_a_word() {
    let mut bench = Bench::new();
    bench.expire_after(crate::limits::IDLE_TIMEOUT);
    assert!(bench.conn.is_closed() && bench.said.is_empty());
}

#[test]
fn a_slow_head_is_timed_from_its_first_byte() {
    let mut bench = Bench::new();
    bench.later(Duration::from_secs(60));
    bench.feed(b"G");
    bench.later(Duration::from_secs(6));
    bench.feed(b"E");
    bench.expire_after(crate::limits::HEAD_TIMEOUT - Duration::from_secs(6));
    assert_eq!(bench.statuses(), [408]);
    bench.expire_after(crate::limits::LINGER_TIMEOUT);
    assert!(bench.conn.is_closed());
}

#[test]
fn a_body_earns_time_by_moving() {
    let mut bench = Bench::new();
    bench.feed(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
    let start = bench.moment.now;
    assert_eq!(bench.conn.deadline(), Some(start + crate::limits::BODY_TIMEOUT));
    bench.later(Duration::from_secs(29));
    bench.feed(&vec![b'x'; 3 * crate::limits::BODY_BYTES_PER_SECOND_MIN]);
    bench.expire_after(Duration::from_secs(4));
    assert_eq!(bench.statuses(), [408]);
}

#[test]
fn an_answer_nobody_takes_closes_the_connection() {
    let mut bench = Bench::new();
    bench.conn.receive(GET, bench.moment.now);
    assert!(bench.conn.advance(&bench.moment).is_some());
    bench.later(Duration::from_secs(1000));
    let answer = Response { head: Head::new(200), body: vec![b'x'; 1_000_000] };
    bench.conn.respond(answer, &bench.moment).unwrap();
    let head = bench.conn.output().len();
    bench.conn.wrote(head, bench.moment.now);
    assert_eq!(bench.conn.deadline(), Some(bench.moment.now + crate::limits::WRITE_TIMEOUT));
    bench.later(crate::limits::WRITE_TIMEOUT - Duration::from_secs(1));
    bench.conn.wrote(2 * crate::limits::WRITE_BYTES_PER_SECOND_MIN, bench.moment.now);
    assert_eq!(
        bench.conn.output().len(),
        1_000_000 - 2 * crate::limits::WRITE_BYTES_PER_SECOND_MIN
    );
    let wait = Duration::from_secs(3);
    assert_eq!(bench.conn.deadline(), Some(bench.moment.now + wait));
    bench.later(wait);
    bench.conn.expire(&bench.moment);
    assert!(bench.conn.is_closed());
}

#[test]
fn an_answer_that_is_taken_at_the_slowest_pace_has_an_end_too() {
    let mut bench = Bench::new();
    bench.conn.receive(GET, bench.moment.now);
    assert!(bench.conn.advance(&bench.moment).is_some());
    let answer = Response { head: Head::new(200), body: vec![b'x'; 16_000_000] };
    bench.conn.respond(answer, &bench.moment).unwrap();
    let head = bench.conn.output().len();
    bench.conn.wrote(head, bench.moment.now);
    let end = bench.moment.now + crate::limits::ANSWER_TIME_MAX;
    // Bytes per second at which the deadline extends faster than time passes.
    let mut taken = 0;
    while bench.moment.now < end {
        assert!(bench.conn.deadline().unwrap() <= end);
        bench.later(Duration::from_secs(1));
        bench.conn.wrote(2 * crate::limits::WRITE_BYTES_PER_SECOND_MIN, bench.moment.now);
        taken += 2 * crate::limits::WRITE_BYTES_PER_SECOND_MIN;
    }
    assert_eq!((bench.conn.output().len(), bench.conn.deadline()), (16_000_000 - taken, Some(end)));
    bench.conn.expire(&bench.moment);
    assert!(bench.conn.is_closed());
}

#[test]
fn a_half_closed_client_is_answered_and_then_let_go() {
    let mut bench = Bench::new();
    bench.feed(&GET[..10]);
    bench.end();
    assert_eq!(bench.statuses(), [400]);
    assert!(bench.conn.is_closed());

    let mut bench = Bench::new();
    bench.conn.receive(&GET.repeat(2), bench.moment.now);
    let Some(Arrived::Call(first)) = bench.conn.advance(&bench.moment) else { panic!("a call") };
    assert_eq!(first.method, Method::Get);
    bench.later(Duration::from_secs(100));
    bench.conn.end(bench.moment.now);
    assert_eq!(bench.conn.deadline(), Some(bench.moment.now + crate::limits::HALF_CLOSED_GRACE));
    bench.later(crate::limits::HALF_CLOSED_GRACE);
    bench.conn.expire(&bench.moment);
    assert!(bench.conn.is_abandoned());
    assert_eq!(bench.conn.deadline(), None);
    bench.conn.respond(Response::empty(204), &bench.moment).unwrap();
    bench.serve();
    assert_eq!(bench.statuses(), [204, 200]);
    assert!(bench.conn.is_closed());

    let mut bench = Bench::new();
    bench.end();
    assert!(bench.conn.is_closed() && bench.said.is_empty());
}

fn streaming(request: &str) -> Bench {
    let mut bench = Bench::new();
    bench.conn.receive(request.as_bytes(), bench.moment.now);
    assert!(bench.conn.advance(&bench.moment).is_some());
    bench.conn.begin_stream(&Head::new(200), &bench.moment).unwrap();
    bench.flush();
    bench
}

#[test]
fn a_stream_is_chunked_and_the_connection_goes_on() {
    let mut bench = streaming("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(bench.text().contains("transfer-encoding: chunked\r\n"));
    assert_eq!(bench.conn.deadline(), None);
    bench.conn.feed(b"hello, stream".to_vec(), bench.moment.now);
    bench.conn.feed(Vec::new(), bench.moment.now);
    assert_eq!(bench.conn.deadline(), Some(bench.moment.now + crate::limits::WRITE_TIMEOUT));
    bench.conn.end_stream(bench.moment.now);
    bench.flush();
    assert!(bench.text().ends_with("\r\n\r\nd\r\nhello, stream\r\n0\r\n\r\n"));
    bench.feed(GET);
    assert_eq!(bench.statuses(), [200, 200]);
}

#[test]
fn a_stream_to_http10_ends_with_the_connection() {
    let mut bench = streaming("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    bench.conn.feed(b"raw".to_vec(), bench.moment.now);
    bench.conn.end_stream(bench.moment.now);
    bench.flush();
    assert!(!bench.text().contains("chunked"));
    assert!(bench.text().contains("connection: close\r\n"));
    assert!(bench.text().ends_with("\r\n\r\nraw"));
    assert!(bench.conn.is_lingering());
}

#[test]
fn a_stream_asked_for_by_head_has_no_body() {
    let mut bench = streaming("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(!bench.conn.is_streaming());
    bench.feed(GET);
    assert_eq!(bench.statuses(), [200, 200]);
}

#[test]
fn a_stream_ends_when_its_client_leaves_or_stops_reading() {
    let mut bench = streaming("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    bench.conn.end(bench.moment.now);
    assert!(bench.conn.is_closed());
    let mut bench = streaming("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    bench.conn.feed(b"x".to_vec(), bench.moment.now);
    bench.later(crate::limits::WRITE_TIMEOUT);
    bench.conn.expire(&bench.moment);
    assert!(bench.conn.is_closed());
}

#[test]
fn an_answer_that_breaks_out_becomes_a_500() {
    let mut bench = Bench::new();
    bench.conn.receive(GET, bench.moment.now);
    assert!(bench.conn.advance(&bench.moment).is_some());
    let answer = Response::empty(200).header("x", "a\r\nb: c");
    assert!(bench.conn.respond(answer, &bench.moment).is_err());
    bench.flush();
    assert_eq!(bench.statuses(), [500]);
    bench.feed(GET);
    assert_eq!(bench.statuses(), [500, 200]);
}

#[test]
fn lingering_reads_a_bounded_amount() {
    let mut bench = Bench::new();
    bench.feed(b"\0");
    assert!(bench.conn.is_lingering());
    for _ in 0..limits::LINGER_BYTES_MAX / crate::limits::READ_BYTES_MAX {
        assert!(!bench.conn.is_closed());
        bench.conn.receive(&vec![0; crate::limits::READ_BYTES_MAX], bench.moment.now);
    }
    assert!(bench.conn.is_closed());
}

#[test]
fn a_drain_closes_the_idle_and_finishes_the_rest() {
    let mut idle = Bench::new();
    idle.conn.drain();
    assert!(idle.conn.is_closed());
    let mut begun = Bench::new();
    begun.feed(&GET[..5]);
    begun.conn.drain();
    begun.feed(&GET[5..]);
    begun.feed(GET);
    assert_eq!(begun.statuses(), [200]);
    assert!(begun.text().contains("connection: close\r\n"));
    assert!(begun.conn.is_lingering());
}

#[test]
fn every_answer_names_its_request() {
    let mut bench = Bench::new();
    bench.feed(b"GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n\r\n");
    bench.feed(b"GET / HTTP/1.1\r\nHost: x\r\nX-Request-Id: not mine\r\n\r\n");
    let chunked = "Transfer-Encoding: chunked\r\n\r\nodd\r\n";
    bench
        .feed(format!("POST / HTTP/1.1\r\nHost: x\r\nX-Request-Id: third\r\n{chunked}").as_bytes());
    let text = bench.text();
    let ids = text.lines().filter_map(|line| line.strip_prefix("x-request-id: "));
    // The generated number counts only requests without a valid id of their own.
    assert_eq!(ids.collect::<Vec<_>>(), ["mine", "1-2-1", "third"]);
    assert_eq!(bench.conn.take_refused(), Some(400));

    let mut bench = Bench::new();
    bench.feed(b"odd\n");
    assert!(bench.text().contains("\r\nx-request-id: 1-2-1\r\n"), "{}", bench.text());
}
