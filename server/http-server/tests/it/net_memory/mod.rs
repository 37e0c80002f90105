//! Memory limits: request bodies, unread bytes and unsent bytes.
#![expect(clippy::unwrap_used, reason = "tests say what went wrong by panicking")]

use std::io::{ErrorKind, Read, Write};

use recalld_http_server::limits::WAITING_BYTES_SMALL;
use recalld_http_server::{Admission, Call, Limits, ListenerId, Places, Reply, Response, Service};

use crate::net_bench::{self, Bench, Client, LONG, get};
use crate::{Echo, desk};

#[test]
fn all_bodies_together_are_bounded_and_small_ones_pass() {
    let (service, calls) = desk();
    let bench = Bench::start(service, Limits { bodies_bytes_max: 100_000, ..Limits::default() }, 2);
    let post = |text: &str| {
        let length = text.len();
        format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{text}")
    };
    // The first body counts until its request is answered.
    let large = post(&"x".repeat(100_000));
    let (mut first, mut second, mut third) = (bench.connect(), bench.connect(), bench.connect());
    first.say(&large);
    let (_, reply) = calls.recv_timeout(LONG).unwrap();
    second.say(&large[..large.len() - 1]);
    assert_eq!(second.answer().status(), 503);
    assert!(second.is_closed());
    third.say(&post("small"));
    calls.recv_timeout(LONG).unwrap().1.send(Response::empty(204));
    assert_eq!(third.head_status(), 204);
    reply.send(Response::empty(204));
    assert_eq!(first.head_status(), 204);
    third.say(&large);
    calls.recv_timeout(LONG).unwrap().1.send(Response::empty(204));
    assert_eq!(third.head_status(), 204);
}

#[test]
fn a_body_counts_while_somebody_has_it_though_its_client_left() {
    let (service, calls) = desk();
    let bench = Bench::start(service, Limits::default(), 1);
    let mut client = bench.connect();
    let post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n".to_owned();
    client.say(&(get("/unread") + &post + &"x".repeat(100_000)));
    calls.recv_timeout(LONG).unwrap().1.send(Response::empty(204));
    let (call, reply) = calls.recv_timeout(LONG).unwrap();
    client.leave_by_reset();
    net_bench::until(|| call.cancel.is_cancelled() && bench.counters.open.get() == 0);
    drop(reply);
    assert_eq!(bench.counters.bodies_bytes.get(), 100_000);
    drop(call);
    net_bench::until(|| bench.counters.bodies_bytes.get() == 0);
}

/// Rejects requests for `/none` by the head, and accepts bodies of 100,000 bytes for all other paths.
struct Judging;

impl Service for Judging {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        reply.send(Response::json(200, call.request.body.len().to_string().into_bytes()));
    }

    fn admit(&self, call: &Call, (): &mut (), body_bytes: usize) -> Admission {
        assert!(call.request.body.is_empty() && call.request.path() != "/panic", "on purpose");
        match (call.request.path(), body_bytes) {
            ("/none", _) => Admission::Answer(Response::json(404, b"none".to_vec())),
            (_, 100_001..) => Admission::Answer(Response::json(413, b"long".to_vec())),
            _ => Admission::UpTo(100_000),
        }
    }
}

#[test]
fn a_large_body_is_judged_before_it_is_sent() {
    let bench = Bench::start(Judging, Limits::default(), 1);
    for (target, fields, status, body) in [
        ("/none", "Content-Length: 8000000", 404, "none"),
        ("/none", "Expect: 100-continue\r\nContent-Length: 1", 404, "none"),
        ("/other", "Content-Length: 100001", 413, "long"),
        ("/panic", "Content-Length: 100001", 500, "Internal Server Error"),
    ] {
        let mut client = bench.connect();
        client.say(&format!("POST {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n"));
        let answer = client.answer();
        let said = String::from_utf8(answer.body.clone()).unwrap();
        assert!(answer.status() == status && said.contains(body), "{target}: {said}");
        assert!(answer.head.contains("connection: close"));
        assert!(client.is_closed());
    }
    // A client that sends the body without waiting still gets the response.
    let mut client = bench.connect();
    let body = "x".repeat(3_000_000);
    client.say(&format!("POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n{body}"));
    assert_eq!(client.answer().status(), 404);
    // An accepted body is received.
    let mut client = bench.connect();
    for _ in 0..2 {
        client.say(
            "POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n",
        );
        assert_eq!(client.line(), "HTTP/1.1 100 Continue");
        assert_eq!(client.line(), "");
        client.say(&body[..100_000]);
        assert_eq!(client.answer().body, b"100000");
    }
    net_bench::until(|| bench.counters.bodies_bytes.get() == 0);
}

