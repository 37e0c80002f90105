//! Why a model did not open. Encoding itself cannot fail.

use std::path::PathBuf;
use std::{fmt, io};

/// Why a model did not open.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// A file could not be read from disk.
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file is not what its name promises: cut short, not JSON, offsets that point outside.
    Malformed {
        /// The file, by its published name.
        file: &'static str,
        /// What is in it.
        found: String,
        /// What should be in it.
        wanted: String,
    },
    /// A well-formed setting asks for something this encoder does not do.
    Unsupported {
        /// The file, by its published name.
        file: &'static str,
        /// The setting, with dots for nesting.
        field: String,
        /// Its value.
        found: String,
        /// The values that work.
        wanted: String,
    },
    /// A tensor is missing, or has another shape or type than the settings call for.
    Tensor {
        /// The tensor's name in `model.safetensors`.
        name: String,
        /// What the file has.
        found: String,
        /// What the settings call for.
        wanted: String,
    },
    /// A value that the wanted precision cannot hold.
    Imprecise {
        /// The tensor's name in `model.safetensors`.
        name: String,
        /// The precision's name.
        precision: &'static str,
        /// The value.
        found: String,
        /// What the precision holds.
        wanted: String,
    },
    /// Packed weights that break a rule of `format-spec/weights.md`, or are not of this model.
    Packed {
        /// The rule, such as `WGT-10`.
        rule: &'static str,
        /// The field or section, with its place in the file.
        part: String,
        /// What is there.
        found: String,
        /// What should be there.
        wanted: String,
    },
}

/// What a person can do about an [`OpenError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Check that the path exists and may be read.
    CheckPath,
    /// Fetch the model's files again: these are damaged or do not belong together.
    FetchAgain,
    /// Choose another model: this one is of a kind that is not supported.
    ChooseAnother,
    /// Choose another precision: f32 holds every value.
    ChoosePrecision,
    /// Pack the weights again from `model.safetensors`.
    PackAgain,
}

impl OpenError {
    /// What a person can do about it.
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
