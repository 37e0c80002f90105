//! A sentence encoder in pure Rust: text in, one unit-length vector out.
//!
//! Runs the BERT family of sentence encoders (Devlin et al. 2018; Reimers and Gurevych 2019) from their published
//! files: `config.json`, `tokenizer.json`, `model.safetensors` and, where present, the pooling and sentence settings.
//! The weights can be packed once into a byte sequence that later starts open in place ([`pack`],
//! [`Encoder::open_packed`]).
//!
//! ```no_run
//! # fn main() -> Result<(), encoder::OpenError> {
//! let encoder = encoder::Encoder::open_dir(std::path::Path::new("model"))?;
//! let mut scratch = encoder.scratch();
//! let mut vector = vec![0.0; encoder.dimensions()];
//! encoder.encode(&mut scratch, "Paris is the capital of France.", &mut vector);
//! # Ok(())
//! # }
//! ```
//!
//! The crate is independent of stores, servers and the source of model files.

#![forbid(unsafe_code)]

mod classes;
mod config;
mod encoder;
mod error;
mod files;
mod forward;
mod packed;
mod pool;
mod scratch;

limit_table::limits! {
    pub const LIMITS = [config];
}

#[cfg(test)]
mod tiny;
mod tokenizer;
mod tokenizer_file;
mod unicode;
mod vocabulary;
mod weights;

pub use encoder::{Encoder, default_precision, pack};
pub use error::{OpenError, Remedy};
pub use files::{ModelFiles, SettingsFiles};
pub use kernels::{Kernels, Level, Precision, THREADS_MAX};
pub use packed::{PACKING, PackedWeights};
pub use scratch::Scratch;
