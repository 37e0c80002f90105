//! Tests of the HTTP server over real loopback sockets, for behavior that needs a kernel.
//!
//! No test sleeps. A test waits for an event (a response, the end of a connection, a message from a handler), and every
//! wait has a limit that only a broken server reaches.
#![expect(clippy::unwrap_used, reason = "tests say what went wrong by panicking")]

mod net_bench;
mod net_drain;
mod net_loops;
mod net_memory;
mod net_streams;
mod net_tls;

use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use net_bench::{Bench, Client, LONG, get};
use recalld_http_server::limits::JOB_THREADS;
use recalld_http_server::{
    Call, Head, Limits, Listen, ListenerId, NetConfig, Reply, Response, Server, Service, Version,
};

struct Echo;

impl Service for Echo {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        let request = call.request;
        let mut body = format!("{} {} ", request.method, request.target).into_bytes();
        body.extend(&request.body);
        reply.send(Response { head: Head::new(200), body });
    }
}

/// Passes every request to the test, which may answer at any time.
struct Desk(Mutex<Sender<(Call, Reply)>>);

impl Service for Desk {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        self.0.lock().unwrap().send((call, reply)).unwrap();
    }
}

fn desk() -> (Desk, Receiver<(Call, Reply)>) {
    let (sender, receiver) = channel();
    (Desk(Mutex::new(sender)), receiver)
}

#[test]
fn wrong_settings_are_refused_by_name() {
    let config = |listeners: Vec<Listen>, workers, limits| NetConfig {
        listeners,
        workers,
        limits,
        wall_clock: std::time::SystemTime::now,
    };
    let bench = Bench::start(Echo, Limits::default(), 1);
    let taken = Listen { id: ListenerId(1), address: bench.address };
    let said = |config| Server::bind(config).unwrap_err().to_string();
    let busy = said(config(vec![taken], 1, Limits::default()));
    assert!(busy.contains(&bench.address.to_string()), "{busy}");
    assert!(said(config(vec![], 1, Limits::default())).starts_with("0 addresses"));
    assert!(said(config(vec![taken], 0, Limits::default())).starts_with("0 workers"));
    let raised = Limits { idle_timeout: LONG * 10, ..Limits::default() };
    assert!(said(config(vec![taken], 1, raised)).contains("idle_timeout"));
}

