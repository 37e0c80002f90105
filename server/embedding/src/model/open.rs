//! Opens a model from packed weights if available; otherwise packs the published weights.
//!
//! Owns the decision whether `model.safetensors` has to be read. Packed weights are made of hashed bytes, checked at
//! each opening, and valid only for the hash recorded in the file (`format-spec/weights.md`).

use std::fmt;
use std::path::{Path, PathBuf};

use encoder::{Encoder, OpenError, PackedWeights, Precision, Remedy, SettingsFiles};
use engine::os::disk::FileBytes;
use kernels::Kernels;

use super::error::ModelError;
use super::files::{ModelFiles, SmallFiles};
use super::progress::Progress;
use super::request::{ModelRequest, Sha256};
use super::shelf::{Shelf, Source};
use super::{Cache, ensure};

/// Minimum size of weights whose packing is cached. Packing smaller weights takes no longer than a disk sync, so they
/// are packed on each start.
const KEPT_BYTES_MIN: usize = 1 << 20;

/// An opened model.
pub struct OpenedFiles {
    /// The encoder of texts.
    pub encoder: Encoder,
    /// Directory of the model's files.
    pub dir: PathBuf,
    /// SHA-256 of the model's `model.safetensors`.
    pub weights_sha256: Sha256,
}

/// Reason for which no encoder was opened.
#[derive(Debug)]
pub enum OpenFault {
    /// No model was found.
    Model(ModelError),
    /// The encoder rejects the model's files.
    Encoder {
        /// Directory of the model's files.
        dir: PathBuf,
        /// The encoder's error.
        error: OpenError,
    },
}

impl fmt::Display for OpenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => error.fmt(f),
            Self::Encoder { dir, error } => {
                write!(f, "the model in {}: {error}; {}", dir.display(), advice(error.remedy()))
            }
        }
    }
}

/// Remedy for files that the encoder rejects.
fn advice(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::CheckPath => "check that the file is there and may be read",
        Remedy::ChooseAnother => "choose a BERT-family sentence encoder, by --model DIR",
        Remedy::ChoosePrecision => "start with --precision f32",
        // Damaged packed weights are repacked automatically; an error reported here is about fresh files.
        _ => "fetch the model's files again",
    }
}

impl std::error::Error for OpenFault {}

/// Opens the model of `request` from packed weights if the cache has them whole. Otherwise opens the model found by
/// [`ensure`], and caches its packed weights for the next start.
///
/// # Errors
/// The errors of [`ensure`], and of an encoder that rejects the files. Never because of a packed file: a packed file
/// that is damaged or cannot be written is reported to `progress`.
pub fn open(
    request: &ModelRequest,
    kernels: Kernels,
    precision: Precision,
    progress: &mut dyn Progress,
) -> Result<OpenedFiles, OpenFault> {
    let opening = Opening { request, kernels, precision };
    let shelf = request.cache.as_deref().map(Shelf::of);
    let Some(shelf) = &shelf else {
        let files = ensure(request, progress).map_err(OpenFault::Model)?;
        return opening.packing(&files, None, progress);
    };
    if let Some(Known { small, dir, weights_sha256 }) = known(request, shelf) {
        let settings = small.borrowed();
        if let Some(encoder) = opening.packed(shelf, &settings, weights_sha256, &dir, progress)? {
            return Ok(OpenedFiles { encoder, dir, weights_sha256 });
        }
        return opening.finding(shelf, Some(weights_sha256), progress);
    }
    opening.finding(shelf, None, progress)
}

/// Checks a model's packed weights in the cache: the path of each file, and its fault, if any.
pub fn check_packed(
    request: &ModelRequest,
    files: &ModelFiles,
    kernels: Kernels,
) -> Vec<(PathBuf, Option<String>)> {
    let Some(shelf) = request.cache.as_deref().map(Shelf::of) else { return Vec::new() };
    let mut checked = Vec::new();
    for &precision in Precision::ALL {
        let place = shelf.place(&files.weights_sha256, precision);
        let opening = Opening { request, kernels, precision };
        let why = match Shelf::map(&place) {
            Ok(None) => continue,
            Ok(Some(bytes)) => {
                let opened =
                    opening.open(&files.borrowed().settings(), bytes, files.weights_sha256);
                opened.err().map(|error| error.to_string())
            }
            Err(error) => Some(error.to_string()),
        };
        checked.push((place, why));
    }
    checked
}

/// A model whose weights need not be read: their hash is known and as expected.
struct Known {
    small: SmallFiles,
    dir: PathBuf,
    weights_sha256: Sha256,
}

/// Identifies a model without reading its weights. On any fault returns `None`: the full read detects and reports the
/// fault.
fn known(request: &ModelRequest, shelf: &Shelf) -> Option<Known> {
    let expected = &request.expected;
    let Some(dir) = request.directory.as_deref() else {
        let cache = Cache::new(request.cache.as_deref()?, request);
        let small = SmallFiles::load_installed(cache.home(), expected).ok()?;
        let dir = cache.home().to_owned();
        return Some(Known { small, dir, weights_sha256: expected.weights });
    };
    let weights_sha256 = shelf.known_hash(&Source::of(dir)?)?;
    let small = SmallFiles::load(dir, None).ok()?;
    if request.is_pinned(dir, &weights_sha256) {
        expected.check(small.tokenizer_sha256(), &weights_sha256).ok()?;
    }
    Some(Known { small, dir: dir.to_owned(), weights_sha256 })
}

