//! The backup manifest `backup.json`: identity and content of a backup except its stores.
//!
//! Implements the file's format (`format-spec/backup.md`). Each store has its own manifest with its own hashes.

use std::fs;
use std::path::{Component, Path};

use engine::hex;
use serde_json::{Value, json};

use recalld_auth::{bytes_of_hex, keys_of_json, keys_to_json};
use recalld_common::slug::is_slug;
use recalld_fs_util::copies;
use recalld_fs_util::copies::CopiedFile;
use recalld_fs_util::data_dir::{BACKUP_FILE, CONTROL_FILE};

/// Format version. A backup without tenants has version 1, which older builds can read.
const VERSION: u64 = 2;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Workspaces of tenants, equal to the maximum in the metastore.
    const WORKSPACES_MAX: usize = 100_000;
    /// Files outside stores: the volumes of the operator's ledger and a few more, and three per workspace.
    const FILES_MAX: usize = 365_552;
}

const _: () = assert!(FILES_MAX == 65_536 + 16 + 3 * WORKSPACES_MAX);
/// Bytes of the manifest: 300 per file and workspace.
const FILE_BYTES_MAX: u64 = 160 << 20;

/// A backup manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Catalogue {
    /// Random id of the backup directory.
    pub(super) id: String,
    /// Time of the last completion; `None` if the backup was never finished.
    pub(super) made_at: Option<String>,
    /// Newest commit in the operator's store.
    pub(super) seq: u64,
    /// True if the backup has the credentials and the signing key.
    pub(super) with_keys: bool,
    /// Public keys that verify the operator's ledger.
    pub(super) public_keys: Vec<[u8; 32]>,
    /// Workspaces of tenants.
    pub(super) parts: Vec<Part>,
    /// Files outside stores.
    pub(super) files: Vec<CopiedFile>,
}

/// A tenant's workspace in a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: String,
    /// Newest commit in the workspace's store; `None` if the workspace was deleted and only its ledger remains.
    pub(super) seq: Option<u64>,
    /// Public keys that verify the workspace's ledger.
    pub(super) public_keys: Vec<[u8; 32]>,
}

impl Part {
    fn of_json(said: &Value) -> Option<Self> {
        let seq = match &said["seq"] {
            Value::Null => None,
            seq => Some(seq.as_u64()?),
        };
        Some(Self {
            name: said["name"].as_str().filter(|name| is_slug(name))?.to_owned(),
            seq,
            public_keys: keys_of_json(&said["public_keys"])?,
        })
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name, "seq": self.seq, "public_keys": keys_to_json(&self.public_keys),
        })
    }
}

impl Catalogue {
    /// Reads the manifest of a backup; `None` if there is none.
    pub(super) fn read(backup: &Path) -> Result<Option<Self>, String> {
        let file = backup.join(BACKUP_FILE);
        match fs::metadata(&file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(copies::at(&file)(error)),
            Ok(about) if about.len() > FILE_BYTES_MAX => {
                let why = format!("more than {FILE_BYTES_MAX} bytes");
                return Err(format!("BAK-01: {}: {why}", file.display()));
            }
            Ok(_) => {}
        }
        let text = fs::read(&file).map_err(copies::at(&file))?;
        let said: Value = serde_json::from_slice(&text).unwrap_or_default();
        if said["version"].as_u64().is_some_and(|version| version > VERSION) {
            let why = "a newer build wrote it; use that build";
            return Err(format!("BAK-01: {}: {why}", file.display()));
        }
        let made = Self::of_json(&said);
        made.map(Some).ok_or_else(|| format!("BAK-01: {} is damaged", file.display()))
    }

