//! The files of one model: read once, hashed in the same pass, checked before use.
//!
//! Owns the names and size bounds of the files. Must not know the origin of the directory.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use sha2::{Digest, Sha256 as Hasher};

use super::error::{FileFault, hex};
use super::request::{Expected, Sha256};

/// The shape of the network.
pub(super) const CONFIG: Kind = Kind { name: "config.json", bytes_max: 1 << 20 };
/// The vocabulary and the rules of the tokenizer.
pub(super) const TOKENIZER: Kind = Kind { name: "tokenizer.json", bytes_max: 64 << 20 };
/// The weights. The widest supported encoder (1,024 dimensions, 24 layers, f32) has 1.4 GB of weights.
pub(super) const WEIGHTS: Kind = Kind { name: "model.safetensors", bytes_max: 2 << 30 };
/// Pooling of token vectors; mean pooling if the file is absent.
pub(super) const POOLING: Kind = Kind { name: "1_Pooling/config.json", bytes_max: 1 << 20 };
/// Maximum text length in tokens.
pub(super) const SENTENCE: Kind = Kind { name: "sentence_bert_config.json", bytes_max: 1 << 20 };

/// Hash list that the cache writes beside the files, in the form of `sha256sum`. The small files have no pinned hash,
/// and one changed digit in a config would silently change every vector.
pub(super) const SUMS: Kind = Kind { name: "SHA256SUMS", bytes_max: 4 << 10 };

/// Bytes read and hashed at a time: small enough to be still in the CPU cache when the other thread hashes them.
const PIECE_BYTES: usize = 256 << 10;

/// A kind of file of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    /// Path inside the model's directory.
    pub(super) name: &'static str,
    /// Maximum size in bytes.
    pub(super) bytes_max: u64,
}

/// Source of a model in this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The directory requested by the operator.
    Directory,
    /// The cache, without any network.
    Cache,
    /// The model hub; fetched by this call.
    Hub,
    /// The Python package; fetched by this call.
    Package,
}

/// The checked files of a whole model.
#[derive(Clone, PartialEq, Eq)]
pub struct ModelFiles {
    /// Directory of the files.
    pub dir: PathBuf,
    /// `config.json`, a JSON object.
    pub config: Vec<u8>,
    /// `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// `model.safetensors`.
    pub weights: Vec<u8>,
    /// SHA-256 of `weights`: the fingerprint to which a store is bound.
    pub weights_sha256: Sha256,
    /// SHA-256 of `tokenizer`.
    pub tokenizer_sha256: Sha256,
    /// `1_Pooling/config.json`, a JSON object, if there is one.
    pub pooling: Option<Vec<u8>>,
    /// `sentence_bert_config.json`, a JSON object, if there is one.
    pub sentence: Option<Vec<u8>>,
    /// Source of the model in this call.
    pub origin: Origin,
}

impl ModelFiles {
    /// The files in the encoder's input type.
    pub fn borrowed(&self) -> encoder::ModelFiles<'_> {
        encoder::ModelFiles {
            config: &self.config,
            tokenizer: &self.tokenizer,
            weights: &self.weights,
            pooling: self.pooling.as_deref(),
            sentence: self.sentence.as_deref(),
            weights_sha256: Some(self.weights_sha256),
        }
    }

    /// Compares both hashes with the pinned ones.
    pub(super) fn check(&self, expected: &Expected) -> Result<(), FileFault> {
        expected.check(&self.tokenizer_sha256, &self.weights_sha256)
    }

    /// The text of [`SUMS`] for these files. Models with equal texts are equal.
    pub(super) fn sums(&self) -> String {
        let small = (&self.config, &self.tokenizer_sha256, &self.pooling, &self.sentence);
        sums(small, &self.weights_sha256)
    }
}

/// The files of a model without the weights.
pub(super) struct SmallFiles {
    config: Vec<u8>,
    tokenizer: Vec<u8>,
    tokenizer_sha256: Sha256,
    pooling: Option<Vec<u8>>,
    sentence: Option<Vec<u8>>,
}

