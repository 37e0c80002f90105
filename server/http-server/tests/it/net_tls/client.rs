use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};

/// A socket that accepts one byte per write.
pub(super) struct Drip(pub(super) TcpStream);

impl Write for Drip {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(&bytes[..bytes.len().min(1)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Read for Drip {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let few = bytes.len().min(3);
        self.0.read(&mut bytes[..few])
    }
}

/// Client configuration that trusts this certificate, supports these TLS versions and stores tickets.
pub(super) fn settings(
    certificate: &CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let mut settings = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(settings)
}

fn session(settings: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::clone(settings), name).unwrap()
}

pub(super) struct TlsClient<S: Read + Write> {
    pub(super) stream: StreamOwned<ClientConnection, S>,
}

impl TlsClient<TcpStream> {
    pub(super) fn connect(address: SocketAddr, settings: &Arc<ClientConfig>) -> Self {
        TlsClient::over(super::connect(address), settings)
    }
}

impl TlsClient<Drip> {
    /// Returns the first flight of a handshake.
    pub(super) fn hello(settings: &Arc<ClientConfig>) -> Vec<u8> {
        let mut hello = Vec::new();
        let mut session = session(settings);
        while session.wants_write() {
            session.write_tls(&mut hello).unwrap();
        }
        hello
    }
}

impl<S: Read + Write> TlsClient<S> {
    pub(super) fn over(socket: S, settings: &Arc<ClientConfig>) -> Self {
        TlsClient { stream: StreamOwned::new(session(settings), socket) }
    }

    pub(super) fn session(&self) -> &ClientConnection {
        &self.stream.conn
    }

    pub(super) fn say(&mut self, bytes: &[u8]) {
        self.try_say(bytes).unwrap();
    }

    pub(super) fn try_say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends `close_notify` with the request; the socket stays open.
    pub(super) fn say_then_close(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.conn.send_close_notify();
        self.stream.flush().unwrap();
    }

    pub(super) fn change_keys(&mut self) {
        self.stream.conn.refresh_traffic_keys().unwrap();
    }

    /// Reads the head of a response, up to its empty line.
    pub(super) fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.exactly(1));
        }
        String::from_utf8(head).unwrap()
    }

    /// Reads head and body of a response with a length.
    pub(super) fn answer(&mut self) -> (String, Vec<u8>) {
        let head = self.head();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let body = self.exactly(length.parse().unwrap());
        (head, body)
    }

    pub(super) fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads to the end; an end without `close_notify` is an error.
    pub(super) fn remainder(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest)?;
        Ok(rest)
    }
}
