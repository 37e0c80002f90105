//! The files of this repository, for tests of its sources and documents.
//!
//! This module MUST NOT depend on the contents of a file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of folders with generated or third-party files.
const NAMES_PASSED_OVER: [&str; 4] = ["target", ".git", "__pycache__", "node_modules"];
/// Folders that the fuzzer fills. Source folders may have these names elsewhere.
const PATHS_PASSED_OVER: [&str; 2] = ["fuzz/corpus", "fuzz/artifacts"];

/// Path of the repository.
///
/// # Panics
/// This package is not inside a folder.
pub fn workspace() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    folder.expect("the package is in tests").to_owned()
}

/// All files of the repository, by relative path.
///
/// # Panics
/// A folder is unreadable.
pub fn files() -> BTreeSet<PathBuf> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(folder).expect("folders can be read") {
            let entry = entry.expect("entries can be read");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            let path = entry.path();
            let relative = path.strip_prefix(root).expect("it is beneath");
            if NAMES_PASSED_OVER.contains(&name.as_str())
                || PATHS_PASSED_OVER.iter().any(|passed| relative == Path::new(passed))
            {
                continue;
            }
            if entry.file_type().expect("entries have a type").is_dir() {
                walk(root, &path, found);
            } else {
                found.insert(relative.to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&workspace(), &workspace(), &mut found);
    assert!(found.len() > 50, "the walk found {} files only", found.len());
    found
}

/// All files with this extension, with their text.
///
/// # Panics
/// A file is unreadable, or no text.
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
/// There are faults.
pub fn none(what: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{what}:\n{}", faults.join("\n"));
}