    fn of_json(said: &Value) -> Option<Self> {
        let files = said["files"].as_array().filter(|files| files.len() <= FILES_MAX)?;
        let file = |row: &Value| {
            Some(CopiedFile {
                path: row["path"].as_str().filter(|path| is_within(path))?.to_owned(),
                bytes: row["bytes"].as_u64()?,
                sha256: bytes_of_hex(row["sha256"].as_str()?)?,
            })
        };
        let parts = match &said["workspaces"] {
            Value::Null => Vec::new(),
            parts => {
                let parts = parts.as_array().filter(|parts| parts.len() <= WORKSPACES_MAX)?;
                parts.iter().map(Part::of_json).collect::<Option<_>>()?
            }
        };
        Some(Self {
            id: said["id"].as_str().filter(|id| id.len() <= 64)?.to_owned(),
            made_at: said["made_at"].as_str().map(str::to_owned),
            seq: said["seq"].as_u64()?,
            with_keys: said["with_keys"].as_bool()?,
            public_keys: keys_of_json(&said["public_keys"])?,
            parts,
            files: files.iter().map(file).collect::<Option<_>>()?,
        })
    }

    /// Writes the manifest atomically.
    pub(super) fn write(&self, backup: &Path) -> Result<(), String> {
        let row = |file: &CopiedFile| json!({"path": file.path, "bytes": file.bytes, "sha256": hex(&file.sha256)});
        let mut said = json!({
            "version": 1, "id": self.id, "made_at": self.made_at, "seq": self.seq,
            "with_keys": self.with_keys, "public_keys": keys_to_json(&self.public_keys),
            "files": self.files.iter().map(row).collect::<Vec<_>>(),
        });
        let has_control = self.files.iter().any(|file| file.path == CONTROL_FILE);
        if has_control || !self.parts.is_empty() {
            said["version"] = VERSION.into();
            said["workspaces"] = self.parts.iter().map(Part::to_json).collect();
        }
        let file = backup.join(BACKUP_FILE);
        copies::put(&file, format!("{said:#}\n").as_bytes()).map_err(copies::at(&file))
    }
}

/// Returns true if a relative path stays below its starting folder.
fn is_within(path: &str) -> bool {
    let parts = || Path::new(path).components();
    parts().next().is_some() && parts().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalogue_is_read_as_it_was_written_and_names_nothing_outside() {
        let folder = std::env::temp_dir().join(format!("recalld-catalogue-{}", std::process::id()));
        copies::make_folder(&folder).unwrap();
        assert_eq!(Catalogue::read(&folder), Ok(None));
        let file = |path: &str| CopiedFile { path: path.to_owned(), bytes: 7, sha256: [0xab; 32] };
        let mut made = Catalogue {
            id: "00ff".to_owned(),
            made_at: Some("2026-01-31T09:00:00Z".to_owned()),
            seq: 9,
            with_keys: true,
            public_keys: vec![[1; 32]],
            parts: Vec::new(),
            files: vec![file("tenants/local/ledger/a"), file("roots.json")],
        };
        made.write(&folder).unwrap();
        assert_eq!(Catalogue::read(&folder), Ok(Some(made.clone())));
        let version = || {
            let text = fs::read(folder.join(BACKUP_FILE)).unwrap();
            serde_json::from_slice::<Value>(&text).unwrap()["version"].clone()
        };
        assert_eq!(version(), 1, "older builds read one without tenants");
        let part =
            |name: &str, seq| Part { name: name.to_owned(), seq, public_keys: vec![[2; 32]] };
        made.parts = vec![part("acme", Some(7)), part("gone", None)];
        made.write(&folder).unwrap();
        assert_eq!((Catalogue::read(&folder), version()), (Ok(Some(made.clone())), 2.into()));
        made.parts = vec![part("../acme", Some(7))];
        made.write(&folder).unwrap();
        assert!(Catalogue::read(&folder).unwrap_err().contains("BAK-01"), "a folder outside");
        for outside in ["../x", "/etc/passwd", "a/../../b", "", "."] {
            made.files = vec![file(outside)];
            made.write(&folder).unwrap();
            assert!(Catalogue::read(&folder).unwrap_err().contains("BAK-01"), "{outside}");
        }
        fs::write(folder.join(BACKUP_FILE), "{\"version\": 3}").unwrap();
        assert!(Catalogue::read(&folder).unwrap_err().contains("newer"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
