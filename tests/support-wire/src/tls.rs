//! The client side of TLS, and certificates for servers.

use std::fs::{self, Permissions};
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::generate_simple_self_signed;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A server that is silent for this long fails the test instead of hanging it.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Writes a new pair, `certificate.pem` and `key.pem`, for `localhost`, and returns its certificate.
///
/// # Panics
/// The pair cannot be made or written.
pub fn renew(folder: &Path) -> CertificateDer<'static> {
    let pair = generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a pair is made");
    fs::write(folder.join("certificate.pem"), pair.cert.pem()).expect("it is written");
    let key = folder.join("key.pem");
    fs::write(&key, pair.signing_key.serialize_pem()).expect("it is written");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("it is ours");
    pair.cert.der().clone()
}

/// Makes client settings that trust this certificate only.
///
/// # Panics
/// The certificate is invalid.
pub fn trusting(trusted: &CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let settings = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(settings)
}

/// Opens a connection without sending anything yet.
///
/// # Errors
/// A system call fails.
///
/// # Panics
/// The settings fit no session.
pub fn connect_with(
    address: &str,
    settings: &Arc<ClientConfig>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::clone(settings), name).expect("a session begins");
    let socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(SILENCE_MAX))?;
    socket.set_nodelay(true)?;
    Ok(StreamOwned::new(session, socket))
}

/// Opens a connection that trusts one certificate.
///
/// # Errors
/// A system call fails.
pub fn connect(
    address: &str,
    trusted: &CertificateDer<'static>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    connect_with(address, &trusting(trusted))
}
