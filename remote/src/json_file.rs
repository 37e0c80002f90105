//! Small files of JSON that are put in place whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest file that is read.
const JSON_FILE_BYTES_MAX: u64 = 4 << 10;

/// What a file says; `None` where there is none.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let bytes = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(about) if about.len() > JSON_FILE_BYTES_MAX => {
            return Err(wrong(format!("longer than {JSON_FILE_BYTES_MAX} bytes")));
        }
        _ => fs::read(path).map_err(|error| wrong(error.to_string()))?,
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(error.to_string()))
}

/// Puts a file in place: a crash leaves this or what was there before.
pub(crate) fn put_in_place(folder: &Path, name: &str, what: &impl Serialize) -> io::Result<()> {
    let fresh = folder.join(format!("{name}.new"));
    let mut open = File::options();
    let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(what)?)?;
    file.sync_all()?;
    fs::rename(&fresh, folder.join(name))?;
    File::open(folder)?.sync_all()
}
