//! How the arithmetic of embedding is done, and how an encoder is opened for it.

use std::path::{Path, PathBuf};

use encoder::Precision;
use kernels::Kernels;

use crate::embed::Embedder;
use crate::model;
use crate::model::{ModelRequest, Progress, Sha256};
use crate::model_file::KnownModel;
use recalld_fs_util::start_error::{StartError, failed};

/// How the arithmetic of embedding is done, whatever the model.
#[derive(Debug, Clone, Copy)]
pub struct Encoding {
    /// At which level.
    pub kernels: Kernels,
    /// With which form of the weights.
    pub precision: Precision,
    /// Threads that a batch may use.
    pub threads: usize,
}

impl Encoding {
    /// The fastest level of this CPU, the precision that goes with it, and a thread for each core.
    pub fn detect() -> Self {
        let kernels = Kernels::detect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { kernels, precision: encoder::default_precision(kernels), threads }
    }
}

/// An encoder, and the folder that its files are in.
pub struct OpenedModel {
    /// The opened encoder.
    pub embedder: Embedder,
    /// The model and the folder of its files.
    pub known: KnownModel,
    /// SHA-256 of its `model.safetensors`.
    pub weights_sha256: Sha256,
}

/// The model in a folder, or the default one, with the places that this process's environment names.
pub fn model_request(directory: Option<PathBuf>) -> ModelRequest {
    ModelRequest::from_variables(directory, &|name| std::env::var_os(name))
}

/// Opens the model in a folder; without one the default model, wherever it is found.
pub fn open_model(
    directory: Option<&Path>,
    encoding: Encoding,
    progress: &mut dyn Progress,
) -> Result<OpenedModel, StartError> {
    open_request(&model_request(directory.map(Path::to_owned)), encoding, progress)
}

/// The same, wherever a request has it looked for.
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

/// Set in the environment, it has every step of embedding said on standard error, for tests that kill
/// the process and then want to know what it did.
const TELL_EMBEDDING: &str = "RECALLD_TELL_EMBEDDING";
