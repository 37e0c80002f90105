//! The TLS listener: arbitrary bytes in place of records, arbitrary bytes within a valid session in records of any
//! size, and a valid session with one corrupt record.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, OnceLock};

use recalld_http_server::Identity;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

use super::http::Count;
use crate::front::{self, ask, was_given_up, without_names};

struct Scene {
    plain: SocketAddr,
    secured: SocketAddr,
    settings: Arc<ClientConfig>,
}

fn scene() -> &'static Scene {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    SCENE.get_or_init(|| {
        let names = vec!["localhost".to_owned()];
        let pair = rcgen::generate_simple_self_signed(names).expect("a pair is made");
        let folder = std::env::temp_dir().join(format!("recalld-fuzz-tls-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
        fs::write(&certificate, pair.cert.pem()).expect("it is written");
        fs::write(&key, pair.signing_key.serialize_pem()).expect("it is written");
        fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("it is ours");
        let identity = Identity::load(&certificate, &key).expect("a good pair");
        fs::remove_dir_all(&folder).expect("it is read once");
        let [plain, secured] = front::start(Arc::new(Count), Some(&Arc::new(identity)));
        let mut roots = RootCertStore::empty();
        roots.add(pair.cert.der().clone()).expect("a certificate");
        let settings = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Scene { plain, secured, settings: Arc::new(settings) }
    })
}

/// Sends `bytes` in a session, in records of at most `record` bytes, and returns the response. `spoil` changes the
/// bytes on the wire after the handshake.
fn within(bytes: &[u8], record: usize, spoil: impl FnOnce(&mut Vec<u8>)) -> Option<Vec<u8>> {
    let scene = scene();
    let mut socket = front::connect(scene.secured)?;
    let name = ServerName::try_from("localhost").expect("a name");
    let mut session =
        ClientConnection::new(Arc::clone(&scene.settings), name).expect("a session begins");
    while session.is_handshaking() {
        session.complete_io(&mut socket).ok()?;
    }
    let mut wire = Vec::new();
    for piece in bytes.chunks(record) {
        session.writer().write_all(piece).ok()?;
        while session.wants_write() {
            session.write_tls(&mut wire).ok()?;
        }
    }
    session.send_close_notify();
    session.write_tls(&mut wire).ok()?;
    spoil(&mut wire);
    // A server that has rejected a piece may have closed already.
    let _closed = socket.write_all(&wire);
    let mut answer = Vec::new();
    let _broken = Stream::new(&mut session, &mut socket).read_to_end(&mut answer);
    Some(answer)
}

/// Runs one input. The first byte selects the case, the second the record size or the corrupt byte.
pub fn run(data: &[u8]) {
    let [how, size, bytes @ ..] = data else { return };
    match how % 3 {
        0 => {
            let cut = usize::from(*size) * bytes.len() / 256;
            let (first, second) = bytes.split_at(cut);
            let Some(answer) = ask(scene().secured, &[first, second]) else { return };
            // Handshake and alert are the only records before a session; an HTTP client gets an HTTP error.
            let is_record = matches!(answer.as_slice(), [20..=22, 3, ..]);
            let is_ours = answer.is_empty() || is_record || answer.starts_with(b"HTTP/1.1 400 ");
            assert!(is_ours, "{answer:?}");
        }
        1 => {
            let Some(plain) = ask(scene().plain, &[bytes]) else { return };
            let Some(secured) = within(bytes, usize::from(*size) + 1, |_| ()) else { return };
            if was_given_up(&plain) || was_given_up(&secured) {
                return;
            }
            let (plain, secured) = (without_names(&plain), without_names(&secured));
            assert!(
                plain.starts_with(&secured) || secured.starts_with(&plain),
                "{plain:?} {secured:?}"
            );
        }
        _ => {
            let body = usize::from(*size);
            let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
            let spoil = |wire: &mut Vec<u8>| {
                // Any byte after the header of the first record, which has the request.
                let at = 5 + body % request.len();
                wire[at] ^= bytes.first().copied().unwrap_or_default().max(1);
            };
            let Some(answer) = within(request, request.len(), spoil) else { return };
            assert!(answer.is_empty(), "a spoilt record was answered: {answer:?}");
        }
    }
}