impl SmallFiles {
    /// Reads the files. Checks that required files exist, that JSON files are objects, and, if `expected` is set, the
    /// tokenizer's hash.
    pub(super) fn load(dir: &Path, expected: Option<&Expected>) -> Result<Self, FileFault> {
        let required = |kind| read(dir, kind)?.ok_or(FileFault::Missing(kind.name));
        let (config, _) = required(CONFIG)?;
        object(CONFIG, &config)?;
        let (tokenizer, tokenizer_sha256) = required(TOKENIZER)?;
        if let Some(expected) = expected {
            same(TOKENIZER, &expected.tokenizer, &tokenizer_sha256)?;
        }
        let optional = |kind| -> Result<Option<Vec<u8>>, FileFault> {
            let Some((bytes, _)) = read(dir, kind)? else { return Ok(None) };
            object(kind, &bytes)?;
            Ok(Some(bytes))
        };
        let pooling = optional(POOLING)?;
        let sentence = optional(SENTENCE)?;
        Ok(Self { config, tokenizer, tokenizer_sha256, pooling, sentence })
    }

    /// Reads the files of a model installed by the cache; no file may have been changed, added or removed since.
    pub(super) fn load_installed(home: &Path, expected: &Expected) -> Result<Self, FileFault> {
        let found = Self::load(home, Some(expected))?;
        let small = (&found.config, &found.tokenizer_sha256, &found.pooling, &found.sentence);
        check_sums(home, &sums(small, &expected.weights))?;
        Ok(found)
    }

    /// The files in the encoder's input type.
    pub(super) fn borrowed(&self) -> encoder::SettingsFiles<'_> {
        encoder::SettingsFiles {
            config: &self.config,
            tokenizer: &self.tokenizer,
            pooling: self.pooling.as_deref(),
            sentence: self.sentence.as_deref(),
        }
    }

    pub(super) fn tokenizer_sha256(&self) -> &Sha256 {
        &self.tokenizer_sha256
    }
}

/// Config, the tokenizer's hash, pooling and sentence settings.
type Small<'a> = (&'a Vec<u8>, &'a Sha256, &'a Option<Vec<u8>>, &'a Option<Vec<u8>>);

fn sums((config, tokenizer, pooling, sentence): Small<'_>, weights: &Sha256) -> String {
    let of = |bytes: &[u8]| Sha256::from(Hasher::digest(bytes));
    let listed = [
        (CONFIG, Some(of(config))),
        (TOKENIZER, Some(*tokenizer)),
        (WEIGHTS, Some(*weights)),
        (POOLING, pooling.as_deref().map(of)),
        (SENTENCE, sentence.as_deref().map(of)),
    ];
    let line = |(kind, digest): (Kind, Option<Sha256>)| {
        Some(format!("{}  {}\n", hex(&digest?), kind.name))
    };
    listed.into_iter().filter_map(line).collect()
}

/// Compares the hashes of a model's files with the list that the cache wrote beside the files.
fn check_sums(home: &Path, found: &str) -> Result<(), FileFault> {
    let (sums, _) = read(home, SUMS)?.ok_or(FileFault::Missing(SUMS.name))?;
    if sums != found.as_bytes() {
        return Err(FileFault::Altered(SUMS.name));
    }
    Ok(())
}

impl fmt::Debug for ModelFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sizes instead of 90 MB of numbers.
        f.debug_struct("ModelFiles")
            .field("dir", &self.dir)
            .field("origin", &self.origin)
            .field("weights_bytes", &self.weights.len())
            .field("weights_sha256", &hex(&self.weights_sha256))
            .field("tokenizer_sha256", &hex(&self.tokenizer_sha256))
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "directory",
            Self::Cache => "cache",
            Self::Hub => "hub",
            Self::Package => "package",
        })
    }
}

