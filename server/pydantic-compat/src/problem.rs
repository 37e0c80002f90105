//! Errors of a request body, and the response that reports them.

use super::json::Json;
use super::render;

/// Position in the request, the `loc` of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Body,
    /// Offset in the body, in code points.
    At(usize),
    Field(&'static str),
}

/// Error kinds of these models: pydantic's, and FastAPI's own for a body that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Missing,
    JsonInvalid(&'static str),
    ModelAttributesType,
    StringType,
    StringUnicode,
    IntType,
    IntParsing,
    IntParsingSize,
    IntFromFloat,
    FiniteNumber,
    GreaterThanEqual(i64),
    LessThanEqual(i64),
    BoolType,
    BoolParsing,
}

/// Details of an error beside its message, the `ctx` of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Bound(&'static str, i64),
    Error(&'static str),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    pub(super) kind: Kind,
    pub(super) place: Place,
    pub(super) input: Json,
}

/// A rejected body, with the status and JSON of the response.
#[derive(Debug, Clone, PartialEq)]
pub struct Invalid(Why);

#[derive(Debug, Clone, PartialEq)]
enum Why {
    Problems(Vec<Problem>),
    Unreadable,
}

impl Invalid {
    pub(super) fn because(problem: Problem) -> Self {
        Self(Why::Problems(vec![problem]))
    }

    pub(super) fn all(problems: Vec<Problem>) -> Self {
        Self(Why::Problems(problems))
    }

    /// Returns the error for a body that could not be parsed at all.
    pub(super) fn unreadable() -> Self {
        Self(Why::Unreadable)
    }

    /// Returns 422, or 400 for a body that FastAPI has no validation error for: invalid in its encoding, nested too
    /// deeply, or with a number of more than 4,300 digits.
    pub fn status(&self) -> u16 {
        match self.0 {
            Why::Problems(_) => 422,
            Why::Unreadable => 400,
        }
    }

    /// Returns the response as JSON in UTF-8 without spaces.
    pub fn body(&self) -> Vec<u8> {
        match &self.0 {
            Why::Problems(problems) => render::answer(problems),
            Why::Unreadable => br#"{"detail":"There was an error parsing the body"}"#.to_vec(),
        }
    }
}

impl Problem {
    pub(super) fn no_body() -> Self {
        Self { kind: Kind::Missing, place: Place::Body, input: Json::Null }
    }

    pub(super) fn no_object(input: Json) -> Self {
        Self { kind: Kind::ModelAttributesType, place: Place::Body, input }
    }

    pub(super) fn syntax(at: usize, message: &'static str) -> Self {
        Self {
            kind: Kind::JsonInvalid(message),
            place: Place::At(at),
            input: Json::Object(Vec::new()),
        }
    }

    pub(super) fn in_field(name: &'static str, kind: Kind, input: &Json) -> Self {
        Self { kind, place: Place::Field(name), input: input.clone() }
    }
}

impl Kind {
    /// The `type` in the response.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::JsonInvalid(_) => "json_invalid",
            Self::ModelAttributesType => "model_attributes_type",
            Self::StringType => "string_type",
            Self::StringUnicode => "string_unicode",
            Self::IntType => "int_type",
            Self::IntParsing => "int_parsing",
            Self::IntParsingSize => "int_parsing_size",
            Self::IntFromFloat => "int_from_float",
            Self::FiniteNumber => "finite_number",
            Self::GreaterThanEqual(_) => "greater_than_equal",
            Self::LessThanEqual(_) => "less_than_equal",
            Self::BoolType => "bool_type",
            Self::BoolParsing => "bool_parsing",
        }
    }

    /// The `msg` in the response.
    pub(super) fn message(self) -> String {
        let fixed = match self {
            Self::Missing => "Field required",
            Self::JsonInvalid(_) => "JSON decode error",
            Self::ModelAttributesType => {
                "Input should be a valid dictionary or object to extract fields from"
            }
            Self::StringType => "Input should be a valid string",
            Self::StringUnicode => {
                "Input should be a valid string, unable to parse raw data as a unicode string"
            }
            Self::IntType => "Input should be a valid integer",
            Self::IntParsing => {
                "Input should be a valid integer, unable to parse string as an integer"
            }
            Self::IntParsingSize => {
                "Unable to parse input string as an integer, exceeded maximum size"
            }
            Self::IntFromFloat => {
                "Input should be a valid integer, got a number with a fractional part"
            }
            Self::FiniteNumber => "Input should be a finite number",
            Self::BoolType => "Input should be a valid boolean",
            Self::BoolParsing => "Input should be a valid boolean, unable to interpret input",
            Self::GreaterThanEqual(min) => {
                return format!("Input should be greater than or equal to {min}");
            }
            Self::LessThanEqual(max) => {
                return format!("Input should be less than or equal to {max}");
            }
        };
        fixed.into()
    }

    /// The `ctx` in the response.
    pub(super) fn context(self) -> Option<Context> {
        match self {
            Self::JsonInvalid(message) => Some(Context::Error(message)),
            Self::GreaterThanEqual(min) => Some(Context::Bound("ge", min)),
            Self::LessThanEqual(max) => Some(Context::Bound("le", max)),
            _ => None,
        }
    }
}
