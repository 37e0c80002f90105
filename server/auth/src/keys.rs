//! Operator credentials of the workspace `local`, and the signing key: created at first start, read afterwards.
//!
//! Both `keys/signing.key` and `credentials.toml` of the data directory are written once. The only exception: the
//! signing key is replaced by the signing key shared by all nodes.

use recalld_common::slug::LOCAL_WORKSPACE;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use super::check::{Checker, Principal, is_token68};
use super::cluster_secret::ClusterSecret;
use super::former::{PUBLIC_KEYS_MAX, former_keys, put_former};
use super::signing::Signer;
use recalld_common::secret::{Random, Secret};
use recalld_fs_util::private_file;
use recalld_fs_util::private_file_error::CredentialsError;

const CREDENTIALS_NAME: &str = "credentials.toml";
const KEYS_FOLDER: &str = "keys";
const SIGNING_KEY_NAME: &str = "signing.key";
/// Maximum size of either file in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024;
/// Maximum length of one credential in bytes.
const CREDENTIAL_BYTES_MAX: usize = 512;
const PREFIX_BYTES_MAX: usize = 32;

/// Prefix of new keys; `recalld` unless configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// A lower-case letter, then at most 31 lower-case letters and digits; `None` for other text.
    pub fn new(text: &str) -> Option<Self> {
        let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        let goes_on = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        (starts && goes_on && text.len() <= PREFIX_BYTES_MAX).then(|| Self(text.to_owned()))
    }

    /// The prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("recalld".to_owned())
    }
}

/// Flags for the files that were created because they were missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// True if the data directory was created.
    pub folder: bool,
    /// True if the signing key was created.
    pub signing_key: bool,
    /// True if the credentials file was created.
    pub credentials: bool,
}

/// The secrets of this installation. Should be dropped after [`Credentials::checker`] and [`Credentials::signer`],
/// which return all that a server needs.
pub struct Credentials {
    gateway_client_id: Secret,
    gateway_client_secret: Secret,
    bearer: Secret,
    signer: Signer,
}

/// The secrets printed by `credentials show`. Each field must be exposed explicitly, so none is printed by accident.
pub struct Shown<'a> {
    /// Value of the header `x-gateway-client-id`.
    pub gateway_client_id: &'a Secret,
    /// Value of the header `x-gateway-client-secret`.
    pub gateway_client_secret: &'a Secret,
    /// The token after `Authorization: Bearer`.
    pub bearer: &'a Secret,
}

impl Credentials {
    /// Opens the credentials of `data_dir`. Creates a missing directory, signing key or credentials file, with new keys
    /// starting with `prefix`. Existing files are never written.
    pub fn open_or_create(
        data_dir: &Path,
        prefix: &Prefix,
        random: &mut Random<'_>,
    ) -> Result<(Self, Created), CredentialsError> {
        let folder = private_file::make_folder(data_dir)?;
        let (signer, signing_key) = open_or_create_signing_key(data_dir, random)?;

        let path = data_dir.join(CREDENTIALS_NAME);
        let (text, credentials) = open_or_create(&path, |random| new_text(prefix, random), random)?;
        Ok((Self::read(&path, &text, signer)?, Created { folder, signing_key, credentials }))
    }

    /// Reads the signing key of a data directory; `None` if missing. Creates nothing.
    pub fn signing_key(data_dir: &Path) -> Result<Option<Signer>, CredentialsError> {
        let path = data_dir.join(KEYS_FOLDER).join(SIGNING_KEY_NAME);
        let text = private_file::read(&path, FILE_BYTES_MAX)?;
        text.map(|text| read_seed(&path, &text)).transpose()
    }

