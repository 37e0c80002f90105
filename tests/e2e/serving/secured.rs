//! TLS on the hosted listener of the program, and certificate reload while it serves.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, StreamOwned};
use support_wire::service::scratch;
use support_wire::tls;

use super::launched::Launched;
use super::{manager, told};

struct Secured(StreamOwned<ClientConnection, TcpStream>);

impl Secured {
    fn open(address: &str, trusted: &CertificateDer<'static>) -> Secured {
        Secured(tls::connect(address, trusted).unwrap())
    }

    /// Status of `GET /health` on a persistent connection; `None` if TLS fails.
    fn health(&mut self) -> Option<String> {
        self.0.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).ok()?;
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).ok()?;
        Some(head.lines().next().unwrap().to_owned())
    }
}

const OK: Option<&str> = Some("HTTP/1.1 200 OK");

/// Sends SIGHUP and checks the notifications to the manager.
fn reload(service: &Launched, manager: &UnixDatagram) {
    service.signal(Signal::HUP);
    let reloading = told(manager);
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    let micros = reloading.lines().nth(1).unwrap().strip_prefix("MONOTONIC_USEC=").unwrap();
    assert!(micros.parse::<u64>().unwrap() > 0);
    assert!(told(manager).starts_with("READY=1\n"));
}

#[test]
fn a_certificate_is_served_and_read_again_on_sighup() {
    let folder = scratch();
    let (manager, path) = manager(folder.path());
    let old = tls::renew(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (file("certificate.pem"), file("key.pem"));
    let arguments = ["--hosted", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key];
    let variables = [("NOTIFY_SOCKET", path.as_str())];
    let service = Launched::start(&folder.path().join("data"), &arguments, variables);
    told(&manager);
    let hosted = service.ready["hosted"].as_str().unwrap().strip_prefix("https://").unwrap();
    let mut before = Secured::open(hosted, &old);
    assert_eq!(before.health().as_deref(), OK);

    let new = tls::renew(folder.path());
    reload(&service, &manager);
    assert_eq!(before.health().as_deref(), OK);
    assert_eq!(Secured::open(hosted, &new).health().as_deref(), OK);
    assert_eq!(Secured::open(hosted, &old).health(), None);

    fs::write(&certificate, "not a certificate").unwrap();
    reload(&service, &manager);
    service.until_said("recalld: error: the new certificate cannot be used; the old one stays");
    service.until_said(&certificate);
    assert_eq!(before.health().as_deref(), OK);
    assert_eq!(Secured::open(hosted, &new).health().as_deref(), OK);

    // A pipe without a writer, in the certificate's place, blocks nothing: signals are still handled.
    fs::remove_file(&certificate).unwrap();
    mknodat(CWD, &certificate, FileType::Fifo, Mode::from_bits_truncate(0o600), 0).unwrap();
    reload(&service, &manager);
    service.until_said("not a regular file");
    assert_eq!(Secured::open(hosted, &new).health().as_deref(), OK);
    drop(before);
    assert_eq!(service.terminate().code(), Some(0));
}
