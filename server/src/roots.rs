//! Which folders may be read: those that the operator ever ingested, kept in the data directory.

use std::path::{Path, PathBuf};

use crate::ingest::Roots;

const FILE: &str = "roots.json";

/// The folders in the data directory's list that are still there.
pub(crate) fn kept(data: &Path) -> Result<Vec<PathBuf>, String> {
    let file = data.join(FILE);
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("could not read {}: {error}", file.display())),
    };
    let listed: Vec<PathBuf> = serde_json::from_str(&text)
        .map_err(|error| format!("{} is not a list of paths: {error}", file.display()))?;
    Ok(listed.into_iter().filter(|folder| folder.is_dir()).collect())
}

/// The roots with the folders of `paths` added.
pub(crate) fn with(roots: &Roots, paths: &[String]) -> Result<Roots, String> {
    let mut folders: Vec<PathBuf> = roots.paths().map(PathBuf::from).collect();
    for path in paths {
        let folder = folder_of(Path::new(path))?;
        if !folders.iter().any(|known| folder.starts_with(known)) {
            folders.retain(|known| !known.starts_with(&folder));
            folders.push(folder);
        }
    }
    Roots::open(&folders).map_err(|error| error.to_string())
}

/// A folder itself, or the one that a file is in.
fn folder_of(path: &Path) -> Result<PathBuf, String> {
    let there = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    if there.is_dir() {
        return Ok(there);
    }
    there.parent().map(Path::to_owned).ok_or_else(|| format!("{} has no folder", path.display()))
}

/// Keeps the list for the next start.
pub(crate) fn keep(data: &Path, roots: &Roots) -> Result<(), String> {
    let folders: Vec<&str> = roots.paths().collect();
    let text = serde_json::to_string_pretty(&folders).map_err(|error| error.to_string())?;
    let (file, fresh) = (data.join(FILE), data.join("roots.json.new"));
    let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &file));
    written.map_err(|error| format!("could not write {}: {error}", file.display()))
}
