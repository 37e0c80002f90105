//! TLS over real loopback sockets, with the client of `rustls`.
#![expect(clippy::unwrap_used, reason = "tests say what went wrong by panicking")]

mod client;
mod files;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use recalld_http_server::limits::HANDSHAKES_PER_PASS;
use recalld_http_server::{Identity, Limits, Response, sse};
use rustls::HandshakeKind;
use rustls::version::{TLS12, TLS13};

use crate::net_bench::{Bench, LONG, get, until};
use crate::{Echo, desk};
use client::{Drip, TlsClient, settings};
use files::Files;

/// Starts a TLS server and returns its address and its files.
fn secured(limits: Limits) -> (Bench, SocketAddr, Files, Arc<Identity>) {
    let files = Files::new();
    let identity = Arc::new(files.load().unwrap());
    let bench = Bench::start_with(Echo, limits, 2, Some(&identity));
    let address = bench.addresses[1].1;
    (bench, address, files, identity)
}

#[test]
fn both_versions_serve_requests_in_a_row_and_ahead_of_their_turn() {
    let (bench, address, files, _) = secured(Limits::default());
    for version in [&TLS12, &TLS13] {
        let settings = settings(&files.certificate(), &[version]);
        let mut client = TlsClient::connect(address, &settings);
        for round in 0..3 {
            client.say(get(&format!("/{round}")).as_bytes());
            assert_eq!(client.answer().1, format!("GET /{round} ").into_bytes());
        }
        assert_eq!(client.session().protocol_version(), Some(version.version));
        assert_eq!(client.session().alpn_protocol(), Some(&b"http/1.1"[..]));
        let many: String = (0..500).map(|i| get(&format!("/many/{i}"))).collect();
        client.say(many.as_bytes());
        for i in 0..500 {
            assert_eq!(client.answer().1, format!("GET /many/{i} ").into_bytes());
        }
        // An orderly close: the client can distinguish the end from an abort.
        client.say(b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert_eq!(client.answer().1, b"GET /last ");
        assert_eq!(client.remainder().unwrap(), b"");
    }
    assert_eq!((bench.counters.handshakes.get(), bench.counters.handshakes_failed.get()), (2, 0));
}

#[test]
fn large_bodies_go_both_ways() {
    let (_bench, address, files, _) = secured(Limits::default());
    for version in [&TLS12, &TLS13] {
        let settings = settings(&files.certificate(), &[version]);
        let mut client = TlsClient::connect(address, &settings);
        let body: Vec<u8> = (0..8_000_000u32).map(|i| b'a' + (i % 23) as u8).collect();
        let head =
            format!("POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        client.say(&[head.as_bytes(), &body].concat());
        let (_, answer) = client.answer();
        assert!(answer == [&b"POST /big "[..], &body].concat(), "{} bytes", answer.len());
        client.say(get("/after").as_bytes());
        assert_eq!(client.answer().1, b"GET /after ");
    }
}

#[test]
fn a_second_connection_resumes_and_a_change_of_keys_is_followed() {
    let (_bench, address, files, _) = secured(Limits::default());
    for version in [&TLS12, &TLS13] {
        let settings = settings(&files.certificate(), &[version]);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut client = TlsClient::connect(address, &settings);
            client.say(get("/").as_bytes());
            assert_eq!(client.answer().1, b"GET / ");
            assert_eq!(client.session().handshake_kind(), Some(kind));
            if version.version == TLS13.version {
                client.change_keys();
                client.say(get("/again").as_bytes());
                assert_eq!(client.answer().1, b"GET /again ");
            }
        }
    }
}

#[test]
fn more_handshakes_than_a_pass_takes_are_all_answered() {
    let (_bench, address, files, _) = secured(Limits::default());
    let settings = files.settings();
    let mut open = TlsClient::connect(address, &settings);
    open.say(get("/before").as_bytes());
    assert_eq!(open.answer().1, b"GET /before ");
    let hello = TlsClient::hello(&settings);
    let mut crowd: Vec<TcpStream> =
        (0..16 * HANDSHAKES_PER_PASS).map(|_| connect(address)).collect();
    crowd.iter_mut().for_each(|socket| socket.write_all(&hello).unwrap());
    // Some clients disconnect while their handshake is queued.
    crowd.truncate(12 * HANDSHAKES_PER_PASS);
    open.say(get("/meanwhile").as_bytes());
    assert_eq!(open.answer().1, b"GET /meanwhile ");
    for mut socket in crowd {
        let mut kind = [0];
        socket.read_exact(&mut kind).unwrap();
        // A handshake record (RFC 8446, section 5.1): the server hello.
        assert_eq!(kind, [22]);
    }
}

#[test]
fn bytes_that_come_one_at_a_time_are_put_together() {
    let (_bench, address, files, _) = secured(Limits::default());
    let mut client = TlsClient::over(Drip(connect(address)), &files.settings());
    client.say(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.answer().1, b"POST /slow abc");
}

#[test]
fn a_client_that_speaks_only_another_protocol_is_told() {
    let (bench, address, files, _) = secured(Limits::default());
    let mut settings = Arc::unwrap_or_clone(files.settings());
    settings.alpn_protocols = vec![b"h2".to_vec()];
    let mut client = TlsClient::connect(address, &Arc::new(settings));
    let refused = client.try_say(get("/").as_bytes()).unwrap_err();
    assert!(refused.to_string().contains("NoApplicationProtocol"), "{refused}");
    until(|| bench.counters.handshakes_failed.get() == 1);
}

#[test]
fn http_without_tls_is_answered_and_noise_gets_an_alert() {
    let (bench, address, ..) = secured(Limits::default());
    let mut plain = connect(address);
    plain.write_all(get("/").as_bytes()).unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("{\"detail\": \"Bad Request: this port speaks HTTPS\"}"), "{answer}");

    for noise in [&[0x16, 0x03, 0x01, 0xff, 0xff, 0x00][..], &[0x00; 64], &[0x80, 0x2e, 0x01]] {
        let mut socket = connect(address);
        socket.write_all(noise).unwrap();
        let _may_be_closed = socket.shutdown(Shutdown::Write);
        let mut said = Vec::new();
        socket.read_to_end(&mut said).unwrap();
        // A fatal alert, or nothing if the record was incomplete.
        assert!(said.is_empty() || said[0] == 0x15, "{noise:?}: {said:?}");
    }
    until(|| bench.counters.open.get() == 0);
}

