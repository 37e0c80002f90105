//! Public keys of retired signing keys: `keys/former.json` (format-spec/backup.md).

use std::io::ErrorKind;
use std::path::Path;

use engine::hex;
use serde_json::{Value, json};

use recalld_common::secret::Random;
use recalld_fs_util::private_file;
use recalld_fs_util::private_file_error::CredentialsError;

/// Path of the file, relative to the workspace directory.
pub const FORMER_KEYS: &str = "keys/former.json";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of public keys that may have signed a ledger.
    pub const PUBLIC_KEYS_MAX: usize = 64;
}

/// A JSON array of the keys in hexadecimal.
pub fn keys_to_json(keys: &[[u8; 32]]) -> Value {
    keys.iter().map(|key| hex(key)).collect()
}

/// Parses a JSON array of hexadecimal keys; `None` if malformed or longer than [`PUBLIC_KEYS_MAX`].
pub fn keys_of_json(said: &Value) -> Option<Vec<[u8; 32]>> {
    let keys = said.as_array().filter(|keys| keys.len() <= PUBLIC_KEYS_MAX)?;
    keys.iter().map(|key| bytes_of_hex(key.as_str()?)).collect()
}

/// Decodes 64 hexadecimal digits to 32 bytes.
pub fn bytes_of_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    for (at, byte) in bytes.iter_mut().enumerate().filter(|_| is_hex) {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    is_hex.then_some(bytes)
}

/// The retired keys of a directory; empty without a file.
///
/// # Errors
/// The file cannot be read, or is not a list of keys.
pub fn former_keys(folder: &Path) -> Result<Vec<[u8; 32]>, CredentialsError> {
    let path = folder.join(FORMER_KEYS);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(CredentialsError::disk("read", &path, error)),
    };
    let said: Value = serde_json::from_slice(&text).unwrap_or_default();
    keys_of_json(&said["public_keys"]).ok_or_else(|| CredentialsError::Malformed {
        path,
        why: "it is not a list of keys".to_owned(),
    })
}

/// Replaces the list of retired keys of a directory.
pub fn put_former(
    folder: &Path,
    keys: &[[u8; 32]],
    random: &mut Random<'_>,
) -> Result<(), CredentialsError> {
    let path = folder.join(FORMER_KEYS);
    path.parent().map_or(Ok(false), private_file::make_folder)?;
    let former = json!({"public_keys": keys_to_json(keys)});
    private_file::replace(&path, &format!("{former:#}\n"), random)
}
