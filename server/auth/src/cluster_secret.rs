//! The secret that the nodes of a remote share: what one of them signs or seals, all of them know.
//!
//! Owns its file, which the operator brings to each node, and how keys are derived from it. It never goes to the
//! remote itself. Must not know what derived keys are used for.

use std::path::Path;

use engine::hex;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::former::bytes_of_hex;
use recalld_common::secret::Random;
use recalld_fs_util::private_file;

/// Bytes of the secret.
const SECRET_BYTES: usize = 32;
/// Bytes of its file, at most: its digits, and a line's end.
const FILE_BYTES_MAX: u64 = 2 * SECRET_BYTES as u64 + 2;

/// What a signing key is derived under, before NUL and the workspace.
const SIGNING_KEY: &[u8] = b"recalld signing key 1\0";

/// 32 random bytes that all nodes of a remote have. Wiped from memory when dropped; has no `Debug`.
pub struct ClusterSecret(Zeroizing<[u8; SECRET_BYTES]>);

impl ClusterSecret {
    /// Reads it from a private file: 64 hexadecimal digits and perhaps a line's end, or the 32 bytes themselves.
    ///
    /// # Errors
    /// What is wrong with the file, and what to do. Never what is in it.
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

    /// Of these bytes.
    /// A secret of these bytes.
    #[cfg(any(test, feature = "test-util"))]
    pub fn of(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Makes a new one in a private file, where nothing is.
    ///
    /// # Errors
    /// Something is there, or the system refuses.
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

    /// HMAC-SHA-256 of a purpose, which ends with NUL or has one length, and of what it is for.
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
        // The same bytes in other words are the same secret.
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
        // Computed apart, with Python's hmac over b"recalld signing key 1\0acme".
        let wanted = "fb366a68d0f26d8a18c47109fa6de686c2715c2bd1fdf66f7e3852fc48514ff2";
        assert_eq!(hex(&seed(1, "acme")), wanted);
    }
}