#[test]
fn a_handshake_that_takes_too_long_is_cut_off() {
    let limits = Limits { handshake_timeout: Duration::from_millis(30), ..Limits::default() };
    let (bench, address, files, _) = secured(limits);
    let hello = TlsClient::hello(&files.settings());
    for part in [&hello[..0], &hello[..1], &hello[..hello.len() / 2], &hello[..]] {
        let mut socket = connect(address);
        socket.write_all(part).unwrap();
        let mut said = Vec::new();
        // Closed, or reset if the server had unread bytes.
        let _end = socket.read_to_end(&mut said);
        assert_eq!(said.is_empty(), part.len() < hello.len(), "{} bytes", part.len());
    }
    until(|| bench.counters.handshakes_failed.get() == 4);
}

#[test]
fn a_client_that_says_its_last_word_still_gets_its_answer() {
    let (_bench, address, files, _) = secured(Limits::default());
    for version in [&TLS12, &TLS13] {
        let mut client = TlsClient::connect(address, &settings(&files.certificate(), &[version]));
        client.say(get("/one").as_bytes());
        assert_eq!(client.answer().1, b"GET /one ");
        client.say_then_close(get("/two").as_bytes());
        assert_eq!(client.answer().1, b"GET /two ");
        assert_eq!(client.remainder().unwrap(), b"");
    }
}

#[test]
fn a_client_that_is_cut_off_leaves_nothing_behind() {
    let (bench, address, files, _) = secured(Limits::default());
    let whole = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde";
    for at in [0, 1, 20, whole.len() - 1, whole.len()] {
        let mut client = TlsClient::connect(address, &files.settings());
        client.say(&whole[..at]);
        drop(client); // closes the socket, without a word of TLS
    }
    until(|| bench.counters.accepted.get() == 5 && bench.counters.open.get() == 0);
    let mut client = TlsClient::connect(address, &files.settings());
    client.say(whole);
    assert_eq!(client.answer().1, b"POST / abcde");
}

