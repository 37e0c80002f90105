//! What a workspace's folder remembers of its ledger: `remote-ledger.json`.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::hex::Nonce;
use crate::small_file;

const FILE: &str = "remote-ledger.json";
const FORMAT: &str = "recalld remote ledger";
/// Longest file that is read.
const LEDGER_MEMO_BYTES_MAX: u64 = 4 << 10;

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
    let wrong = |why: String| format!("{}: {why}", path.display());
    let Some(bytes) = small_file::read(&path, LEDGER_MEMO_BYTES_MAX)? else { return Ok(None) };
    let memo: Memo = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    match memo.format == FORMAT {
        true => Ok(Some(memo.lineage)),
        false => Err(wrong("of another format".into())),
    }
}

/// Remembers it: a crash leaves this or what was there before.
pub(super) fn write(home: &Path, lineage: Nonce) -> io::Result<()> {
    let memo = Memo { format: FORMAT.into(), lineage };
    small_file::put(home, FILE, &serde_json::to_vec(&memo)?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_read_again_and_nothing_else_is() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(home.path()), Ok(None));
        write(home.path(), Nonce::MOST).unwrap();
        assert_eq!(read(home.path()), Ok(Some(Nonce::MOST)));
        let other = format!(r#"{{"format": "other", "lineage": "{}"}}"#, Nonce::MOST);
        fs::write(home.path().join(FILE), other).unwrap();
        assert!(read(home.path()).unwrap_err().contains("another format"));
    }
}
