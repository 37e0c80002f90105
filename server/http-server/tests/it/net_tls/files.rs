//! Certificate and key files generated for tests, and the errors of invalid files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use recalld_http_server::{Identity, IdentityError};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};

/// A temporary directory with one certificate and key; deleted on drop.
pub(super) struct Files {
    folder: PathBuf,
    pair: CertifiedKey<KeyPair>,
}

impl Files {
    pub(super) fn new() -> Files {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("recalld-tls-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut files = Files { folder, pair: pair() };
        files.write();
        files
    }

    /// Replaces the certificate and the key in the same files.
    pub(super) fn renew(&mut self) {
        self.pair = pair();
        self.write();
    }

    fn write(&mut self) {
        self.write_certificate(&self.pair.cert.pem());
        self.write_key(&self.pair.signing_key.serialize_pem(), 0o600);
    }

    pub(super) fn write_certificate(&self, text: &str) {
        fs::write(self.certificate_path(), text).unwrap();
    }

    fn write_key(&self, text: &str, mode: u32) {
        fs::write(self.key_path(), text).unwrap();
        fs::set_permissions(self.key_path(), Permissions::from_mode(mode)).unwrap();
    }

    pub(super) fn certificate_path(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    fn key_path(&self) -> PathBuf {
        self.folder.join("key.pem")
    }

    pub(super) fn certificate(&self) -> CertificateDer<'static> {
        self.pair.cert.der().clone()
    }

    /// Client configuration that trusts the current certificate.
    pub(super) fn settings(&self) -> Arc<ClientConfig> {
        super::settings(&self.certificate(), &[&TLS12, &TLS13])
    }

    pub(super) fn load(&self) -> Result<Identity, IdentityError> {
        Identity::load(&self.certificate_path(), &self.key_path())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

fn pair() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap()
}

#[test]
fn bad_files_are_named_with_their_fault() {
    let files = Files::new();
    let said =
        |certificate: &Path, key: &Path| Identity::load(certificate, key).unwrap_err().to_string();
    let (certificate, key) = (files.certificate_path(), files.key_path());
    let good = fs::read_to_string(&certificate).unwrap();
    let good_key = fs::read_to_string(&key).unwrap();
    let expect = |said: String, file: &Path, why: &str| {
        assert!(said.starts_with(&file.display().to_string()) && said.contains(why), "{said}");
        let secret = good_key.lines().nth(1).unwrap();
        assert!(!said.contains(secret), "{said}");
    };
    let absent = files.folder.join("absent.pem");
    expect(said(&absent, &key), &absent, "No such file");
    expect(said(&certificate, &absent), &absent, "No such file");
    expect(said(&key, &key), &key, "no certificate");
    expect(said(&certificate, &certificate), &certificate, "everyone");
    // No process writes to the pipe: reading the pipe as a file would block forever.
    let pipe = files.folder.join("pipe.pem");
    let mode = rustix::fs::Mode::from_bits_truncate(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    expect(said(&pipe, &key), &pipe, "not a regular file");
    expect(said(&certificate, &pipe), &pipe, "not a regular file");
    expect(said(&files.folder, &key), &files.folder, "not a regular file");
    for (text, why) in [
        ("", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "not base64"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n", "no end"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ""),
        (&"x".repeat(2_000_000), "larger than"),
    ] {
        files.write_certificate(text);
        expect(said(&certificate, &key), &certificate, why);
    }
    files.write_certificate(&good);
    for (text, why) in [
        ("", "no private key"),
        (&*good, "no private key"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n", "no end"),
        (&*pair().signing_key.serialize_pem(), "not the key of the first certificate"),
    ] {
        files.write_key(text, 0o600);
        expect(said(&certificate, &key), &key, why);
    }
    for (mode, is_good) in [(0o604, false), (0o602, false), (0o640, true), (0o400, true)] {
        files.write_key(&good_key, mode);
        assert_eq!(files.load().is_ok(), is_good, "{mode:o}");
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    }
}
