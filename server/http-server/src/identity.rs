//! The server certificate: a chain and its key from two PEM files, reloaded on request of the operator.
//!
//! Knows files and `rustls`; must not know connections. A connection retains its initial TLS configuration, so a reload
//! affects only new connections.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets, UnbufferedServerConnection};

use crate::limits::TLS_FILE_BYTES_MAX;
use recalld_common::regular_file;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Mode bits that give all users access to a file.
const MODE_OTHERS: u32 = 0o007;
/// Mode bits that give the file's group access.
const MODE_GROUP: u32 = 0o070;

/// Error of loading a certificate and its key. Names the file and the reason, and never quotes the contents.
#[derive(Debug)]
#[non_exhaustive]
pub enum IdentityError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The path is no regular file; reading might never end.
    NotRegular(PathBuf),
    /// The file is larger than `TLS_FILE_BYTES_MAX`.
    TooLarge(PathBuf),
    /// The file is not PEM.
    Pem(PathBuf, String),
    /// The file contains no certificate.
    NoCertificate(PathBuf),
    /// The file contains no private key.
    NoKey(PathBuf),
    /// All users of the machine may access the key; with the file mode.
    KeyExposed(PathBuf, u32),
    /// Certificate and key do not match, or are of an unsupported kind.
    Unusable {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// The reason.
        why: rustls::Error,
    },
    /// The system provided no randomness for session tickets.
    Tickets(rustls::Error),
}

impl fmt::Display for IdentityError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(out, "{}: {error}", path.display()),
            Self::NotRegular(path) => write!(
                out,
                "{}: not a regular file; copy the certificate or key into one",
                path.display()
            ),
            Self::TooLarge(path) => write!(
                out,
                "{}: larger than {TLS_FILE_BYTES_MAX} bytes, so it is no certificate or key",
                path.display()
            ),
            Self::Pem(path, why) => write!(out, "{}: not PEM: {why}", path.display()),
            Self::NoCertificate(path) => write!(
                out,
                "{}: no certificate in it; a PEM file with `-----BEGIN CERTIFICATE-----` is needed, \
                 the server's own first",
                path.display()
            ),
            Self::NoKey(path) => write!(
                out,
                "{}: no private key in it; a PEM file with `-----BEGIN PRIVATE KEY-----` (or RSA or \
                 EC before PRIVATE) and without a passphrase is needed",
                path.display()
            ),
            Self::KeyExposed(path, mode) => write!(
                out,
                "{}: everyone on this machine may get at this key (mode {mode:04o}); chmod 600 it",
                path.display()
            ),
            Self::Unusable { certificate, key, why } => {
                let (certificate, key) = (certificate.display(), key.display());
                match why {
                    rustls::Error::InconsistentKeys(_) => write!(
                        out,
                        "{key}: not the key of the first certificate in {certificate}; give the two \
                         that belong together"
                    ),
                    _ => write!(out, "{certificate} with {key}: {why}"),
                }
            }
            Self::Tickets(why) => write!(out, "no keys for session tickets: {why}"),
        }
    }
}

impl std::error::Error for IdentityError {}

/// A certificate chain with its key, as last loaded.
pub struct Identity {
    certificate: PathBuf,
    key: PathBuf,
    /// Kept across a reload, so that session tickets stay valid.
    tickets: Arc<dyn ProducesTickets>,
    current: RwLock<Arc<ServerConfig>>,
}

impl Identity {
    /// Reads both files.
    ///
    /// # Errors
    /// See [`IdentityError`].
    pub fn load(certificate: &Path, key: &Path) -> Result<Identity, IdentityError> {
        let tickets = ring::Ticketer::new().map_err(IdentityError::Tickets)?;
        let current = settings(certificate, key, &tickets)?;
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Ok(Identity { certificate, key, tickets, current: RwLock::new(Arc::new(current)) })
    }

    /// Reads both files again, for new connections.
    ///
    /// # Errors
    /// See [`IdentityError`]; the previous certificate then stays in use.
    pub fn reload(&self) -> Result<(), IdentityError> {
        let next = Arc::new(settings(&self.certificate, &self.key, &self.tickets)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// Creates the server side of a new TLS connection.
    pub(super) fn session(&self) -> Result<UnbufferedServerConnection, rustls::Error> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        UnbufferedServerConnection::new(Arc::clone(&current))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Identity")
            .field("certificate", &self.certificate)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// TLS 1.2 and 1.3, the same certificate for every server name, HTTP/1.1 only, no early data.
fn settings(
    certificate: &Path,
    key: &Path,
    tickets: &Arc<dyn ProducesTickets>,
) -> Result<ServerConfig, IdentityError> {
    let (bytes, _) = read(certificate)?;
    let chain: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|error| fault(certificate, &error))?;
    if chain.is_empty() {
        return Err(IdentityError::NoCertificate(certificate.to_owned()));
    }
    let (bytes, mode) = read(key)?;
    if mode & MODE_OTHERS != 0 {
        return Err(IdentityError::KeyExposed(key.to_owned(), mode & 0o7777));
    }
    if mode & MODE_GROUP != 0 {
        let fields = [("file", Value::Text(&key.display()))];
        log::event(Level::Warn, "the group of a TLS key may get at it", &fields);
    }
    let private = PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => IdentityError::NoKey(key.to_owned()),
        other => fault(key, &other),
    })?;
    let unusable = |why| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        IdentityError::Unusable { certificate, key, why }
    };
    let mut settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    settings.ticketer = Arc::clone(tickets);
    // Tickets contain the whole session state, so the server stores no sessions of departed clients.
    settings.session_storage = Arc::new(NoServerSessionStorage {});
    settings.max_early_data_size = 0;
    Ok(settings)
}

/// Returns a file's bytes and its mode, both from one open file.
fn read(path: &Path) -> Result<(Vec<u8>, u32), IdentityError> {
    let failed = |error| IdentityError::Read(path.to_owned(), error);
    let file = regular_file::open(path).map_err(failed)?;
    let file = file.ok_or_else(|| IdentityError::NotRegular(path.to_owned()))?;
    let mode = file.metadata().map_err(failed)?.mode();
    let mut bytes = Vec::new();
    file.take(TLS_FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > TLS_FILE_BYTES_MAX {
        return Err(IdentityError::TooLarge(path.to_owned()));
    }
    Ok((bytes, mode))
}

/// Converts a PEM error without quoting the file.
fn fault(path: &Path, error: &pem::Error) -> IdentityError {
    let why = match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end",
        pem::Error::IllegalSectionStart { .. } => "a section begins with an odd line",
        pem::Error::Base64Decode(_) => "a section is not base64",
        _ => "it cannot be understood",
    };
    IdentityError::Pem(path.to_owned(), why.to_owned())
}
