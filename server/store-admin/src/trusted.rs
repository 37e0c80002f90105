//! The public keys that vouch for a ledger: the signing key's, and those that it had before.
//!
//! A data directory that was restored without its signing key gets a new one; `keys/former.json`
//! keeps the public halves of the old ones (`format-spec/backup.md`). Makes no key.

use std::path::{Path, PathBuf};

use engine::ledger::{Report, VerifyWith, verify_telling};

use recalld_auth::{Credentials, PUBLIC_KEYS_MAX, Verifier, former_keys};
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_fs_util::data_dir::{tenant_dir, workspace_dir};

/// The ledger of a workspace in a data directory.
pub struct LedgerPlace {
    folder: PathBuf,
    /// Where its signing key and the former ones are.
    keys_in: PathBuf,
}

impl LedgerPlace {
    /// `None` where that workspace has none.
    pub fn of(data: &Path, workspace: &str) -> Option<Self> {
        let folder = tenant_dir(data, workspace).join("ledger");
        folder.is_dir().then(|| Self::brought(folder, data, workspace))
    }

    /// A ledger of that workspace that lies elsewhere, as one that came back from a remote.
    pub fn brought(folder: PathBuf, data: &Path, workspace: &str) -> Self {
        // The operator's key is the data directory's own.
        let keys_in = match workspace == LOCAL_WORKSPACE {
            true => data.to_owned(),
            false => tenant_dir(data, workspace),
        };
        Self { folder, keys_in }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The keys that may have signed it.
    ///
    /// # Errors
    /// There is none, or they cannot be read; says which file.
    pub fn verifier(&self) -> Result<Verifier, String> {
        Verifier::new(&self.keys()?).map_err(|error| error.to_string())
    }

    /// The same, as they are published: one at the least.
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

/// The ledger's folder of a data directory or a backup.
pub(super) fn ledger_of(root: &Path) -> PathBuf {
    workspace_dir(root).join("ledger")
}

/// The key that signs now, if there is one, and those that did before.
pub(super) fn trusted_keys(data: &Path, own: Option<[u8; 32]>) -> Result<Vec<[u8; 32]>, String> {
    let mut keys: Vec<[u8; 32]> = own.into_iter().collect();
    keys.extend(former_keys(data).map_err(|error| error.to_string())?);
    keys.truncate(PUBLIC_KEYS_MAX);
    Ok(keys)
}

/// Walks the ledger in a folder, telling how many entries it has met; what is wrong with it is in the report.
pub(super) fn walk_ledger_in(
    folder: &Path,
    keys: &[[u8; 32]],
    tell: &dyn Fn(u64),
) -> Result<Report, String> {
    let seals = Verifier::new(keys).map_err(|error| format!("BAK-01: {error}"))?;
    verify_telling(folder, &VerifyWith::whole(&seals), tell).map_err(|error| error.to_string())
}

/// Verifies a copied ledger against public keys.
pub(super) fn verify_ledger(root: &Path, keys: &[[u8; 32]]) -> Result<Report, String> {
    verify_ledger_in(&ledger_of(root), keys)
}

/// The same, of any ledger's folder.
pub(super) fn verify_ledger_in(folder: &Path, keys: &[[u8; 32]]) -> Result<Report, String> {
    let report = walk_ledger_in(folder, keys, &|_| {})?;
    match &report.fault {
        None => Ok(report),
        Some(fault) => Err(fault.to_string()),
    }
}
