//! TLS without a socket: the plaintext is the same for every split of the input, and no input causes a panic.

use std::cell::Cell;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::version::TLS12;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};

use super::*;
use crate::config::Limits;
use crate::conn::Arrived;
use crate::identity::Identity;
use crate::message::{Head, Response};
use recalld_common::date::Moment;
use recalld_common::request_id::Numbering;

/// Both ends of the connection.
struct Bench {
    identity: Identity,
    settings: Arc<ClientConfig>,
    /// Costly steps of all exchanges so far.
    worked: Cell<usize>,
}

impl Bench {
    fn new(name: &str) -> Bench {
        Bench::of(name, rustls::DEFAULT_VERSIONS)
    }

    fn of(name: &str, versions: &[&'static SupportedProtocolVersion]) -> Bench {
        let pair = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let folder = std::env::temp_dir().join(format!("recalld-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        fs::write(&certificate, pair.cert.pem()).unwrap();
        fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        let identity = Identity::load(&certificate, &key).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(pair.cert.der().clone()).unwrap();
        let settings = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Bench { identity, settings: Arc::new(settings), worked: Cell::new(0) }
    }

    /// Sends one request over a new connection, with the bytes in pieces of `piece`. `spoil` gets the index of each
    /// byte and may change the byte. Returns the bytes read by the client, and the final state of the server side.
    fn exchange(&self, piece: usize, mut spoil: impl FnMut(usize, u8) -> u8) -> (Vec<u8>, Tls) {
        let moment = Moment::at(Instant::now(), UNIX_EPOCH);
        let numbering = Numbering { instance: 1, connection: 1, requests: 0 };
        let mut conn = Conn::open(Arc::new(Limits::default()), numbering, moment.now);
        let mut tls = Tls::open(self.identity.session().unwrap(), moment.now);
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::clone(&self.settings), name).unwrap();
        client.writer().write_all(b"GET /path HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let (mut sent, mut read) = (0, Vec::new());
        loop {
            let mut flight = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut flight).unwrap();
            }
            for bytes in flight.chunks(piece) {
                let spoilt = bytes.iter().map(|byte| {
                    sent += 1;
                    spoil(sent - 1, *byte)
                });
                let bytes: Vec<u8> = spoilt.collect();
                assert!(bytes.len() <= tls.room(&conn));
                tls.receive(&bytes, &mut conn, moment.now);
                self.worked.update(|sum| sum + tls.take_worked());
                if let Some(Arrived::Call(request)) = conn.advance(&moment) {
                    let answer = Response { head: Head::new(200), body: request.target.into() };
                    conn.respond(answer, &moment).unwrap();
                }
            }
            let mut answer = Vec::new();
            loop {
                tls.seal(&mut conn, moment.now);
                let output = tls.output().to_vec();
                if output.is_empty() {
                    break;
                }
                tls.wrote(output.len(), &mut conn, moment.now);
                answer.extend(output);
            }
            let mut rest = &answer[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).unwrap();
                if client.process_new_packets().is_err() {
                    return (read, tls);
                }
            }
            let _no_more_for_now = client.reader().read_to_end(&mut read);
            if flight.is_empty() && answer.is_empty() {
                return (read, tls);
            }
        }
    }
}

#[test]
fn every_size_of_pieces_gives_the_same_answer() {
    let bench = Bench::new("pieces");
    for piece in [1, 2, 3, 5, 16, 100, 10_000] {
        let (read, tls) = bench.exchange(piece, |_, byte| byte);
        let read = String::from_utf8(read).unwrap();
        assert!(read.starts_with("HTTP/1.1 200 OK\r\n") && read.ends_with("/path"), "{piece}");
        assert_eq!(tls.stage, Stage::Open);
        // A single signature, however the bytes are split; tickets and later records cost nothing significant.
        assert_eq!(bench.worked.take(), 1, "{piece}");
        assert!(tls.traffic.is_none(), "an idle connection holds no buffers");
    }
}

/// Returns a server side that received a client hello and then `more` in one read.
fn greeted(bench: &Bench, more: &[u8]) -> Tls {
    let moment = Moment::at(Instant::now(), UNIX_EPOCH);
    let numbering = Numbering { instance: 1, connection: 1, requests: 0 };
    let mut conn = Conn::open(Arc::new(Limits::default()), numbering, moment.now);
    let mut tls = Tls::open(bench.identity.session().unwrap(), moment.now);
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::clone(&bench.settings), name).unwrap();
    let mut flight = Vec::new();
    client.write_tls(&mut flight).unwrap();
    flight.extend(more);
    tls.receive(&flight, &mut conn, moment.now);
    tls
}

#[test]
fn a_hello_counts_whatever_stands_behind_it() {
    let bench = Bench::new("garbage");
    // A record of an unknown type, and a record with an invalid handshake message.
    for garbage in [&[99, 9, 9, 0, 1, 0][..], &[22, 3, 3, 0, 4, 255, 0, 0, 0]] {
        let mut tls = greeted(&bench, garbage);
        assert_eq!((tls.stage, tls.take_worked()), (Stage::Failed, 1));
    }
    let mut tls = greeted(&bench, &[]);
    assert_eq!((tls.stage, tls.take_worked(), tls.take_worked()), (Stage::Handshake, 1, 0));
}

#[test]
fn the_agreement_of_tls12_counts_and_so_does_one_that_fails() {
    let bench = Bench::of("agreement", &[&TLS12]);
    bench.exchange(100_000, |_, byte| byte);
    assert_eq!(bench.worked.take(), 2, "the hello, and the client's flight");
    // A hello followed by the client's key share (32 bytes of X25519), alone and with garbage after it. Both cost two
    // steps, whatever the outcome.
    let part = [&[16, 0, 0, 33, 32][..], &[9; 32]].concat();
    let record = [&[22, 3, 3, 0, 37][..], &part].concat();
    for more in [record.clone(), [&record[..], &[99, 9, 9, 0, 1, 0]].concat()] {
        assert_eq!(greeted(&bench, &more).take_worked(), 2);
    }
}

#[test]
fn a_handshake_that_fails_counts() {
    let bench = Bench::new("failed");
    let (_, mut tls) = bench.exchange(10_000, |place, byte| if place == 5 { 255 } else { byte });
    assert_eq!((tls.stage, bench.worked.take(), tls.take_worked()), (Stage::Failed, 1, 0));
}

#[test]
fn a_spoilt_byte_ends_the_connection_and_nothing_else() {
    let bench = Bench::new("spoilt");
    let mut length = 0;
    bench.exchange(10_000, |_, byte| {
        length += 1;
        byte
    });
    for at in 0..length {
        let (read, tls) = bench.exchange(10_000, |place, byte| byte ^ u8::from(place == at));
        // Some bytes of a hello have no effect; if a changed byte has an effect, no response is sent.
        assert!(read.is_empty() || read.ends_with(b"/path"), "byte {at}");
        if tls.stage == Stage::Failed {
            assert!(read.is_empty() && tls.fault().is_some(), "byte {at}");
        }
    }
}
