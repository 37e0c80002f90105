//! `control.json`: marks the metastore of this data directory as shared with other nodes, and names its record log.
//!
//! The file is written before a metastore is brought to the state of a record log, and before a record log is started.
//! After a crash in between, the node knows by the file what it was about to do.

use std::fs;
use std::path::Path;

use recalld_replication::{Nonce, put_small_file, read_noted};
use serde::{Deserialize, Serialize};

use recalld_fs_util::copies::at;

/// File that marks a shared metastore for commands that run without a server.
pub const MARKER: &str = "control.json";
const FORMAT: &str = "recalld control place";
const MARKER_BYTES_MAX: u64 = 4096;

/// Content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Marker {
    format: String,
    /// Store id of the record log that the metastore belongs to, or is about to start.
    pub(super) store: Nonce,
    /// Name of this node.
    node: String,
}

impl Marker {
    pub(super) fn new(store: Nonce, node: String) -> Self {
        Self { format: FORMAT.to_owned(), store, node }
    }
}

/// Name of the node whose data directory this is; `None` if its metastore is not shared.
///
/// # Errors
/// The file cannot be read or parsed.
pub fn node_of(data: &Path) -> Result<Option<String>, String> {
    Ok(read(data)?.map(|marker| marker.node))
}

/// Reads the marker; `None` if there is no file.
pub(super) fn read(data: &Path) -> Result<Option<Marker>, String> {
    read_noted(&data.join(MARKER), MARKER_BYTES_MAX, (FORMAT, |marker: &Marker| &marker.format))
}

/// Writes the marker; durable on return.
pub(super) fn put(data: &Path, marker: &Marker) -> Result<(), String> {
    let mut bytes = serde_json::to_vec_pretty(marker).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    put_small_file(data, MARKER, &bytes).map_err(at(&data.join(MARKER)))
}

/// Removes the marker: the local metastore is this node's own after all.
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
