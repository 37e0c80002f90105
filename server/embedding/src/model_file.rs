//! Model state file: the directories of a store's models, `model.json` in the data directory (`format-spec/model.md`).
//!
//! The model of a store is defined by the store's manifest, not by this file.

use std::fs;
use std::path::{Path, PathBuf};

use engine::{Model, hex};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model::hex_digest;
use recalld_fs_util::copies;

/// File name in the data directory.
pub const FILE: &str = "model.json";
const VERSION: u64 = 1;
/// Maximum number of recorded models; the least recently used model is dropped first.
const MODELS_MAX: usize = 8;
/// Maximum size of the file in bytes: for each model the longest path of the system, escaped, with room to spare.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// A model, and the directory of its files at the last use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownModel {
    /// The fingerprint and dimensions of the model.
    pub model: Model,
    /// The display name.
    pub name: String,
    /// The model's directory; absolute in the file.
    pub directory: PathBuf,
}

/// A model's entry in the file, and in reports.
#[derive(Debug, Serialize, Deserialize)]
pub struct ModelEntry {
    /// Width of the model's vectors.
    pub dimensions: u32,
    /// The model's directory; `None` if the path is not UTF-8.
    pub directory: Option<String>,
    /// The model's fingerprint, in hexadecimal.
    pub fingerprint: String,
    /// The display name.
    pub name: String,
}

impl KnownModel {
    /// The model's entry in the file.
    pub fn entry(&self) -> ModelEntry {
        ModelEntry {
            dimensions: self.model.dimensions,
            directory: self.directory.to_str().map(str::to_owned),
            fingerprint: hex(&self.model.fingerprint),
            name: self.name.clone(),
        }
    }

    fn of_json(said: &Value) -> Option<Self> {
        let entry = ModelEntry::deserialize(said).ok()?;
        let fingerprint = hex_digest(&entry.fingerprint)?;
        let directory = PathBuf::from(entry.directory?);
        let model = Model { fingerprint, dimensions: entry.dimensions };
        directory.is_absolute().then_some(Self { model, name: entry.name, directory })
    }
}

/// Reason for which the list of models is unavailable.
#[derive(Debug)]
enum ReadError {
    /// The file violates MOD-01: its content is useless and may be overwritten.
    Broken(String),
    /// The file may be valid: reading failed, or a newer build wrote the file.
    Unread(String),
}

impl ReadError {
    fn into_text(self) -> String {
        match self {
            Self::Broken(why) | Self::Unread(why) => why,
        }
    }
}

/// The recorded directory of a model, if any.
pub fn find(data: &Path, model: Model) -> Result<Option<KnownModel>, String> {
    let models = read(data).map_err(ReadError::into_text)?;
    Ok(models.into_iter().find(|known| known.model == model))
}

/// Records a model as the most recently used. If the list is full, the oldest model other than `own` (the store's) is
/// dropped. The change is durable on return.
pub fn remember(data: &Path, known: &KnownModel, own: Option<Model>) -> Result<(), String> {
    let file = data.join(FILE);
    let directory = std::path::absolute(&known.directory).map_err(copies::at(&known.directory))?;
    if directory.to_str().is_none() {
        return Err(format!("{} is not UTF-8, which paths must be", directory.display()));
    }
    let known = KnownModel { directory, ..known.clone() };
    let before = match read(data) {
        Ok(before) => before,
        // An invalid file has no usable content, and its models are found again.
        Err(ReadError::Broken(_)) => Vec::new(),
        Err(ReadError::Unread(why)) => return Err(why),
    };
    let mut after = before.clone();
    after.retain(|other| other.model != known.model);
    after.insert(0, known);
    if after.len() > MODELS_MAX {
        let oldest = after.iter().rposition(|other| Some(other.model) != own);
        after.remove(oldest.expect("only one of several models is the store's"));
    }
    if after == before {
        return Ok(());
    }
    let models: Vec<ModelEntry> = after.iter().map(KnownModel::entry).collect();
    let text = format!("{:#}\n", json!({"version": VERSION, "models": models}));
    copies::put(&file, text.as_bytes()).map_err(copies::at(&file))
}