    /// Parses a credentials file.
    fn read(path: &Path, text: &str, signer: Signer) -> Result<Self, CredentialsError> {
        let malformed = |why: String| CredentialsError::Malformed { path: path.to_owned(), why };
        // The parser's own message is dropped: it would quote the faulty line with its secret.
        let mut table: toml::Table =
            text.parse().map_err(|_| malformed("it is not TOML".into()))?;
        let mut take = |name: &str| match table.remove(name) {
            Some(toml::Value::String(text)) => {
                let secret = Secret::new(text);
                let bytes = secret.expose().as_bytes();
                let fits = bytes.len() <= CREDENTIAL_BYTES_MAX && is_token68(bytes);
                fits.then_some(secret).ok_or_else(|| {
                    malformed(format!(
                        "`{name}` must be 1 to {CREDENTIAL_BYTES_MAX} of A-Z a-z 0-9 - . _ ~ + /"
                    ))
                })
            }
            Some(_) => Err(malformed(format!("`{name}` must be a text in quotes"))),
            None => Err(malformed(format!("`{name}` is missing"))),
        };
        let workspace = take("workspace")?;
        if workspace.expose() != LOCAL_WORKSPACE {
            return Err(malformed(format!("`workspace` must be \"{LOCAL_WORKSPACE}\"")));
        }
        let credentials = Self {
            gateway_client_id: take("gateway_client_id")?,
            gateway_client_secret: take("gateway_client_secret")?,
            bearer: take("bearer")?,
            signer,
        };
        match table.keys().next() {
            Some(name) => Err(malformed(format!("`{name}` is not a setting of this file"))),
            None => Ok(credentials),
        }
    }

    /// The checker of requests, with hashes only.
    pub fn checker(&self) -> Checker {
        let principal = Principal {
            workspace: LOCAL_WORKSPACE.to_owned(),
            name: "operator".to_owned(),
            plan: "operator".to_owned(),
        };
        Checker {
            gateway_client_id: self.gateway_client_id.hash(),
            gateway_client_secret: self.gateway_client_secret.hash(),
            bearer: self.bearer.hash(),
            principal,
        }
    }

    /// The signing key of the service.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// The secrets in clear text, for the operator.
    pub fn show(&self) -> Shown<'_> {
        Shown {
            gateway_client_id: &self.gateway_client_id,
            gateway_client_secret: &self.gateway_client_secret,
            bearer: &self.bearer,
        }
    }
}

/// Opens the signing key `keys/signing.key` of a directory, or creates the key if missing. The bool is true if created.
pub fn open_or_create_signing_key(
    folder: &Path,
    random: &mut Random<'_>,
) -> Result<(Signer, bool), CredentialsError> {
    let keys = folder.join(KEYS_FOLDER);
    private_file::make_folder(&keys)?;
    let path = keys.join(SIGNING_KEY_NAME);
    let (text, is_new) = open_or_create(&path, seed_text, random)?;
    Ok((read_seed(&path, &text)?, is_new))
}

/// Installs the signing key that all nodes derive from `secret` for `workspace`. If a different key exists, its public
/// half is added to `keys/former.json`, to verify earlier signatures.
///
/// # Errors
/// I/O and format errors; the signing key is then unchanged.
pub fn take_shared_signing_key(
    folder: &Path,
    workspace: &str,
    secret: &ClusterSecret,
    random: &mut Random<'_>,
) -> Result<(), CredentialsError> {
    let shared = secret.signing_seed(workspace);
    if let Some(own) = Credentials::signing_key(folder)? {
        if own.public() == Signer::from_seed(&shared).public() {
            return Ok(());
        }
        let mut former = vec![own.public()];
        former.extend(former_keys(folder)?.into_iter().filter(|key| *key != own.public()));
        former.truncate(PUBLIC_KEYS_MAX);
        // Written before the new key: after a crash, every earlier signature can still be verified.
        put_former(folder, &former, random)?;
    }
    private_file::make_folder(folder)?;
    let keys = folder.join(KEYS_FOLDER);
    private_file::make_folder(&keys)?;
    private_file::replace(&keys.join(SIGNING_KEY_NAME), &text_of_seed(&shared), random)
}

