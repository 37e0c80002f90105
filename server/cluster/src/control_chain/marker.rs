//! `control.json`: that the control store of this data directory is one of several nodes', and of which chain.
//!
//! Owns that file. It is there before a store is brought to what a chain says, and before a chain is begun, so that a
//! node which stopped in between knows by it what it was about to do.

use std::fs;
use std::path::Path;

use recalld_replication::{Nonce, put_small_file, read_noted};
use serde::{Deserialize, Serialize};

use recalld_fs_util::copies::at;

/// The file that says, to commands without a server, that a control store is one of several nodes'.
pub const MARKER: &str = "control.json";
const FORMAT: &str = "recalld control place";
/// Bytes of it.
const MARKER_BYTES_MAX: u64 = 4096;

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    format: String,
    /// Of the chain that the control store is of, or is about to begin.
    pub(super) store: Nonce,
    /// What this node is called.
    node: String,
}

impl Marker {
    pub(super) fn new(store: Nonce, node: String) -> Self {
        Self { format: FORMAT.to_owned(), store, node }
    }
}

/// What the node of a data directory is called that shares its control store with others.
///
/// # Errors
/// The file does not read.
pub fn node_of(data: &Path) -> Result<Option<String>, String> {
    Ok(read(data)?.map(|marker| marker.node))
}

/// What it says; nothing where it is not there.
pub(super) fn read(data: &Path) -> Result<Option<Marker>, String> {
    read_noted(&data.join(MARKER), MARKER_BYTES_MAX, (FORMAT, |marker: &Marker| &marker.format))
}

/// Says so, on disk when this returns.
pub(super) fn put(data: &Path, marker: &Marker) -> Result<(), String> {
    let mut bytes = serde_json::to_vec_pretty(marker).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    put_small_file(data, MARKER, &bytes).map_err(at(&data.join(MARKER)))
}

/// The store here is this node's own after all.
pub(super) fn withdraw(data: &Path) -> Result<(), String> {
    let path = data.join(MARKER);
    fs::remove_file(&path).map_err(at(&path))
}

#[cfg(test)]
mod tests {
    use recalld_replication::Hex;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn what_is_noted_is_read_and_nothing_is_made_up() {
        let folder = TempDir::new().unwrap();
        let data = folder.path();
        assert_eq!(read(data), Ok(None));
        let marker = Marker::new(Hex([7; 16]), "a".to_owned());
        put(data, &marker).unwrap();
        assert_eq!(read(data), Ok(Some(marker)));
        assert_eq!(node_of(data), Ok(Some("a".to_owned())));
        for wrong in ["", "{}", r#"{"format":"other","store":"07070707070707070707070707070707"}"#]
        {
            fs::write(data.join(MARKER), wrong).unwrap();
            assert!(read(data).unwrap_err().contains(MARKER), "{wrong}");
        }
        withdraw(data).unwrap();
        assert_eq!(read(data), Ok(None));
    }
}
