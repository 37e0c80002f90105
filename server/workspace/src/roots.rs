//! Allowed roots: folders that the operator ingested at least once, listed in the data directory.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use recalld_fs_util::roots::Roots;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

const FILE: &str = "roots.json";

/// Opens the listed folders that exist now. A missing folder, such as one on an unmounted disk, stays in the list.
pub fn kept(data: &Path) -> Result<Roots, String> {
    let mut there = Vec::new();
    for folder in listed(data)? {
        match Roots::open(std::slice::from_ref(&folder)) {
            Ok(_) => there.push(folder),
            Err(error) => {
                let fields =
                    [("folder", Value::Text(&folder.display())), ("error", Value::Text(&error))];
                log::event(Level::Warn, "a folder is left out for now", &fields);
            }
        }
    }
    Roots::open(&there).map_err(|error| format!("{}: {error}", data.join(FILE).display()))
}

fn listed(data: &Path) -> Result<Vec<PathBuf>, String> {
    let file = data.join(FILE);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("could not read {}: {error}", file.display())),
    };
    serde_json::from_str(&text)
        .map_err(|error| format!("{} is not a list of paths: {error}; mend it", file.display()))
}

/// Adds the folders of `paths` to the roots. For a single file, its folder is added for this job only, so that naming a
/// file does not permanently expose its neighbours.
pub fn with(roots: &Roots, paths: &[String]) -> Result<Roots, String> {
    let folders = paths.iter().map(|path| folder_of(Path::new(path))).collect::<Result<_, _>>()?;
    let known = roots.paths().map(PathBuf::from).collect();
    Roots::open(&union(known, folders)).map_err(|error| error.to_string())
}

/// Adds the folders among `paths` to the list for later starts.
pub fn keep(data: &Path, paths: &[String]) -> Result<(), String> {
    let before = listed(data)?;
    let folders: Vec<PathBuf> =
        paths.iter().map(PathBuf::from).filter(|path| path.is_dir()).collect();
    let after = union(before.clone(), folders);
    if after == before {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(&after).map_err(|error| error.to_string())?;
    let (file, fresh) = (data.join(FILE), data.join("roots.json.new"));
    let written = File::create(&fresh)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&fresh, &file));
    written.map_err(|error| format!("could not write {}: {error}", file.display()))
}

/// Union of both lists, without folders below another folder of the list.
fn union(mut known: Vec<PathBuf>, more: Vec<PathBuf>) -> Vec<PathBuf> {
    for folder in more {
        if !known.iter().any(|outer| folder.starts_with(outer)) {
            known.retain(|inner| !inner.starts_with(&folder));
            known.push(folder);
        }
    }
    known
}

/// The path itself if it is a folder, otherwise the folder of the file.
fn folder_of(path: &Path) -> Result<PathBuf, String> {
    let there = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    if there.is_dir() {
        return Ok(there);
    }
    there.parent().map(Path::to_owned).ok_or_else(|| format!("{} has no folder", path.display()))
}