#[test]
fn a_stream_that_breaks_is_not_taken_for_whole() {
    let files = Files::new();
    let identity = Arc::new(files.load().unwrap());
    let (service, calls) = desk();
    let bench = Bench::start_with(service, Limits::default(), 2, Some(&identity));
    let address = bench.addresses[1].1;
    for is_broken in [false, true] {
        let mut client = TlsClient::connect(address, &files.settings());
        // HTTP/1.0: only the end of the connection ends the body.
        client.say(b"GET /events HTTP/1.0\r\nHost: x\r\n\r\n");
        let (_, reply) = calls.recv_timeout(LONG).unwrap();
        let stream = reply.stream(sse::head());
        stream.send(b"data: 1\n\n").unwrap();
        client.head();
        let (told, is_told) = channel();
        let sender = std::thread::spawn(move || {
            let _held = stream;
            is_told.recv().unwrap();
            assert!(!is_broken, "this sender panics on purpose");
        });
        assert_eq!(client.exactly(9), b"data: 1\n\n");
        told.send(()).unwrap();
        assert_eq!(sender.join().is_err(), is_broken);
        match client.remainder() {
            Ok(rest) => assert!(!is_broken && rest.is_empty()),
            Err(error) => assert!(is_broken && error.kind() == ErrorKind::UnexpectedEof, "{error}"),
        }
    }
}

#[test]
fn a_slow_reader_costs_the_others_nothing_and_is_cut_off() {
    let files = Files::new();
    let identity = Arc::new(files.load().unwrap());
    let large = |_: recalld_http_server::Call, reply: recalld_http_server::Reply| {
        reply.send(Response::json(200, vec![b'x'; 16_000_000]));
    };
    let limits = Limits { write_timeout: Duration::from_millis(50), ..Limits::default() };
    let bench = Bench::start_with(large, limits, 2, Some(&identity));
    let address = bench.addresses[1].1;
    let mut slow = TlsClient::connect(address, &files.settings());
    slow.say(get("/slow").as_bytes());
    let mut quick = TlsClient::connect(address, &files.settings());
    quick.say(get("/quick").as_bytes());
    assert_eq!(quick.answer().1.len(), 16_000_000);
    // Only the client that does not read is aborted.
    until(|| bench.counters.open.get() == 1);
    let mut half = Vec::new();
    assert!(slow.stream.read_to_end(&mut half).is_err());
    assert!(half.len() < 16_000_000);
}

#[test]
fn a_drain_and_an_idle_timeout_close_in_good_order() {
    let (bench, address, files, _) = secured(Limits::default());
    let mut client = TlsClient::connect(address, &files.settings());
    client.say(get("/").as_bytes());
    client.answer();
    assert_eq!(bench.stop().connections_cut_off, 0);
    assert_eq!(client.remainder().unwrap(), b"");

    let limits = Limits { idle_timeout: Duration::from_millis(30), ..Limits::default() };
    let (_bench, address, files, _) = secured(limits);
    let mut client = TlsClient::connect(address, &files.settings());
    client.say(get("/").as_bytes());
    client.answer();
    assert_eq!(client.remainder().unwrap(), b"");
}

#[test]
fn a_new_certificate_is_for_new_connections() {
    let (_bench, address, mut files, identity) = secured(Limits::default());
    let (old, old_settings) = (files.certificate(), files.settings());
    let mut before = TlsClient::connect(address, &old_settings);
    before.say(get("/before").as_bytes());
    assert_eq!(before.answer().1, b"GET /before ");

    files.renew();
    // Not reloaded yet.
    let mut between = TlsClient::connect(address, &settings(&old, &[&TLS13]));
    between.say(get("/between").as_bytes());
    assert_eq!(between.answer().1, b"GET /between ");
    identity.reload().unwrap();
    let mut after = TlsClient::connect(address, &files.settings());
    after.say(get("/after").as_bytes());
    assert_eq!(after.answer().1, b"GET /after ");
    assert!(TlsClient::connect(address, &settings(&old, &[&TLS13])).try_say(b"x").is_err());

    // An invalid certificate changes nothing.
    files.write_certificate("no certificate at all");
    let said = identity.reload().unwrap_err().to_string();
    assert!(said.starts_with(&files.certificate_path().display().to_string()), "{said}");
    for client in [&mut before, &mut between, &mut after] {
        client.say(get("/still").as_bytes());
        assert_eq!(client.answer().1, b"GET /still ");
    }
    let mut new = TlsClient::connect(address, &files.settings());
    new.say(get("/new").as_bytes());
    assert_eq!(new.answer().1, b"GET /new ");
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.set_write_timeout(Some(LONG)).unwrap();
    socket
}
