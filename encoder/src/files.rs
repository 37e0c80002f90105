//! The files of a published model, and reading them from a directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::OpenError;

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const POOLING: &str = "1_Pooling/config.json";
pub(crate) const SENTENCE: &str = "sentence_bert_config.json";

/// Largest settings file. Vocabularies of BERT models are below one MiB.
const SETTINGS_BYTES_MAX: u64 = 64 << 20;
/// Largest weights file: a network 1,024 wide with 24 layers is 1.3 GiB.
const WEIGHTS_BYTES_MAX: u64 = 2 << 30;

/// The bytes of a published model, which can be dropped once the encoder is open.
#[derive(Clone, Copy)]
pub struct ModelFiles<'a> {
    /// `config.json`: the network's shape.
    pub config: &'a [u8],
    /// `tokenizer.json`: the vocabulary and the tokenizer's settings.
    pub tokenizer: &'a [u8],
    /// `model.safetensors`: the weights.
    pub weights: &'a [u8],
    /// `1_Pooling/config.json`: the pooling; the mean if absent.
    pub pooling: Option<&'a [u8]>,
    /// `sentence_bert_config.json`: the token limit; the number of positions if absent.
    pub sentence: Option<&'a [u8]>,
    /// SHA-256 of `weights`, if the caller has just computed it; not verified.
    pub weights_sha256: Option<[u8; 32]>,
}

/// The files of a [`ModelFiles`] without the weights, for packed weights.
#[derive(Clone, Copy)]
pub struct SettingsFiles<'a> {
    /// `config.json`: the network's shape.
    pub config: &'a [u8],
    /// `tokenizer.json`: the vocabulary and the tokenizer's settings.
    pub tokenizer: &'a [u8],
    /// `1_Pooling/config.json`: the pooling; the mean if absent.
    pub pooling: Option<&'a [u8]>,
    /// `sentence_bert_config.json`: the token limit; the number of positions if absent.
    pub sentence: Option<&'a [u8]>,
}

impl<'a> ModelFiles<'a> {
    /// Returns all files but the weights.
    pub fn settings(&self) -> SettingsFiles<'a> {
        let ModelFiles { config, tokenizer, pooling, sentence, .. } = *self;
        SettingsFiles { config, tokenizer, pooling, sentence }
    }
}

pub(crate) struct ModelDirectory {
    config: Vec<u8>,
    tokenizer: Vec<u8>,
    weights: Vec<u8>,
    pooling: Option<Vec<u8>>,
    sentence: Option<Vec<u8>>,
}

impl ModelDirectory {
    /// Reads the five files, of which the last two may be absent.
    pub(crate) fn read(directory: &Path) -> Result<ModelDirectory, OpenError> {
        Ok(ModelDirectory {
            config: read_file(directory, CONFIG, SETTINGS_BYTES_MAX)?,
            tokenizer: read_file(directory, TOKENIZER, SETTINGS_BYTES_MAX)?,
            weights: read_file(directory, WEIGHTS, WEIGHTS_BYTES_MAX)?,
            pooling: read_if_present(directory, POOLING)?,
            sentence: read_if_present(directory, SENTENCE)?,
        })
    }

    pub(crate) fn files(&self) -> ModelFiles<'_> {
        ModelFiles {
            config: &self.config,
            tokenizer: &self.tokenizer,
            weights: &self.weights,
            pooling: self.pooling.as_deref(),
            sentence: self.sentence.as_deref(),
            weights_sha256: None,
        }
    }
}

fn read_if_present(directory: &Path, name: &str) -> Result<Option<Vec<u8>>, OpenError> {
    match read_file(directory, name, SETTINGS_BYTES_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(OpenError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(other) => Err(other),
    }
}

fn read_file(directory: &Path, name: &str, bytes_max: u64) -> Result<Vec<u8>, OpenError> {
    let path = directory.join(name);
    read_at_most(&path, bytes_max).map_err(|error| OpenError::Read { path, error })
}

fn read_at_most(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length > bytes_max {
        let message = format!("it has {length} bytes, more than the {bytes_max} allowed");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // A file may grow while it is read; the bytes that `take` cuts off are detected later as corruption.
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
