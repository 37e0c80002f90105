//! The secret shared by the nodes of a remote, from which common keys are derived.
//!
//! The operator copies the secret's file to each node; the secret itself is never uploaded to the remote.

use std::path::Path;

use engine::hex;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::former::bytes_of_hex;
use recalld_common::secret::Random;
use recalld_fs_util::private_file;

/// Length of the secret in bytes.
const SECRET_BYTES: usize = 32;
/// Maximum size of the file in bytes: hexadecimal digits and a line end.
const FILE_BYTES_MAX: u64 = 2 * SECRET_BYTES as u64 + 2;

/// Purpose of a signing key's derivation; followed by the workspace name.
const SIGNING_KEY: &[u8] = b"recalld signing key 1\0";

/// 32 random bytes known to all nodes of a remote. Wiped from memory on drop; has no `Debug`.
pub struct ClusterSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl ClusterSecret {
    /// Reads the secret from a private file: 64 hexadecimal digits with an optional line end, or 32 raw bytes.
    ///
    /// # Errors
    /// The fault of the file and its remedy; never the content.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let bytes = private_file::read_bytes(path, FILE_BYTES_MAX).map_err(|why| match why {
            recalld_fs_util::private_file_error::CredentialsError::Malformed { why, .. } => {
                malformed(path, &why)
            }
            other => other.to_string(),
        })?;
        let bytes = bytes.ok_or_else(|| {
            format!(
                "{shown} is not there; make it once (recalld remote secret {shown}), and bring the same file to \
                 every node"
            )
        })?;
        let secret = parsed(&bytes).ok_or_else(|| {
            malformed(path, "it must be 64 hexadecimal digits and a line's end, or 32 bytes")
        })?;
        if secret.iter().all(|byte| *byte == secret[0]) {
            return Err(malformed(path, "it is the same byte again and again"));
        }
        Ok(Self(secret))
    }

    /// A secret of these bytes, for tests.
    #[cfg(any(test, feature = "test-util"))]
    pub fn of(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Writes a new secret to a private file; never replaces a file.
    ///
    /// # Errors
    /// The file exists, or an I/O error.
    pub fn make(path: &Path, random: &mut Random<'_>) -> Result<(), String> {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        random(&mut *bytes);
        let text = Zeroizing::new(format!("{}\n", hex(&*bytes)));
        match private_file::create(path, &text, random) {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!(
                "{} is there already; what was made with it is lost without it, so it is not replaced",
                path.display()
            )),
            Err(why) => Err(why.to_string()),
        }
    }

    /// The seed of a workspace's signing key.
    pub fn signing_seed(&self, workspace: &str) -> Zeroizing<[u8; 32]> {
        self.derive(SIGNING_KEY, workspace.as_bytes())
    }

    /// HMAC-SHA-256 of `purpose` and `what`. The purpose must end with NUL or have a fixed length, so that the
    /// concatenation is unambiguous.
    pub fn derive(&self, purpose: &[u8], what: &[u8]) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.mac(purpose, what).finalize().into_bytes().into())
    }

    fn mac(&self, purpose: &[u8], what: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.0).expect("any length is a key");
        mac.update(purpose);
        mac.update(what);
        mac
    }
}

fn malformed(path: &Path, why: &str) -> String {
    format!("{} is no secret of nodes: {why}; bring the file of another node here", path.display())
}

fn parsed(bytes: &[u8]) -> Option<Zeroizing<[u8; SECRET_BYTES]>> {
    if let Ok(raw) = <[u8; SECRET_BYTES]>::try_from(bytes) {
        return Some(Zeroizing::new(raw));
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let line = text.strip_suffix('\n').unwrap_or(text);
    bytes_of_hex(line.strip_suffix('\r').unwrap_or(line)).map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn counting() -> impl FnMut(&mut [u8]) {
        let mut next = 0u8;
        move |out| {
            for byte in out {
                next = next.wrapping_add(7);
                *byte = next;
            }
        }
    }

    fn put(path: &Path, bytes: &[u8]) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }

    fn refused(path: &Path) -> String {
        ClusterSecret::read(path).err().expect("refused")
    }

    #[test]
    fn what_is_made_is_private_and_is_read_on_every_node() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("nodes.secret");
        assert!(refused(&path).contains("recalld remote secret"));
        ClusterSecret::make(&path, &mut counting()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let made = ClusterSecret::read(&path).unwrap();
        let again = ClusterSecret::make(&path, &mut counting()).unwrap_err();
        assert!(again.contains("is there already"), "{again}");
        // Other encodings of the same bytes are the same secret.
        let text = fs::read_to_string(&path).unwrap();
        for other in [&made.0[..], text.trim_end().as_bytes(), text.to_uppercase().as_bytes()] {
            put(&path, other);
            assert_eq!(ClusterSecret::read(&path).unwrap().0, made.0);
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_quoted() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("nodes.secret");
        for (bytes, wanted) in [
            (&b""[..], "64 hexadecimal digits"),
            (b"00112233", "64 hexadecimal digits"),
            (&[b'g'; 64][..], "64 hexadecimal digits"),
            (&[0; 32][..], "the same byte"),
            (&[b'0'; 200][..], "more than"),
        ] {
            put(&path, bytes);
            let said = refused(&path);
            assert!(said.contains(wanted) && !said.contains("00112233"), "{said}");
        }
        put(&path, &[b'a'; 64]);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(refused(&path).contains("chmod 600"));
    }

    #[test]
    fn each_workspace_has_a_key_of_its_own_that_every_holder_of_the_secret_derives() {
        let secret = |byte: u8| ClusterSecret(Zeroizing::new([byte; 32]));
        let seed = |byte, workspace| *secret(byte).signing_seed(workspace);
        assert_eq!(seed(1, "acme"), seed(1, "acme"));
        assert_ne!(seed(1, "acme"), seed(1, "local"));
        assert_ne!(seed(1, "acme"), seed(2, "acme"));
        // Computed independently, with Python's hmac over b"recalld signing key 1\0acme".
        let wanted = "fb366a68d0f26d8a18c47109fa6de686c2715c2bd1fdf66f7e3852fc48514ff2";
        assert_eq!(hex(&seed(1, "acme")), wanted);
    }
}
