//! Public keys that verify a ledger: of the current signing key and of former ones.
//!
//! A data directory that was restored without its signing key gets a new one; `keys/former.json` has the public keys of
//! the old ones (`format-spec/backup.md`). Creates no key.

use std::path::{Path, PathBuf};

use engine::ledger::{LedgerReport, VerifyOptions, verify_with_progress};

use recalld_auth::{Credentials, PUBLIC_KEYS_MAX, Verifier, former_keys};
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_fs_util::data_dir::{tenant_dir, workspace_dir};

/// Location of a workspace's ledger and of its keys.
pub struct LedgerPlace {
    folder: PathBuf,
    /// Folder of the signing key and the former keys.
    keys_in: PathBuf,
}

impl LedgerPlace {
    /// Locates a workspace's ledger in a data directory; `None` if it has none.
    pub fn of(data: &Path, workspace: &str) -> Option<Self> {
        let folder = tenant_dir(data, workspace).join("ledger");
        folder.is_dir().then(|| Self::brought(folder, data, workspace))
    }

    /// Describes a ledger of that workspace in another folder, such as one downloaded from a remote.
    pub fn brought(folder: PathBuf, data: &Path, workspace: &str) -> Self {
        // The operator's key belongs to the data directory itself.
        let keys_in = match workspace == LOCAL_WORKSPACE {
            true => data.to_owned(),
            false => tenant_dir(data, workspace),
        };
        Self { folder, keys_in }
    }

    /// Folder of the ledger.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a verifier for all keys that may have signed the ledger.
    ///
    /// # Errors
    /// There is no key, or the keys cannot be read; the text names the file.
    pub fn verifier(&self) -> Result<Verifier, String> {
        Verifier::new(&self.keys()?).map_err(|error| error.to_string())
    }

    /// Returns at least one public key that may have signed the ledger.
    pub(super) fn keys(&self) -> Result<Vec<[u8; 32]>, String> {
        let own = Credentials::signing_key(&self.keys_in).map_err(|error| error.to_string())?;
        let keys = trusted_keys(&self.keys_in, own.map(|signer| signer.public()))?;
        if keys.is_empty() {
            let key = self.keys_in.join("keys/signing.key");
            return Err(format!(
                "{} is not there, so the ledger cannot be checked; restore it from a backup",
                key.display()
            ));
        }
        Ok(keys)
    }
}

/// Returns the ledger's folder in a data directory or a backup.
pub(super) fn ledger_of(root: &Path) -> PathBuf {
    workspace_dir(root).join("ledger")
}

/// Returns the public keys of the current signing key, if any, and of the former ones.
pub(super) fn trusted_keys(data: &Path, own: Option<[u8; 32]>) -> Result<Vec<[u8; 32]>, String> {
    let mut keys: Vec<[u8; 32]> = own.into_iter().collect();
    keys.extend(former_keys(data).map_err(|error| error.to_string())?);
    keys.truncate(PUBLIC_KEYS_MAX);
    Ok(keys)
}

/// Walks the ledger in a folder, reporting the number of entries to `tell`; faults are in the report.
pub(super) fn walk_ledger_in(
    folder: &Path,
    keys: &[[u8; 32]],
    tell: &dyn Fn(u64),
) -> Result<LedgerReport, String> {
    let seals = Verifier::new(keys).map_err(|error| format!("BAK-01: {error}"))?;
    verify_with_progress(folder, &VerifyOptions::all(&seals), tell)
        .map_err(|error| error.to_string())
}

/// Verifies a copied ledger against public keys.
pub(super) fn verify_ledger(root: &Path, keys: &[[u8; 32]]) -> Result<LedgerReport, String> {
    verify_ledger_in(&ledger_of(root), keys)
}

/// Verifies the ledger in a folder against public keys.
pub(super) fn verify_ledger_in(folder: &Path, keys: &[[u8; 32]]) -> Result<LedgerReport, String> {
    let report = walk_ledger_in(folder, keys, &|_| {})?;
    match &report.fault {
        None => Ok(report),
        Some(fault) => Err(fault.to_string()),
    }
}
