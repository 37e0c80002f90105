//! The files of this repository, as tests of its sources and documents read them.
//!
//! Must not know what any file has to say.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose content nobody here wrote.
const PASSED_OVER: [&str; 6] =
    ["target", ".git", "corpus", "artifacts", "__pycache__", "node_modules"];

/// The folder of the repository.
///
/// # Panics
/// When this package is in no folder.
pub fn workspace() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    folder.expect("the package is in tests").to_owned()
}

/// Every file of the repository, by its path in it.
///
/// # Panics
/// When a folder cannot be read.
pub fn files() -> BTreeSet<PathBuf> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(folder).expect("folders can be read") {
            let entry = entry.expect("entries can be read");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            if PASSED_OVER.contains(&name.as_str()) {
                continue;
            }
            let path = entry.path();
            if entry.file_type().expect("entries have a type").is_dir() {
                walk(root, &path, found);
            } else {
                found.insert(path.strip_prefix(root).expect("it is beneath").to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&workspace(), &workspace(), &mut found);
    assert!(found.len() > 50, "the walk found {} files only", found.len());
    found
}

/// Every file whose name ends so, with its text.
///
/// # Panics
/// When one cannot be read, or is no text.
pub fn ending(extension: &str) -> Vec<(PathBuf, String)> {
    let of_kind = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    let named = files().into_iter().filter(of_kind);
    named
        .map(|path| {
            let text = fs::read_to_string(workspace().join(&path));
            let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path, text)
        })
        .collect()
}

/// Fails with all faults, if there are any.
///
/// # Panics
/// When there are.
pub fn none(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}
