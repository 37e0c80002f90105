//! What a workspace's folder remembers of its ledger: `remote-ledger.json`.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::hex::Nonce;
use crate::small_file;

const FILE: &str = "remote-ledger.json";
const FORMAT: &str = "recalld remote ledger";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Longest file that is read.
    const LEDGER_MEMO_BYTES_MAX: u64 = 4 << 10;
}

#[derive(Debug, Serialize, Deserialize)]
struct Memo {
    format: String,
    lineage: Nonce,
}

/// Which ledger of this node it is; `None` where it was never brought.
///
/// # Errors
/// What is wrong with the file.
pub(super) fn read(home: &Path) -> Result<Option<Nonce>, String> {
    let path = home.join(FILE);
    let memo =
        small_file::read_noted(&path, LEDGER_MEMO_BYTES_MAX, (FORMAT, |memo: &Memo| &memo.format))?;
    Ok(memo.map(|memo| memo.lineage))
}

/// Whether a ledger whose workspace has that folder was on this disk, and had an entry (REM-83): one that has none now
/// was emptied. Where that cannot be told, it was.
#[must_use]
pub fn was_brought(home: &Path) -> bool {
    home.join(FILE).try_exists().unwrap_or(true)
}

/// Remembers it: a crash leaves this or what was there before.
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