/// Answers with the number of bytes that the target names.
fn sized(call: Call, reply: Reply) {
    let bytes: usize = call.request.target[1..].parse().unwrap();
    reply.send(Response::json(200, vec![b'x'; bytes]));
}

#[test]
fn answers_that_nobody_takes_are_bounded_and_small_ones_pass() {
    // More than the kernel's socket buffers.
    const HUGE: usize = 16_000_000;
    let limits = Limits { waiting_bytes_max: 1_000_000, ..Limits::default() };
    let bench = Bench::start(sized, limits, 2);
    let (mut slow, mut other) = (bench.connect(), bench.connect());
    slow.say(&get(&format!("/{HUGE}")));
    net_bench::until(|| bench.counters.waiting_bytes.get() >= 1_000_000);
    other.say(&get("/20000"));
    let answer = other.answer();
    assert_eq!(answer.status(), 503);
    assert!(answer.head.contains("retry-after: 1"));
    assert_eq!(bench.counters.overloaded.get(), 1);
    // The connection is still usable.
    other.say(&get("/10000"));
    assert_eq!(other.answer().body.len(), 10_000);
    assert_eq!(slow.answer().body.len(), HUGE);
    net_bench::until(|| bench.counters.waiting_bytes.get() == 0);
    other.say(&get("/20000"));
    assert_eq!(other.answer().body.len(), 20_000);
}

#[test]
fn a_peer_that_holds_its_share_is_full_for_itself_alone() {
    let bench = Bench::start_where(sized, Limits::default(), 2, |server| {
        let places = Places { waiting_bytes_per_peer_max: 1_000_000, ..Places::default() };
        server.with_places(ListenerId(9), places)
    });
    let [(_, local), (_, hosted)] = bench.addresses[..] else { panic!("two listeners") };
    let (mut slow, mut other) = (Client::connect(hosted), Client::connect(hosted));
    slow.say(&get("/16000000"));
    net_bench::until(|| bench.counters.waiting_bytes.get() >= 1_000_000);
    other.say(&get("/20000"));
    assert_eq!(other.answer().status(), 503);
    other.say(&get("/10000"));
    assert_eq!(other.answer().body.len(), 10_000);
    let mut elsewhere = Client::connect(local);
    elsewhere.say(&get("/20000"));
    assert_eq!(elsewhere.answer().body.len(), 20_000);
}

#[test]
fn a_client_that_sends_ahead_waits_where_too_much_waits() {
    let (service, calls) = desk();
    let limits = Limits { waiting_bytes_max: 1, ..Limits::default() };
    let bench = Bench::start(service, limits, 2);
    let mut ahead = bench.connect();
    let many = 2_000;
    ahead.say(&get("/held"));
    let (_, held) = calls.recv_timeout(LONG).unwrap();
    // Few enough bytes for the kernel's socket buffers, and far more than one connection may buffer above the limit.
    ahead.say(&get("/ahead").repeat(many));
    let small = WAITING_BYTES_SMALL as u64;
    // The first read has the full buffer; later reads are limited to `WAITING_BYTES_SMALL`.
    net_bench::until(|| bench.counters.waiting_bytes.get() >= small);
    assert!(bench.counters.waiting_bytes.get() <= 64 * 1024);
    held.send(Response::empty(204));
    assert_eq!(ahead.head_status(), 204);
    for _ in 0..many {
        calls.recv_timeout(LONG).unwrap().1.send(Response::empty(204));
        assert_eq!(ahead.head_status(), 204);
        assert!(bench.counters.waiting_bytes.get() <= 64 * 1024);
    }
    net_bench::until(|| bench.counters.waiting_bytes.get() == 0);
}

#[test]
fn a_client_that_never_reads_stops_being_read() {
    let bench = Bench::start(Echo, Limits::default(), 2);
    let client = bench.connect();
    client.socket.set_nonblocking(true).unwrap();
    let request = get(&format!("/{}", "x".repeat(8_000)));
    // Responses fill the socket buffers, then the server stops reading, then the client's writes block.
    let blocked = (0..100_000).any(|_| {
        matches!((&client.socket).write(request.as_bytes()), Err(error) if error.kind() == ErrorKind::WouldBlock)
            && { std::thread::yield_now(); true }
    });
    assert!(blocked);
    let mut other = bench.connect();
    other.say(&get("/other"));
    assert_eq!(other.answer().body, b"GET /other ");
    let mut byte = [0];
    net_bench::until(|| (&client.socket).read(&mut byte).is_ok_and(|count| count == 1));
}
