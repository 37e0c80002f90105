//! `remote-ledger.json` in a workspace's directory: lineage of the ledger's remote copy.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::hex::Nonce;
use crate::small_file;

const FILE: &str = "remote-ledger.json";
const FORMAT: &str = "recalld remote ledger";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of the file.
    const LEDGER_MEMO_BYTES_MAX: u64 = 4 << 10;
}

#[derive(Debug, Serialize, Deserialize)]
struct Memo {
    format: String,
    lineage: Nonce,
}

/// Lineage of the remote copy; `None` if the ledger was never uploaded.
///
/// # Errors
/// The file cannot be read or parsed.
pub(super) fn read(home: &Path) -> Result<Option<Nonce>, String> {
    let path = home.join(FILE);
    let memo =
        small_file::read_noted(&path, LEDGER_MEMO_BYTES_MAX, (FORMAT, |memo: &Memo| &memo.format))?;
    Ok(memo.map(|memo| memo.lineage))
}

/// Returns true if the workspace in this directory had a ledger with an entry (REM-83): if its ledger is empty now, the
/// entries were lost. Also returns true if the file's state is unknown.
#[must_use]
pub fn was_brought(home: &Path) -> bool {
    home.join(FILE).try_exists().unwrap_or(true)
}

/// Writes the file atomically: a crash leaves the new or the old content.
pub(super) fn write(home: &Path, lineage: Nonce) -> io::Result<()> {
    small_file::put_json(home, FILE, &Memo { format: FORMAT.into(), lineage })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_read_again_and_nothing_else_is() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(home.path()), Ok(None));
        assert!(!was_brought(home.path()));
        write(home.path(), Nonce::MOST).unwrap();
        assert_eq!(read(home.path()), Ok(Some(Nonce::MOST)));
        assert!(was_brought(home.path()));
        let other = format!(r#"{{"format": "other", "lineage": "{}"}}"#, Nonce::MOST);
        fs::write(home.path().join(FILE), other).unwrap();
        assert!(read(home.path()).unwrap_err().contains("another format"));
    }
}
