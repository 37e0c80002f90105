//! File URIs (RFC 8089), and the current content of their files.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::roots::Roots;
use recalld_common::target::percent_decode;

const SCHEME: &str = "file://";

/// Returns the URI of an absolute path.
pub fn of_path(path: &str) -> String {
    let mut uri = SCHEME.to_owned();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            write!(uri, "%{byte:02X}").expect("writing to a string does not fail");
        }
    }
    uri
}

/// Returns the path of a file URI; `None` for any other URI.
pub fn to_path(uri: &str) -> Option<String> {
    let path = uri.strip_prefix(SCHEME).filter(|path| path.starts_with('/'))?;
    percent_decode(path).ok().map(std::borrow::Cow::into_owned)
}

/// Returns the current content of a file; `None` if the file is missing or not allowed.
pub fn contents(roots: &Roots, path: &str) -> Option<Vec<u8>> {
    roots.resolve(path).ok().filter(|file| !file.is_folder())?.read_bytes().ok().flatten()
}

/// Computes a SHA-256.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_there_and_back() {
        for path in ["/a/b.md", "/a b/\u{e9}%41?#.txt", "/"] {
            let uri = of_path(path);
            assert!(uri.is_ascii() && !uri.contains([' ', '?', '#']), "{uri}");
            assert_eq!(to_path(&uri).as_deref(), Some(path));
        }
        for other in ["https://example.org/a", "file://host/a", "/a"] {
            assert_eq!(to_path(other), None, "{other}");
        }
    }
}
