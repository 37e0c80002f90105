//! Measures the server's processor time per TLS handshake, for TLS 1.2 and 1.3, in memory. Run `cargo run --release -p
//! recalld-http-server --example tls_handshake -- CERTIFICATE KEY`. The certificate must be self-signed and not an
//! authority, as made by `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost
//! -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE`.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

const ROUNDS: usize = 1_000;

/// Processor time of the server for one handshake without session resumption.
fn handshake(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
) -> Result<Duration, Box<dyn Error>> {
    let mut spent = Duration::ZERO;
    let mut client = ClientConnection::new(Arc::clone(client), ServerName::try_from("localhost")?)?;
    let mut server = ServerConnection::new(Arc::clone(server))?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut flight = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut flight)?;
        }
        let began = Instant::now();
        let mut rest = &flight[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest)?;
            server.process_new_packets()?;
        }
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer)?;
        }
        spent += began.elapsed();
        let mut rest = &answer[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest)?;
            client.process_new_packets()?;
        }
    }
    Ok(spent)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [certificate, key] = &arguments[..] else { return Err("CERTIFICATE KEY".into()) };
    let certificate = CertificateDer::from_pem_file(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let provider = Arc::new(ring::default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    let server = Arc::new(server);
    for (name, version) in [("TLS 1.3", &TLS13), ("TLS 1.2", &TLS12)] {
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])?
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        let mut client = client;
        client.resumption = rustls::client::Resumption::disabled();
        let client = Arc::new(client);
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            times.push(handshake(&server, &client)?);
        }
        times.sort_unstable();
        let (median, slow) = (times[ROUNDS / 2], times[ROUNDS * 9 / 10]);
        println!("{name}: median {median:?}, nine in ten below {slow:?}, of {ROUNDS} handshakes");
    }
    Ok(())
}
