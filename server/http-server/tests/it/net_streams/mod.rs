//! Streamed responses: sending, end and limits.

use std::time::Duration;

use recalld_http_server::{Call, Limits, StreamSender, sse};

use crate::desk;
use crate::net_bench::{self, Bench, Client, LONG, get};

#[test]
fn a_stream_flows_ends_and_notices_its_client_leave() {
    let (service, calls) = desk();
    let bench = Bench::start(service, Limits::default(), 2);
    let mut client = bench.connect();
    client.say(&get("/events"));
    let (_, reply) = calls.recv_timeout(LONG).unwrap();
    let stream = reply.stream(sse::head());
    assert!(client.head().contains("content-type: text/event-stream"));
    for i in 0..100 {
        let data = i.to_string();
        let event = sse::Event { data: Some(&data), ..sse::Event::default() };
        stream.send(&event.encode().unwrap()).unwrap();
    }
    drop(stream);
    let text = String::from_utf8(client.chunked_body()).unwrap();
    let wanted: String = (0..100).map(|i| format!("data: {i}\n\n")).collect();
    assert_eq!(text, wanted);

    // The connection is reused, and the client disconnects in the middle of the next stream.
    client.say(&get("/events"));
    let (call, reply) = calls.recv_timeout(LONG).unwrap();
    let stream = reply.stream(sse::head());
    stream.send(b": hello\n\n").unwrap();
    client.head();
    drop(client);
    net_bench::until(|| call.cancel.is_cancelled() && stream.is_gone());
    assert!(stream.send(b": nobody\n\n").is_err());
}

#[test]
fn a_slow_reader_is_cut_off_by_backlog_and_by_time() {
    let open = |limits| -> (Bench, Client, Call, StreamSender) {
        let (service, calls) = desk();
        let bench = Bench::start(service, limits, 2);
        let mut client = bench.connect();
        client.say(&get("/events"));
        let (call, reply) = calls.recv_timeout(LONG).unwrap();
        (bench, client, call, reply.stream(sse::head()))
    };
    let piece = [b'x'; 10_000];
    let limits = Limits { stream_backlog_bytes_max: 100_000, ..Limits::default() };
    assert!(limits.write_timeout > LONG, "only the backlog may end the first stream");
    let (_bench, backlog, call, stream) = open(limits);
    net_bench::until(|| stream.send(&piece).is_err());
    net_bench::until(|| call.cancel.is_cancelled());
    drop(backlog);

    // A message larger than the socket buffers, then silence: only the timeout can end the stream.
    let limits = Limits { write_timeout: Duration::from_millis(50), ..Limits::default() };
    let (_bench, timed, call, stream) = open(limits);
    stream.send(&vec![b'x'; 16_000_000]).unwrap();
    net_bench::until(|| call.cancel.is_cancelled());
    assert!(stream.is_gone());
    drop(timed);
}

#[test]
fn streams_are_capped() {
    let (service, calls) = desk();
    let bench = Bench::start(service, Limits { streams_max: 1, ..Limits::default() }, 2);
    let (mut first, mut second) = (bench.connect(), bench.connect());
    first.say(&get("/events"));
    let one = calls.recv_timeout(LONG).unwrap().1.stream(sse::head());
    assert_eq!(first.head_status(), 200);
    second.say(&get("/events"));
    let (call, reply) = calls.recv_timeout(LONG).unwrap();
    let two = reply.stream(sse::head());
    assert_eq!(second.answer().status(), 503);
    net_bench::until(|| two.is_gone());
    assert!(call.cancel.is_cancelled(), "nobody will read what this call works for");
    drop(one);
    assert_eq!(first.chunked_body(), b"");
    second.say(&get("/events"));
    let _three = calls.recv_timeout(LONG).unwrap().1.stream(sse::head());
    assert_eq!(second.head_status(), 200);
}
