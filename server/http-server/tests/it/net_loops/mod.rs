//! Several event loops: connections are distributed, limits and the drain are shared.
#![expect(clippy::unwrap_used, reason = "tests say what went wrong by panicking")]

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use recalld_http_server::{
    Call, Limits, ListenerId, Places, Reply, Response, Service, StreamSender, sse,
};

use crate::Echo;
use crate::net_bench::{Bench, Client, LONG, get, until};

/// Blocks its event loop on request, which no real service does.
struct Holding {
    entered: Mutex<Sender<()>>,
    released: Mutex<Receiver<()>>,
}

impl Service for Holding {
    type RouteMatch = ();

    fn resolve(&self, _: &Call) {}

    fn serve(&self, _: Call, (): (), reply: Reply) {
        reply.send(Response::empty(204));
    }

    fn quick(&self, call: &Call, (): &()) -> Option<Response> {
        if call.request.target == "/hold" {
            self.entered.lock().unwrap().send(()).unwrap();
            self.released.lock().unwrap().recv_timeout(LONG).unwrap();
        }
        Some(Response::empty(204))
    }
}

#[test]
fn a_connection_of_another_loop_is_answered_meanwhile() {
    let (enter, entered) = channel();
    let (release, released) = channel();
    let service = Holding { entered: Mutex::new(enter), released: Mutex::new(released) };
    let bench = Bench::start(service, Limits::default(), 1);
    // Connected one after the other, because the order determines the loop of each connection.
    let mut clients = [bench.connect(), bench.connect()];
    for client in &mut clients {
        client.say(&get("/"));
        assert_eq!(client.head_status(), 204);
    }
    let [held, other] = &mut clients;
    held.say(&get("/hold"));
    entered.recv_timeout(LONG).unwrap();
    other.say(&get("/"));
    assert_eq!(other.head_status(), 204);
    release.send(()).unwrap();
    assert_eq!(held.head_status(), 204);
    assert_eq!(bench.counters.open.get(), 2);
    assert_eq!(bench.stop().connections_cut_off, 0);
}

#[test]
fn connections_and_streams_are_bounded_over_all_loops() {
    let (give, given) = channel::<StreamSender>();
    let give = Mutex::new(give);
    let limits = Limits { connections_max: 3, streams_max: 1, ..Limits::default() };
    let service = move |_: Call, reply: Reply| {
        give.lock().unwrap().send(reply.stream(sse::head())).unwrap();
    };
    let bench = Bench::start(service, limits, 1);
    let mut clients = [bench.connect(), bench.connect(), bench.connect()];
    let mut statuses = Vec::new();
    let mut streams = Vec::new();
    for client in &mut clients {
        client.say(&get("/"));
        statuses.push(client.head_status());
        streams.push(given.recv_timeout(LONG).unwrap());
    }
    assert_eq!(statuses, [200, 503, 503]);
    assert_eq!(bench.connect().try_get(), Some(503));
    assert_eq!(bench.counters.turned_away.get(), 1);
    drop(streams);
    drop(clients);
    assert_eq!(bench.stop().connections_cut_off, 0);
}

#[test]
fn one_listener_and_one_peer_leave_places_to_the_others() {
    let limits = Limits { connections_max: 5, ..Limits::default() };
    let bench = Bench::start_where(Echo, limits, 1, |server| {
        server
            .with_places(
                ListenerId(7),
                Places { reserved: 2, per_peer_max: 5, ..Places::default() },
            )
            .with_places(ListenerId(9), Places { per_peer_max: 2, ..Places::default() })
    });
    let [(_, kept), (_, bounded)] = bench.addresses[..] else { panic!("two listeners") };
    let mut hosted = [Client::connect(bounded), Client::connect(bounded)];
    hosted.iter_mut().for_each(|client| assert_eq!(client.try_get(), Some(200)));
    let mut refused = Client::connect(bounded);
    let answer = refused.answer();
    assert!(answer.status() == 503 && answer.head.contains("retry-after: 1"));
    assert!(refused.is_closed());
    assert_eq!(bench.counters.turned_away_of_peer.get(), 1);
    // The other listener has no limit per peer, and uses the remaining connections.
    let mut local = [kept; 3].map(Client::connect);
    local.iter_mut().for_each(|client| assert_eq!(client.try_get(), Some(200)));
    assert_eq!(Client::connect(kept).answer().status(), 503);
    assert_eq!(bench.counters.turned_away.get(), 1);
    drop(hosted);
    until(|| Client::connect(bounded).try_get() == Some(200));
    drop(local);
    until(|| bench.counters.open.get() == 0);
}