/// Reads the private file at `path`, or creates the file with the text of `make`. The bool is true if created.
fn open_or_create(
    path: &Path,
    make: impl FnOnce(&mut Random<'_>) -> Zeroizing<String>,
    random: &mut Random<'_>,
) -> Result<(Zeroizing<String>, bool), CredentialsError> {
    if let Some(text) = private_file::read(path, FILE_BYTES_MAX)? {
        return Ok((text, false));
    }
    let text = make(random);
    if private_file::create(path, &text, random)? {
        return Ok((text, true));
    }
    // Another process created the file first; its content is used.
    let theirs = private_file::read(path, FILE_BYTES_MAX)?;
    let gone = || CredentialsError::disk("open", path, io::ErrorKind::NotFound.into());
    Ok((theirs.ok_or_else(gone)?, false))
}

/// Text of a new signing key file: 32 random bytes in base64url, and a line end.
fn seed_text(random: &mut Random<'_>) -> Zeroizing<String> {
    let mut seed = Zeroizing::new([0; 32]);
    random(&mut *seed);
    text_of_seed(&seed)
}

fn text_of_seed(seed: &[u8; 32]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(BASE64_URL_SAFE_NO_PAD.encode(seed));
    text.push('\n');
    text
}

fn read_seed(path: &Path, text: &str) -> Result<Signer, CredentialsError> {
    let mut seed = Zeroizing::new([0; 32]);
    let line = text.strip_suffix('\n').unwrap_or(text);
    match BASE64_URL_SAFE_NO_PAD.decode_slice(line, &mut *seed) {
        Ok(32) => Ok(Signer::from_seed(&seed)),
        _ => Err(CredentialsError::Malformed {
            path: path.to_owned(),
            why: "a signing key is 32 bytes in base64url: 43 characters and a line end".into(),
        }),
    }
}

/// Text of a new credentials file. Formatted without a TOML writer: keys are base 62, so nothing needs quoting.
fn new_text(Prefix(prefix): &Prefix, random: &mut Random<'_>) -> Zeroizing<String> {
    let id = Secret::generate(&format!("{prefix}_gw_"), random);
    let secret = Secret::generate(&format!("{prefix}_gws_"), random);
    let bearer = Secret::generate(&format!("{prefix}_pat_"), random);
    Zeroizing::new(format!(
        "# Credentials of the workspace on this machine. Whoever reads them can use it.\n\
         workspace = \"{LOCAL_WORKSPACE}\"\n\
         gateway_client_id = \"{}\"\n\
         gateway_client_secret = \"{}\"\n\
         bearer = \"{}\"\n",
        id.expose(),
        secret.expose(),
        bearer.expose()
    ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::Bearer;
    use super::*;

    /// A temporary directory, removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            static NEXT: AtomicU64 = AtomicU64::new(0);
            let name = format!(
                "keys-test-{}-{}",
                std::process::id(),
                NEXT.fetch_add(1, Ordering::Relaxed)
            );
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn data(&self) -> PathBuf {
            self.0.join("state/recalld")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A deterministic generator with different bytes on each call.
    fn counting() -> impl FnMut(&mut [u8]) {
        let mut next = 0u8;
        move |out| {
            for byte in out {
                next = next.wrapping_mul(5).wrapping_add(113);
                *byte = next;
            }
        }
    }

    fn open(data: &Path) -> Result<(Credentials, Created), CredentialsError> {
        Credentials::open_or_create(data, &Prefix::default(), &mut counting())
    }

    fn error(data: &Path) -> String {
        open(data).err().expect("refused").to_string()
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn first_start_makes_everything_private_and_later_starts_change_nothing() {
        let folder = Folder::new();
        let data = folder.data();
        let (first, created) = open(&data).unwrap();
        assert_eq!(created, Created { folder: true, signing_key: true, credentials: true });
        assert_eq!((mode(&data), mode(&data.join("keys"))), (0o700, 0o700));
        assert_eq!(
            (mode(&data.join("credentials.toml")), mode(&data.join("keys/signing.key"))),
            (0o600, 0o600)
        );
        let text = std::fs::read_to_string(data.join("credentials.toml")).unwrap();
        assert!(first.show().bearer.expose().starts_with("recalld_pat_"));
        assert_eq!(first.show().bearer.expose().len(), "recalld_pat_".len() + 43);
        let names = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
        assert_eq!(
            (names(&data), names(&data.join("keys"))),
            (2, 1),
            "nothing is left beside the files"
        );

        let mut other = |out: &mut [u8]| out.fill(9);
        let (second, created) =
            Credentials::open_or_create(&data, &Prefix::new("brain").unwrap(), &mut other).unwrap();
        assert_eq!(created, Created { folder: false, signing_key: false, credentials: false });
        assert_eq!(std::fs::read_to_string(data.join("credentials.toml")).unwrap(), text);
        assert_eq!(second.signer().public(), first.signer().public());
        assert_eq!(second.show().bearer.expose(), first.show().bearer.expose());
    }

    #[test]
    fn the_checker_knows_its_own_credentials_and_no_others() {
        let folder = Folder::new();
        let (credentials, _) = open(&folder.data()).unwrap();
        let (checker, shown) = (credentials.checker(), credentials.show());
        let (id, secret) = (shown.gateway_client_id.expose(), shown.gateway_client_secret.expose());
        assert!(checker.gateway(id.as_bytes(), secret.as_bytes()));
        assert!(!checker.gateway(secret.as_bytes(), id.as_bytes()));
        let header = format!("Bearer {}", shown.bearer.expose());
        assert!(matches!(checker.bearer(Some(header.as_bytes())), Bearer::Ok(_)));
        assert_eq!(checker.bearer(Some(format!("Bearer {secret}").as_bytes())), Bearer::Wrong);
    }

    #[test]
    fn what_others_can_read_is_refused_with_the_command_that_helps() {
        let folder = Folder::new();
        let data = folder.data();
        open(&data).unwrap();
        for (name, wanted) in
            [("credentials.toml", 0o600), ("keys/signing.key", 0o600), ("keys", 0o700), ("", 0o700)]
        {
            let path = if name.is_empty() { data.clone() } else { data.join(name) };
            for bad in
                [0o640, 0o604, 0o666].map(|bits| if wanted == 0o700 { bits | 0o122 } else { bits })
            {
                std::fs::set_permissions(&path, Permissions::from_mode(bad)).unwrap();
                let said = error(&data);
                assert!(
                    said.contains(&format!("chmod {wanted:03o} {}", path.display())),
                    "{bad:o}: {said}"
                );
            }
            std::fs::set_permissions(&path, Permissions::from_mode(wanted)).unwrap();
        }
        open(&data).unwrap();
    }

    #[test]
    fn damaged_files_are_refused_kept_and_never_quoted() {
        let folder = Folder::new();
        let data = folder.data();
        open(&data).unwrap();
        let path = data.join("credentials.toml");
        let good = std::fs::read_to_string(&path).unwrap();
        for (from, to, wanted) in [
            ("bearer = ", "bearer = = ", "not TOML"),
            ("bearer = \"", "bearer = \"a b", "`bearer` must be"),
            ("gateway_client_id", "gateway_id", "`gateway_client_id` is missing"),
            ("workspace = \"local\"", "workspace = \"other\"", "`workspace` must be \"local\""),
            ("workspace = \"local\"", "workspace = 3", "must be a text"),
            ("workspace = ", "extra = \"x\"\nworkspace = ", "`extra` is not a setting"),
        ] {
            let bad = good.replacen(from, to, 1);
            std::fs::write(&path, &bad).unwrap();
            let said = error(&data);
            assert!(said.contains(wanted) && !said.contains("recalld_"), "{said}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), bad);
        }
        std::fs::write(&path, "x".repeat(20_000)).unwrap();
        assert!(error(&data).contains("more than 16384 bytes"));
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(error(&data).contains("UTF-8"));
        std::fs::write(&path, &good).unwrap();
        for bad in ["", "AAAA", &"A".repeat(44), &"!".repeat(43)] {
            std::fs::write(data.join("keys/signing.key"), bad).unwrap();
            assert!(error(&data).contains("32 bytes in base64url"), "{bad:?}");
        }
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let folder = Folder::new();
        let path = folder.0.join("file");
        assert!(private_file::create(&path, "first", &mut counting()).unwrap());
        assert!(!private_file::create(&path, "second", &mut counting()).unwrap());
        assert_eq!(private_file::read(&path, 100).unwrap().unwrap().as_str(), "first");
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn a_prefix_is_a_short_lower_case_word() {
        assert_eq!(Prefix::new("recalld"), Some(Prefix::default()));
        for bad in ["", "9a", "Recalld", "a_b", "a b", &"a".repeat(33)] {
            assert_eq!(Prefix::new(bad), None, "{bad:?}");
        }
    }
}