fn read(data: &Path) -> Result<Vec<KnownModel>, ReadError> {
    let file = data.join(FILE);
    let broken = |why: &str| {
        let file = file.display();
        let remedy = "start with --model DIR, which writes it anew";
        Err(ReadError::Broken(format!("MOD-01: {file}: {why}; {remedy}")))
    };
    let unread = |error| ReadError::Unread(copies::at(&file)(error));
    match fs::metadata(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unread(error)),
        Ok(about) if about.len() > FILE_BYTES_MAX => {
            return broken(&format!("more than {FILE_BYTES_MAX} bytes"));
        }
        Ok(_) => {}
    }
    let text = fs::read(&file).map_err(unread)?;
    let said: Value = serde_json::from_slice(&text).unwrap_or_default();
    if said["version"].as_u64().is_some_and(|version| version > VERSION) {
        let why = "a newer build wrote it; use that build";
        return Err(ReadError::Unread(format!("MOD-01: {}: {why}", file.display())));
    }
    let models = said["models"].as_array().filter(|_| said["version"] == VERSION);
    let models: Option<Vec<KnownModel>> =
        models.and_then(|models| models.iter().map(KnownModel::of_json).collect());
    match models {
        Some(models) if models.len() <= MODELS_MAX => Ok(models),
        _ => broken("is not a list of models"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(n: u8, directory: &str) -> KnownModel {
        let model = Model { fingerprint: [n; 32], dimensions: 8 };
        KnownModel { model, name: format!("model {n}"), directory: PathBuf::from(directory) }
    }

    #[test]
    fn models_are_found_by_their_fingerprints() {
        let folder = std::env::temp_dir().join(format!("recalld-model-{}", std::process::id()));
        let (one, two) = (known(1, "/one"), known(0xAB, "/two \u{e9}"));
        assert_eq!(find(&folder, one.model).unwrap(), None, "no file yet");
        remember(&folder, &one, None).unwrap();
        remember(&folder, &two, None).unwrap();
        assert_eq!(find(&folder, one.model).unwrap(), Some(one.clone()));
        assert_eq!(find(&folder, two.model).unwrap(), Some(two.clone()));
        let wider = Model { dimensions: 9, ..one.model };
        assert_eq!(find(&folder, wider).unwrap(), None);
        remember(&folder, &known(1, "/moved"), None).unwrap();
        assert_eq!(find(&folder, one.model).unwrap(), Some(known(1, "/moved")));
        assert_eq!(read(&folder).unwrap().len(), 2);
        for n in 2..20 {
            remember(&folder, &known(n, "/many"), Some(one.model)).unwrap();
        }
        assert_eq!(find(&folder, one.model).unwrap(), Some(known(1, "/moved")), "the store's own");
        assert_eq!(read(&folder).unwrap().len(), MODELS_MAX);
        assert_eq!(read(&folder).unwrap()[0], known(19, "/many"), "the last one first");
        for broken in [
            "",
            "{}",
            r#"{"version": 0, "models": []}"#,
            r#"{"version": 1, "models": [{"fingerprint": "00", "dimensions": 8}]}"#,
        ] {
            fs::write(folder.join(FILE), broken).unwrap();
            assert!(find(&folder, one.model).unwrap_err().contains("MOD-01"), "{broken}");
        }
        let long = " ".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
        fs::write(folder.join(FILE), long).unwrap();
        assert!(read(&folder).unwrap_err().into_text().contains("MOD-01"));
        remember(&folder, &one, None).unwrap();
        assert_eq!(find(&folder, one.model).unwrap(), Some(one.clone()), "written anew");
        // A file that may be valid is not overwritten: the file of a newer build, or an unreadable one.
        let newer = r#"{"version": 2, "models": []}"#;
        fs::write(folder.join(FILE), newer).unwrap();
        assert!(find(&folder, one.model).unwrap_err().contains("newer build"));
        assert!(remember(&folder, &two, None).unwrap_err().contains("newer build"));
        assert_eq!(fs::read_to_string(folder.join(FILE)).unwrap(), newer);
        fs::remove_file(folder.join(FILE)).unwrap();
        fs::create_dir(folder.join(FILE)).unwrap();
        assert!(remember(&folder, &two, None).unwrap_err().contains(FILE));
        assert!(folder.join(FILE).is_dir());
        fs::remove_dir_all(&folder).unwrap();
    }
}
