//! Drain of a server: requests in flight finish within the grace period.

use std::net::TcpStream;
use std::time::Duration;

use recalld_http_server::{Limits, Response, sse};

use crate::desk;
use crate::net_bench::{self, Bench, LONG, get};

#[test]
fn a_drain_finishes_what_is_begun() {
    let (service, calls) = desk();
    let bench = Bench::start(service, Limits::default(), 2);
    let mut idle = bench.connect();
    let mut working = bench.connect();
    let mut listening = bench.connect();
    working.say(&get("/work"));
    let (_, reply) = calls.recv_timeout(LONG).unwrap();
    listening.say(&get("/events"));
    let (call, streaming) = calls.recv_timeout(LONG).unwrap();
    let stream = streaming.stream(sse::head());
    stream.send(b"data: 1\n\n").unwrap();
    listening.head();
    let mut waiting = bench.connect();
    waiting.say(&get("/answer"));
    let (wanted, answering) = calls.recv_timeout(LONG).unwrap();
    let answer = answering.answer_by_stream(sse::head());
    answer.send(b"data: 2\n\n").unwrap();
    waiting.head();
    let mut job = bench.connect();
    job.say(&get("/job"));
    let (watched, working_on) = calls.recv_timeout(LONG).unwrap();
    let report = working_on.report_by_stream(sse::head());
    report.send(b"data: 5\n\n").unwrap();
    job.head();
    let mut late = bench.connect();
    late.say(&get("/late"));
    let (_, late_reply) = calls.recv_timeout(LONG).unwrap();
    bench.handle.drain();
    assert!(idle.is_closed());
    assert_eq!(listening.chunked_body(), b"data: 1\n\n");
    net_bench::until(|| call.cancel.is_cancelled());
    // A response in pieces is finished, even if the response begins during the drain.
    assert!(!wanted.cancel.is_cancelled());
    answer.send(b"data: 3\n\n").unwrap();
    drop(answer);
    assert_eq!(waiting.chunked_body(), b"data: 2\n\ndata: 3\n\n");
    // A long-running request is cancelled, and its response reports the cancellation.
    net_bench::until(|| watched.cancel.is_cancelled());
    report.send(b"data: called off\n\n").unwrap();
    drop(report);
    assert_eq!(job.chunked_body(), b"data: 5\n\ndata: called off\n\n");
    let late_answer = late_reply.answer_by_stream(sse::head());
    late.head();
    late_answer.send(b"data: 4\n\n").unwrap();
    drop(late_answer);
    assert_eq!(late.chunked_body(), b"data: 4\n\n");
    assert!(TcpStream::connect(bench.address).is_err());
    reply.send(Response::json(200, b"{}".to_vec()));
    let answer = working.answer();
    assert_eq!(answer.body, b"{}");
    assert!(answer.head.contains("connection: close"));
    assert!(working.is_closed());
    drop((working, listening, waiting, job, late, idle));
    let drained = bench.stop();
    assert_eq!((drained.connections_cut_off, drained.workers_ended), (0, true));
}

#[test]
fn a_drain_does_not_wait_for_ever() {
    let limits = Limits { drain_grace: Duration::from_millis(30), ..Limits::default() };
    let (service, calls) = desk();
    let bench = Bench::start(service, limits, 1);
    let mut client = bench.connect();
    client.say(&get("/work"));
    let (call, reply) = calls.recv_timeout(LONG).unwrap();
    assert_eq!(bench.stop().connections_cut_off, 1);
    assert!(call.cancel.is_cancelled());
    assert!(client.is_closed());
    reply.send(Response::empty(204));
}
