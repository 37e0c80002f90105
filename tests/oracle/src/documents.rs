//! The documents and sources of this repository, as texts.

use std::path::Path;

use crate::Outcome;

/// Folders of generated or third-party files.
const PASSED_OVER: [&str; 5] = ["target", ".git", "corpus", "artifacts", "__pycache__"];
const KINDS: [&str; 4] = ["md", "rs", "py", "jsonl"];

/// Reads all documents.
pub fn read() -> Outcome<Vec<String>> {
    let mut texts = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut texts)?;
    if texts.len() < 50 {
        return Err(format!("only {} documents were found", texts.len()).into());
    }
    Ok(texts)
}

fn walk(folder: &Path, texts: &mut Vec<String>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if !PASSED_OVER.iter().any(|name| path.ends_with(name)) {
                walk(&path, texts)?;
            }
        } else if KINDS.iter().any(|kind| path.extension().is_some_and(|found| found == *kind)) {
            let bytes = std::fs::read(&path);
            let bytes = bytes.map_err(|error| format!("{}: {error}", path.display()))?;
            texts.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(())
}