/// Reads the model in `dir` and, if hashes are pinned, compares them. The small files come first, so a directory
/// without a model is rejected before its large file is read.
pub(super) fn load(
    dir: &Path,
    expected: Option<&Expected>,
    origin: Origin,
) -> Result<ModelFiles, FileFault> {
    let SmallFiles { config, tokenizer, tokenizer_sha256, pooling, sentence } =
        SmallFiles::load(dir, expected)?;
    let (weights, weights_sha256) = read(dir, WEIGHTS)?.ok_or(FileFault::Missing(WEIGHTS.name))?;
    if let Some(expected) = expected {
        same(WEIGHTS, &expected.weights, &weights_sha256)?;
    }
    let dir = dir.to_path_buf();
    Ok(ModelFiles {
        dir,
        config,
        tokenizer,
        weights,
        weights_sha256,
        tokenizer_sha256,
        pooling,
        sentence,
        origin,
    })
}

/// As [`load`], for a model installed by the cache; no file may have been changed, added or removed since.
pub(super) fn load_installed(home: &Path, expected: &Expected) -> Result<ModelFiles, FileFault> {
    let found = load(home, Some(expected), Origin::Cache)?;
    check_sums(home, &found.sums())?;
    Ok(found)
}

/// Rejects bytes that are not one JSON object: a truncated file, or the page of a captive portal.
pub(super) fn object(kind: Kind, bytes: &[u8]) -> Result<(), FileFault> {
    match serde_json::from_slice(bytes) {
        Ok(serde_json::Value::Object(_)) => Ok(()),
        _ => Err(FileFault::NotAnObject(kind.name)),
    }
}

/// Rejects a hash that differs from `wanted`.
pub(super) fn same(kind: Kind, wanted: &Sha256, found: &Sha256) -> Result<(), FileFault> {
    if wanted == found {
        return Ok(());
    }
    Err(FileFault::WrongHash { file: kind.name, wanted: *wanted, found: *found })
}

/// SHA-256 of the file at `path`, of any size.
pub(super) fn hash_of(path: &Path) -> io::Result<Sha256> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(count) => hasher.update(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The bytes and the hash of one file; `None` if there is no such file. The returned bytes are the hashed bytes, even
/// if the file changes meanwhile.
fn read(dir: &Path, kind: Kind) -> Result<Option<(Vec<u8>, Sha256)>, FileFault> {
    let Kind { name: file, bytes_max } = kind;
    let unreadable = |error| FileFault::Unreadable { file, error };
    let path = dir.join(file);
    let about = match fs::metadata(&path) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    if !about.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file"))); // a pipe would block us
    }
    if about.len() > bytes_max {
        return Err(FileFault::TooLarge { file, bytes_max });
    }
    let length =
        usize::try_from(about.len()).expect("bounded by the kind, far below an address space");
    let mut bytes = vec![0; length];
    let mut source = File::open(&path).map_err(unreadable)?;
    let digest = fill_and_hash(&mut source, &mut bytes).map_err(unreadable)?;
    Ok(Some((bytes, digest)))
}

/// Fills `bytes` from `source` and hashes them, one piece apart on two threads. Copying 90 MB out of the page cache
/// takes about as long as hashing, and every start waits for both.
fn fill_and_hash(source: &mut File, bytes: &mut [u8]) -> io::Result<Sha256> {
    thread::scope(|scope| {
        let (filled, pieces) = mpsc::channel::<&[u8]>(); // never more entries than the file has pieces
        let hashing = scope.spawn(move || {
            let mut hasher = Hasher::new();
            pieces.iter().for_each(|piece| hasher.update(piece));
            hasher.finalize().into()
        });
        for piece in bytes.chunks_mut(PIECE_BYTES) {
            source.read_exact(piece)?;
            filled.send(piece).expect("the other end listens until this one is dropped");
        }
        drop(filled);
        Ok(hashing.join().expect("hashing bytes in memory does not panic"))
    })
}
