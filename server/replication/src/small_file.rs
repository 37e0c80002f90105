//! Small files of a workspace's directory: read whole up to a bound, and replaced atomically.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads a file; `None` if there is none.
///
/// # Errors
/// The file cannot be read or is longer than `bytes_max`; the error has the path.
pub(crate) fn read(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Ok(about) if about.len() > bytes_max => {
            Err(wrong(format!("longer than {bytes_max} bytes")))
        }
        _ => fs::read(path).map(Some).map_err(|error| wrong(error.to_string())),
    }
}

/// Reads a file as JSON; `None` if there is none.
///
/// # Errors
/// The file cannot be read or parsed, or is longer than `bytes_max`; the error has the path.
pub(crate) fn read_json<T: DeserializeOwned>(
    path: &Path,
    bytes_max: u64,
) -> Result<Option<T>, String> {
    let Some(bytes) = read(path, bytes_max)? else { return Ok(None) };
    let said = serde_json::from_slice(&bytes);
    said.map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a file as JSON and checks its format, which `said` returns; `None` if there is no file.
///
/// # Errors
/// The file cannot be read or parsed, is longer than `bytes_max`, or has another format; the error has the path.
pub fn read_noted<T: DeserializeOwned>(
    path: &Path,
    bytes_max: u64,
    (format, said): (&str, fn(&T) -> &str),
) -> Result<Option<T>, String> {
    match read_json(path, bytes_max)? {
        Some(noted) if said(&noted) != format => {
            Err(format!("{}: of another format", path.display()))
        }
        noted => Ok(noted),
    }
}

/// Writes a value as JSON with [`put`]. The value must consist of strings and numbers.
pub(crate) fn put_json(folder: &Path, name: &str, what: &impl Serialize) -> io::Result<()> {
    put(folder, name, &serde_json::to_vec(what)?)
}

/// Writes a file atomically with mode 0600; durable on return. A crash leaves the new or the old content.
///
/// # Errors
/// The file cannot be written.
pub fn put(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let fresh = folder.join(format!("{name}.new"));
    let mut open = File::options();
    let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, folder.join(name))?;
    File::open(folder)?.sync_all()
}
