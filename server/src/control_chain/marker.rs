//! `control.json`: that the control store of this data directory is one of several nodes', and of which chain.
//!
//! Owns that file. It is there before a store is brought to what a chain says, and before a chain is begun, so that a
//! node which stopped in between knows by it what it was about to do.

use std::fs;
use std::io;
use std::path::Path;

use remote::Nonce;
use serde::{Deserialize, Serialize};

use crate::operator::copies;

/// The file that says, to commands without a server, that a control store is one of several nodes'.
pub const MARKER: &str = "control.json";
const FORMAT: &str = "recalld control place";
/// Bytes of it.
const MARKER_BYTES_MAX: u64 = 4096;

#[derive(Serialize, Deserialize)]
struct Marker {
    format: String,
    store: Nonce,
}

/// The store of the chain that this control store is of, or is about to begin.
pub(super) fn read(data: &Path) -> Result<Option<Nonce>, String> {
    let path = data.join(MARKER);
    let wrong = |why: &str| format!("{}: {why}", path.display());
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(&error.to_string())),
        Ok(about) if about.len() > MARKER_BYTES_MAX => return Err(wrong("it is too long")),
        Ok(_) => {}
    }
    let bytes = fs::read(&path).map_err(copies::at(&path))?;
    let marker: Marker =
        serde_json::from_slice(&bytes).map_err(|error| wrong(&error.to_string()))?;
    match marker.format == FORMAT {
        true => Ok(Some(marker.store)),
        false => Err(wrong("it is of another format")),
    }
}

/// Says so, on disk when this returns.
pub(super) fn put(data: &Path, store: Nonce) -> Result<(), String> {
    let path = data.join(MARKER);
    let marker = Marker { format: FORMAT.to_owned(), store };
    let mut bytes = serde_json::to_vec_pretty(&marker).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    copies::put(&path, &bytes).map_err(copies::at(&path))
}

/// The store here is this node's own after all.
pub(super) fn withdraw(data: &Path) -> Result<(), String> {
    let path = data.join(MARKER);
    fs::remove_file(&path).map_err(copies::at(&path))
}

#[cfg(test)]
mod tests {
    use remote::Hex;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn what_is_noted_is_read_and_nothing_is_made_up() {
        let folder = TempDir::new().unwrap();
        let data = folder.path();
        assert_eq!(read(data), Ok(None));
        put(data, Hex([7; 16])).unwrap();
        assert_eq!(read(data), Ok(Some(Hex([7; 16]))));
        for wrong in ["", "{}", r#"{"format":"other","store":"07070707070707070707070707070707"}"#]
        {
            fs::write(data.join(MARKER), wrong).unwrap();
            assert!(read(data).unwrap_err().contains(MARKER), "{wrong}");
        }
        withdraw(data).unwrap();
        assert_eq!(read(data), Ok(None));
    }
}
