//! Errors of opening a model. Encoding itself cannot fail.

use std::path::PathBuf;
use std::{fmt, io};

/// Error of opening a model.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// A file could not be read from disk.
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        error: io::Error,
    },
    /// A file is not of its type: truncated, not JSON, or with offsets that point outside.
    Malformed {
        /// Published name of the file.
        file: &'static str,
        /// Found contents.
        found: String,
        /// Expected contents.
        wanted: String,
    },
    /// A well-formed setting that this encoder does not support.
    Unsupported {
        /// Published name of the file.
        file: &'static str,
        /// The setting, with dots for nesting.
        field: String,
        /// Found value.
        found: String,
        /// Supported values.
        wanted: String,
    },
    /// A tensor is missing, or its shape or type does not match the settings.
    Tensor {
        /// Name of the tensor in `model.safetensors`.
        name: String,
        /// Type and shape in the file.
        found: String,
        /// Type and shape by the settings.
        wanted: String,
    },
    /// A value that the precision cannot represent.
    Imprecise {
        /// Name of the tensor in `model.safetensors`.
        name: String,
        /// Name of the precision.
        precision: &'static str,
        /// Found value.
        found: String,
        /// Range of the precision.
        wanted: String,
    },
    /// Packed weights break a rule of `format-spec/weights.md`, or belong to another model.
    Packed {
        /// Rule id, such as `WGT-10`.
        rule: &'static str,
        /// The field or section, with its position in the file.
        part: String,
        /// Found value.
        found: String,
        /// Expected value.
        wanted: String,
    },
}

/// Action by which a person can resolve an [`OpenError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Check that the path exists and is readable.
    CheckPath,
    /// Download the model's files again: they are corrupt or do not belong together.
    FetchAgain,
    /// Choose another model: this kind is not supported.
    ChooseAnother,
    /// Choose another precision: f32 represents every value.
    ChoosePrecision,
    /// Pack the weights again from `model.safetensors`.
    PackAgain,
}

impl OpenError {
    /// Returns the [`Remedy`] for this error.
    pub fn remedy(&self) -> Remedy {
        match self {
            OpenError::Read { .. } => Remedy::CheckPath,
            OpenError::Malformed { .. } | OpenError::Tensor { .. } => Remedy::FetchAgain,
            OpenError::Unsupported { .. } => Remedy::ChooseAnother,
            OpenError::Imprecise { .. } => Remedy::ChoosePrecision,
            OpenError::Packed { .. } => Remedy::PackAgain,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Read { path, error } => {
                write!(f, "cannot read the model file {}: {error}", path.display())
            }
            OpenError::Malformed { file, found, wanted } => {
                write!(f, "the model's {file} is damaged: found {found}, wanted {wanted}")
            }
            OpenError::Unsupported { file, field, found, wanted } => {
                write!(f, "the model's {file} sets {field} to {found}; supported is {wanted}")
            }
            OpenError::Tensor { name, found, wanted } => {
                write!(f, "the model's tensor {name} should be {wanted}; found {found}")
            }
            OpenError::Imprecise { name, precision, found, wanted } => {
                write!(
                    f,
                    "the model's tensor {name} has {found}; {precision} holds {wanted}, f32 holds it"
                )
            }
            OpenError::Packed { rule, part, found, wanted } => {
                write!(f, "{rule}: {part} of the packed weights: found {found}, wanted {wanted}")
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Read { error, .. } => Some(error),
            _ => None,
        }
    }
}
