//! Arithmetic settings of embedding, and opening an encoder with them.

use std::path::{Path, PathBuf};

use encoder::Precision;
use kernels::Kernels;

use crate::embed::Embedder;
use crate::model;
use crate::model::{ModelRequest, Progress, Sha256};
use crate::model_file::KnownModel;
use recalld_fs_util::start_error::{StartError, failed};

/// Arithmetic settings of embedding, independent of the model.
#[derive(Debug, Clone, Copy)]
pub struct Encoding {
    /// The instruction set level.
    pub kernels: Kernels,
    /// The precision of the weights.
    pub precision: Precision,
    /// Maximum number of threads of one batch.
    pub threads: usize,
}

impl Encoding {
    /// The fastest level of this CPU, the precision for that level, and one thread for each core.
    pub fn detect() -> Self {
        let kernels = Kernels::detect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { kernels, precision: encoder::default_precision(kernels), threads }
    }
}

/// An encoder and the directory of its files.
pub struct OpenedModel {
    /// The opened encoder.
    pub embedder: Embedder,
    /// The model and the folder of its files.
    pub known: KnownModel,
    /// SHA-256 of the model's `model.safetensors`.
    pub weights_sha256: Sha256,
}

/// Request for the model in `directory`, or for the default model; cache, hub and package come from the environment.
pub fn model_request(directory: Option<PathBuf>) -> ModelRequest {
    ModelRequest::from_variables(directory, &|name| std::env::var_os(name))
}

/// Opens the model in `directory`; without a directory, the default model from the first source that has it.
pub fn open_model(
    directory: Option<&Path>,
    encoding: Encoding,
    progress: &mut dyn Progress,
) -> Result<OpenedModel, StartError> {
    open_request(&model_request(directory.map(Path::to_owned)), encoding, progress)
}

/// Opens the model of a request.
pub fn open_request(
    request: &ModelRequest,
    encoding: Encoding,
    progress: &mut dyn Progress,
) -> Result<OpenedModel, StartError> {
    let Encoding { kernels, precision, threads } = encoding;
    let files = model::open(request, kernels, precision, progress).map_err(failed)?;
    let folder = files.dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = match folder {
        Some(folder) if files.weights_sha256 != request.expected.weights => folder,
        _ => request.name.clone(),
    };
    let weights_sha256 = files.weights_sha256;
    let embedder = Embedder::new(files.encoder, name, threads);
    let is_telling = std::env::var_os(TELL_EMBEDDING).is_some();
    let embedder = if is_telling { embedder.telling() } else { embedder };
    let known = KnownModel {
        model: embedder.model(),
        name: embedder.name().to_owned(),
        directory: files.dir,
    };
    Ok(OpenedModel { embedder, known, weights_sha256 })
}

/// If this environment variable is set, every embedding step is logged on standard error. For tests that kill the
/// process and then need to know the steps taken.
const TELL_EMBEDDING: &str = "RECALLD_TELL_EMBEDDING";