struct Opening<'a> {
    request: &'a ModelRequest,
    kernels: Kernels,
    precision: Precision,
}

impl Opening<'_> {
    /// Opens from packed weights in the cache; `None` if there are no usable ones.
    fn packed(
        &self,
        shelf: &Shelf,
        settings: &SettingsFiles<'_>,
        sha256: Sha256,
        dir: &Path,
        progress: &mut dyn Progress,
    ) -> Result<Option<Encoder>, OpenFault> {
        let place = shelf.place(&sha256, self.precision);
        let why = match Shelf::map(&place) {
            Ok(None) => return Ok(None),
            Ok(Some(bytes)) => match self.open(settings, bytes, sha256) {
                Ok(encoder) => return Ok(Some(encoder)),
                Err(error @ OpenError::Packed { .. }) => error.to_string(),
                Err(error) => return Err(fault(dir)(error)),
            },
            Err(error) => error.to_string(),
        };
        progress.say(&format!("{}: {why}; packing the weights again", place.display()));
        Ok(None)
    }

    /// Reads the weights, and thereby learns their hash: for an unknown hash, or if the packed weights of the hash
    /// `tried` are unusable.
    fn finding(
        &self,
        shelf: &Shelf,
        tried: Option<Sha256>,
        progress: &mut dyn Progress,
    ) -> Result<OpenedFiles, OpenFault> {
        let source = || self.request.directory.as_deref().and_then(Source::of);
        let before = source();
        let files = ensure(self.request, progress).map_err(OpenFault::Model)?;
        let sha256 = files.weights_sha256;
        // The hash of a file that changed during the read may match neither its old nor its new content.
        if let Some(source) = before.filter(|before| source().as_ref() == Some(before))
            && files.weights.len() >= KEPT_BYTES_MIN
            && tried != Some(sha256)
            && let Err(error) = shelf.remember(&source, &sha256)
        {
            let list = shelf.list();
            progress.say(&format!(
                "cannot write {}: {error}; the next start hashes the weights again",
                list.display()
            ));
        }
        // Packed weights of the same hash may exist, from another directory.
        let settings = files.borrowed().settings();
        if tried != Some(sha256)
            && let Some(encoder) = self.packed(shelf, &settings, sha256, &files.dir, progress)?
        {
            return Ok(OpenedFiles { encoder, dir: files.dir.clone(), weights_sha256: sha256 });
        }
        self.packing(&files, Some(shelf), progress)
    }

    /// Packs the published weights and, if there is a cache, stores the packed weights there.
    fn packing(
        &self,
        files: &ModelFiles,
        shelf: Option<&Shelf>,
        progress: &mut dyn Progress,
    ) -> Result<OpenedFiles, OpenFault> {
        let borrowed = files.borrowed();
        let packed = encoder::pack(&borrowed, self.precision).map_err(fault(&files.dir))?;
        let (settings, sha256) = (borrowed.settings(), files.weights_sha256);
        let of_use = shelf.filter(|_| files.weights.len() >= KEPT_BYTES_MIN);
        let kept = of_use.and_then(|shelf| self.keep(shelf, &sha256, &packed, progress));
        let encoder = match kept.map(|bytes| self.open(&settings, bytes, sha256)) {
            // Packed weights that were just written are read back damaged: a disk fault, and no reason to fail.
            Some(Err(error @ OpenError::Packed { .. })) => {
                progress.say(&format!("{error}; the packed weights stay in memory"));
                self.open(&settings, packed, sha256)
            }
            Some(done) => done,
            None => self.open(&settings, packed, sha256),
        };
        let encoder = encoder.map_err(fault(&files.dir))?;
        Ok(OpenedFiles { encoder, dir: files.dir.clone(), weights_sha256: sha256 })
    }

    /// Writes packed weights to the cache, and maps the file.
    fn keep(
        &self,
        shelf: &Shelf,
        sha256: &Sha256,
        packed: &PackedWeights,
        progress: &mut dyn Progress,
    ) -> Option<FileBytes> {
        let put = shelf.put(sha256, self.precision, packed.as_ref());
        let told = put.inspect_err(|error| {
            let place = shelf.place(sha256, self.precision);
            let place = place.display();
            progress.say(&format!(
                "cannot keep packed weights as {place}: {error}; they stay in memory, and the next start \
                 packs them again"
            ));
        });
        told.ok()
    }

    fn open(
        &self,
        settings: &SettingsFiles<'_>,
        packed: impl AsRef<[u8]> + Send + Sync + 'static,
        sha256: Sha256,
    ) -> Result<Encoder, OpenError> {
        Encoder::open_packed(settings, packed, sha256, self.kernels, self.precision)
    }
}

fn fault(dir: &Path) -> impl Fn(OpenError) -> OpenFault + '_ {
    move |error| OpenFault::Encoder { dir: dir.to_owned(), error }
}