#[test]
fn keep_alive_and_pipelining() {
    let bench = Bench::start(Echo, Limits::default(), 2);
    let mut client = bench.connect();
    for round in 0..3 {
        client.say(&get(&format!("/{round}")));
        assert_eq!(client.answer().body, format!("GET /{round} ").into_bytes());
    }
    let many: String = (0..500).map(|i| get(&format!("/many/{i}"))).collect();
    client.say(&many);
    for i in 0..500 {
        assert_eq!(client.answer().body, format!("GET /many/{i} ").into_bytes());
    }
    client.say("GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let last = client.answer();
    assert!(last.head.contains("connection: close"));
    assert!(last.head.contains("date: "));
    assert!(client.is_closed());
    assert_eq!(bench.stop().connections_cut_off, 0);
}

/// While a request is processed, its connection is read until the buffer is full. Edge-triggered readiness is not
/// reported again when the buffer has room.
#[test]
fn a_large_body_behind_a_call_in_work_is_read_on() {
    let (desk, calls) = desk();
    let bench = Bench::start(desk, Limits::default(), 1);
    let mut client = bench.connect();
    // More than a connection buffers, and less than the kernel buffers before any read.
    let body = "x".repeat(300_000);
    let large = format!("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
    for _ in 0..20 {
        client.say(&(get("/a") + &large + &body));
        for length in [0, body.len()] {
            let (call, reply) = calls.recv_timeout(LONG).unwrap();
            assert_eq!(call.request.body.len(), length);
            reply.send(Response { head: Head::new(200), body: Vec::new() });
            assert_eq!(client.answer().status(), 200);
        }
    }
}

#[test]
fn bodies_chunked_and_counted_and_continue_and_head() {
    let bench = Bench::start(Echo, Limits::default(), 2);
    let mut client = bench.connect();
    client.say("POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.say("5\r\nhello\r\n");
    client.say("1\r\n!\r\n0\r\n\r\n");
    assert_eq!(client.answer().body, b"POST /c hello!");

    client.say("POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(client.line(), "HTTP/1.1 100 Continue");
    assert_eq!(client.line(), "");
    client.say("ok");
    assert_eq!(client.answer().body, b"POST /e ok");

    client.say("HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(client.head().contains("content-length: 8"));

    let text = "x".repeat(3_000_000);
    client.say(&format!(
        "POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ));
    assert_eq!(client.answer().body.len(), text.len() + "POST /big ".len());
}

#[test]
fn faults_are_answered_and_closed_even_with_bytes_on_their_way() {
    let bench = Bench::start(Echo, Limits { body_bytes_max: 10, ..Limits::default() }, 2);
    let mut client = bench.connect();
    // The body is still being sent when the 413 arrives; a reset would destroy the response.
    let text = "x".repeat(500_000);
    client.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n");
    client.say(&text);
    let answer = client.answer();
    assert_eq!(answer.status(), 413);
    assert_eq!(answer.body, b"{\"detail\": \"Content Too Large\"}");
    assert!(client.is_closed());

    let mut client = bench.connect();
    client.say("GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n");
    assert_eq!(client.answer().status(), 400);
    assert!(client.is_closed());
}

#[test]
fn slow_clients_are_told_and_closed() {
    let brief = Duration::from_millis(30);
    let limits = Limits { head_timeout: brief, body_timeout: brief, ..Limits::default() };
    let bench = Bench::start(Echo, limits, 2);
    let mut head = bench.connect();
    head.say("GET / HTTP/1.1\r\nHo");
    let mut body = bench.connect();
    body.say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf");
    for client in [&mut head, &mut body] {
        assert_eq!(client.answer().status(), 408);
        assert!(client.is_closed());
    }
    let bench = Bench::start(Echo, Limits { idle_timeout: brief, ..Limits::default() }, 2);
    assert!(bench.connect().is_closed());
}

#[test]
fn a_full_queue_is_answered_at_once() {
    let (service, calls) = desk();
    let (enter, entered) = channel();
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let enter = Mutex::new(enter);
    let blocking = move |call: Call, reply: Reply| {
        enter.lock().unwrap().send(()).unwrap();
        released.lock().unwrap().recv_timeout(LONG).unwrap();
        service.serve(call, (), reply);
    };
    let bench = Bench::start(blocking, Limits { queue_max: 1, ..Limits::default() }, 1);
    let mut clients: Vec<Client> = (0..3).map(|_| bench.connect()).collect();
    clients[0].say(&get("/0"));
    entered.recv_timeout(LONG).unwrap();
    // The worker is busy, so one of the next two requests is queued and one is rejected. The order at the loop is
    // unknown, so the test waits for whichever is answered first.
    clients[1].say(&get("/1"));
    clients[2].say(&get("/2"));
    let refused = loop {
        let done = (1..3).find(|i| clients[*i].has_bytes());
        if let Some(done) = done {
            break done;
        }
        std::thread::yield_now();
    };
    let answer = clients[refused].answer();
    assert_eq!(answer.status(), 503);
    assert!(answer.head.contains("retry-after: 1"));
    for _ in 0..2 {
        release.send(()).unwrap();
        calls.recv_timeout(LONG).unwrap().1.send(Response::empty(204));
    }
    assert_eq!(clients[0].head_status(), 204);
    assert_eq!(clients[3 - refused].head_status(), 204);
    // The connection of the rejected request is still usable.
    clients[refused].say(&get("/again"));
    release.send(()).unwrap();
    calls.recv_timeout(LONG).unwrap().1.send(Response::empty(204));
    assert_eq!(clients[refused].head_status(), 204);
}

/// Long-running requests block until the test releases them; other requests are answered.
struct Jobs {
    entered: Mutex<Sender<()>>,
    released: Mutex<Receiver<()>>,
}

impl Service for Jobs {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, call: Call, (): (), reply: Reply) {
        if self.takes_long(&call, &mut ()) {
            self.entered.lock().unwrap().send(()).unwrap();
            self.released.lock().unwrap().recv_timeout(LONG).unwrap();
        }
        reply.send(Response::empty(204));
    }

    fn takes_long(&self, call: &Call, (): &mut ()) -> bool {
        call.request.target == "/job"
    }
}

#[test]
fn jobs_hold_up_one_another_and_no_call() {
    let (enter, entered) = channel();
    let (release, released) = channel::<()>();
    let service = Jobs { entered: Mutex::new(enter), released: Mutex::new(released) };
    let bench = Bench::start(service, Limits { job_queue_max: 1, ..Limits::default() }, 1);
    let mut jobs: Vec<Client> = (0..JOB_THREADS).map(|_| bench.connect()).collect();
    for job in &mut jobs {
        job.say(&get("/job"));
        entered.recv_timeout(LONG).unwrap();
    }
    // Two more requests: the first that the loop sees is queued, the other is rejected.
    let mut more = [bench.connect(), bench.connect()];
    more.iter_mut().for_each(|client| client.say(&get("/job")));
    let refused = loop {
        if let Some(refused) = more.iter_mut().position(|client| client.has_bytes()) {
            break refused;
        }
        std::thread::yield_now();
    };
    let answer = more[refused].answer();
    assert_eq!(answer.status(), 503);
    let said = String::from_utf8(answer.body).unwrap();
    assert!(answer.head.contains("retry-after: 1") && said.contains("jobs wait"), "{said}");
    // The connection is still usable, and the only worker is free.
    more[refused].say(&get("/call"));
    assert_eq!(more[refused].head_status(), 204);
    (0..=JOB_THREADS).for_each(|_| release.send(()).unwrap());
    jobs.iter_mut().for_each(|job| assert_eq!(job.head_status(), 204));
    assert_eq!(more[1 - refused].head_status(), 204);
    assert!(bench.stop().workers_ended);
}

#[test]
fn a_panic_and_a_dropped_reply_are_500_and_the_worker_goes_on() {
    let service = |call: Call, reply: Reply| match call.request.target.as_str() {
        "/panic" => panic!("this call panics on purpose"),
        "/drop" => drop(reply),
        "/field" => reply.send(Response::empty(200).header("x", "a\r\nb: c")),
        _ => reply.send(Response::empty(204)),
    };
    let bench = Bench::start(service, Limits::default(), 1);
    let mut client = bench.connect();
    for target in ["/panic", "/drop", "/field"] {
        client.say(&get(target));
        let answer = client.answer();
        let id = answer.field("x-request-id").unwrap();
        let said = format!("{{\"detail\": \"Internal Server Error\", \"request_id\": \"{id}\"}}");
        assert_eq!((answer.status(), answer.body), (500, said.into_bytes()));
    }
    client.say(&get("/"));
    assert_eq!(client.head_status(), 204);
}

#[test]
fn quick_answers_do_not_wait_for_a_worker() {
    struct Quick(Mutex<Receiver<()>>);
    impl Service for Quick {
        type RouteMatch = ();

        fn resolve(&self, _: &Call) {}

        fn serve(&self, _: Call, (): (), reply: Reply) {
            self.0.lock().unwrap().recv_timeout(LONG).unwrap();
            reply.send(Response::empty(204));
        }
        fn quick(&self, call: &Call, (): &()) -> Option<Response> {
            assert_ne!(call.request.path(), "/panic", "this quick call panics on purpose");
            (call.request.path() == "/health").then(|| Response::json(200, b"{}".to_vec()))
        }
    }
    let (release, released) = channel();
    let bench = Bench::start(Quick(Mutex::new(released)), Limits::default(), 1);
    let (mut slow, mut quick) = (bench.connect(), bench.connect());
    slow.say(&get("/slow"));
    for _ in 0..10 {
        quick.say(&get("/health"));
        assert_eq!(quick.answer().body, b"{}");
    }
    // The read contains more requests than a connection handles per pass: the rest must not wait for another event.
    quick.say(&get("/health").repeat(500));
    (0..500).for_each(|_| assert_eq!(quick.answer().body, b"{}"));
    quick.say(&get("/panic"));
    assert_eq!(quick.answer().status(), 500);
    release.send(()).unwrap();
    assert_eq!(slow.head_status(), 204);
}

#[test]
fn a_client_that_leaves_raises_the_flag() {
    let (service, calls) = desk();
    let bench = Bench::start(service, Limits::default(), 2);
    // A close with unread bytes sends a reset. A clean close is an end of file, and the client is presumed gone after
    // the grace period.
    for reset in [true, false] {
        let mut client = bench.connect();
        client.say(&(get("/unread") + &get("/work")));
        calls.recv_timeout(LONG).unwrap().1.send(Response::empty(204));
        let (call, reply) = calls.recv_timeout(LONG).unwrap();
        assert!(!call.cancel.is_cancelled());
        assert_eq!(call.request.target, "/work");
        if reset {
            client.leave_by_reset();
        } else {
            assert_eq!(client.head_status(), 204);
            drop(client);
        }
        net_bench::until(|| call.cancel.is_cancelled());
        reply.send(Response::empty(204));
    }
}

#[test]
fn a_call_whose_client_left_is_not_begun() {
    struct Gate(Mutex<(Sender<String>, Receiver<()>)>);
    impl Service for Gate {
        type RouteMatch = ();

        fn resolve(&self, _: &Call) {}

        fn serve(&self, call: Call, (): (), reply: Reply) {
            let gate = self.0.lock().unwrap();
            gate.0.send(call.request.target).unwrap();
            gate.1.recv_timeout(LONG).unwrap();
            reply.send(Response::empty(204));
        }
        fn quick(&self, call: &Call, (): &()) -> Option<Response> {
            (call.request.target == "/").then(|| Response::json(200, Vec::new()))
        }
    }
    let (enter, entered) = channel();
    let (release, released) = channel();
    let limits = Limits { connections_max: 2, ..Limits::default() };
    let bench = Bench::start(Gate(Mutex::new((enter, released))), limits, 1);
    let (mut stays, mut leaves) = (bench.connect(), bench.connect());
    stays.say(&get("/first"));
    assert_eq!(entered.recv_timeout(LONG).unwrap(), "/first");
    leaves.say(&(get("/") + &get("/second")));
    leaves.leave_by_reset();
    // A free connection shows that the server has seen the reset.
    net_bench::until(|| bench.connect().try_get() == Some(200));
    release.send(()).unwrap();
    assert_eq!(stays.head_status(), 204);
    stays.say(&get("/third"));
    assert_eq!(entered.recv_timeout(LONG).unwrap(), "/third");
    release.send(()).unwrap();
    assert_eq!(stays.head_status(), 204);
}

#[test]
fn a_half_closed_client_still_gets_its_answer() {
    let bench = Bench::start(Echo, Limits::default(), 2);
    let mut client = bench.connect();
    client.say(&(get("/1") + &get("/2")));
    client.socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.answer().body, b"GET /1 ");
    assert_eq!(client.answer().body, b"GET /2 ");
    assert!(client.is_closed());
}

#[test]
fn one_connection_too_many_is_turned_away() {
    let bench = Bench::start(Echo, Limits { connections_max: 1, ..Limits::default() }, 1);
    let mut first = bench.connect();
    first.say(&get("/"));
    assert_eq!(first.answer().status(), 200);
    let mut second = bench.connect();
    let answer = second.answer();
    assert_eq!(answer.status(), 503);
    assert!(answer.head.contains("retry-after: 1"));
    assert!(second.is_closed());
    first.say("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(first.answer().status(), 200);
    assert!(first.is_closed());
    drop(first);
    // A free connection shows that the server has seen the close.
    net_bench::until(|| bench.connect().try_get() == Some(200));
}

#[test]
fn two_hundred_connections_at_once() {
    let bench = Bench::start(Echo, Limits::default(), 2);
    let mut clients: Vec<Client> = (0..200).map(|_| bench.connect()).collect();
    for round in 0..5 {
        for (i, client) in clients.iter_mut().enumerate() {
            client.say(&get(&format!("/{round}/{i}")));
        }
        for (i, client) in clients.iter_mut().enumerate().rev() {
            assert_eq!(client.answer().body, format!("GET /{round}/{i} ").into_bytes());
        }
    }
}

#[test]
fn calls_say_where_they_came_from() {
    let (service, calls) = desk();
    let bench = Bench::start(service, Limits::default(), 2);
    for (id, address) in bench.addresses.clone() {
        let mut client = Client::connect(address);
        client.say("GET /%41?q=1 HTTP/1.0\r\nX-Key: v\r\n\r\n");
        let (call, reply) = calls.recv_timeout(LONG).unwrap();
        assert_eq!(call.listener, id);
        assert_eq!(call.peer, client.socket.local_addr().unwrap());
        assert_eq!(call.request.version, Version::Http10);
        assert_eq!((call.request.path(), call.request.query()), ("/%41", Some("q=1")));
        assert_eq!(call.request.headers.get("x-key"), Some("v"));
        reply.send(Response::empty(204));
        assert_eq!(client.head_status(), 204);
        assert!(client.is_closed());
    }
}

#[test]
fn a_reset_in_every_phase_hurts_nobody() {
    let bench = Bench::start(Echo, Limits::default(), 2);
    let whole = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    for at in 0..whole.len() {
        let mut client = bench.connect();
        client.say(&(get("/unread") + &whole[..at]));
        client.leave_by_reset();
    }
    let mut client = bench.connect();
    client.say(whole);
    assert_eq!(client.answer().body, b"POST / abc");
}
