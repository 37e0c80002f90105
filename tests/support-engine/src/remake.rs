//! Manifests recomputed for files that a test has changed, as a bug of another program would leave them.

use sha2::{Digest, Sha256};

use crate::memory_disk::Files;
use crate::reseal;

/// Updates the newest manifest for the current segments and states: their lengths and hashes, and its own hash.
///
/// # Panics
/// There is no manifest.
pub fn reseal_manifest(files: &mut Files) {
    remake_manifest(files, |_| {});
}

/// Updates the newest manifest as [`reseal_manifest`] does, with further changes.
///
/// # Panics
/// There is no manifest.
pub fn remake_manifest(files: &mut Files, change: impl FnOnce(&mut serde_json::Value)) {
    let name = files.keys().rfind(|name| name.starts_with("manifest-")).expect("a manifest");
    let name = name.clone();
    let text = String::from_utf8(files[&name].clone()).expect("it is text");
    let line = text.lines().next().expect("it has two lines");
    let mut manifest: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
    for entry in manifest["segments"].as_array_mut().expect("a list") {
        let segment = entry["number"].as_u64().expect("a number");
        let file = &files[&format!("segment-{segment:020}")];
        entry["bytes"] = file.len().into();
        entry["sha256"] = engine::hex(&Sha256::digest(file)).into();
        if let Some(generation) = entry["state"]["generation"].as_u64() {
            let file = &files[&format!("state-{segment:020}-{generation:020}")];
            entry["state"]["bytes"] = file.len().into();
            entry["state"]["sha256"] = engine::hex(&Sha256::digest(file)).into();
        }
    }
    change(&mut manifest);
    files.insert(name, reseal::manifest(manifest.to_string().as_bytes()));
}
