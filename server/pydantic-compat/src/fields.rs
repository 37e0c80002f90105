//! The request models, one row per field. Struct, reader and the rows of the API description are generated from the
//! same lines.

use super::coerce::{self, Whole};
use super::json::Json;
use super::problem::{Kind, Problem};
use super::text::Wtf8;

/// Required text of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text;

/// Text or null; null if the field is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionalText;

/// An integer from `min` to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int {
    /// Value if the field is absent.
    pub default: u32,
    /// Smallest valid value.
    pub min: u32,
    /// Largest valid value.
    pub max: u32,
}

/// A boolean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Value if the field is absent.
    pub default: bool,
}

/// Type of a field, with its default and bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Required text.
    Text(Text),
    /// Text or null.
    OptionalText(OptionalText),
    /// An integer within bounds.
    Int(Int),
    /// A boolean.
    Flag(Flag),
}

/// One field of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Key in the JSON object.
    pub name: &'static str,
    /// Description for people.
    pub about: &'static str,
    /// Type, default and bounds.
    pub shape: Shape,
}

/// A request body that is read from the entries of a JSON object; errors are in the order of the fields.
pub(super) trait Model: Sized {
    fn read(entries: &[(Wtf8, Json)]) -> Result<Self, Vec<Problem>>;
}

/// Reader for one type of field.
trait Read {
    type Value;

    /// Reads the value of a field that is present.
    fn read(self, given: &Json) -> Result<Self::Value, Kind>;

    /// Returns the value of an absent field; `None` if the field is required.
    fn absent(self) -> Option<Self::Value>;
}

impl Read for Text {
    type Value = String;

    fn read(self, given: &Json) -> Result<String, Kind> {
        coerce::to_text(given)
    }

    fn absent(self) -> Option<String> {
        None
    }
}

impl Read for OptionalText {
    type Value = Option<String>;

    fn read(self, given: &Json) -> Result<Option<String>, Kind> {
        match given {
            Json::Null => Ok(None),
            _ => coerce::to_text(given).map(Some),
        }
    }

    fn absent(self) -> Option<Option<String>> {
        Some(None)
    }
}

impl Read for Int {
    type Value = u32;

    fn read(self, given: &Json) -> Result<u32, Kind> {
        let whole = coerce::to_whole(given)?;
        let (min, max) =
            (Kind::GreaterThanEqual(self.min.into()), Kind::LessThanEqual(self.max.into()));
        match whole {
            Whole::Exact(value) if value < i64::from(self.min) => Err(min),
            Whole::Exact(value) => {
                u32::try_from(value).ok().filter(|&value| value <= self.max).ok_or(max)
            }
            Whole::Below => Err(min),
            Whole::Above => Err(max),
        }
    }

    fn absent(self) -> Option<u32> {
        Some(self.default)
    }
}

impl Read for Flag {
    type Value = bool;

    fn read(self, given: &Json) -> Result<bool, Kind> {
        coerce::to_flag(given)
    }

    fn absent(self) -> Option<bool> {
        Some(self.default)
    }
}

/// Reads one field, or adds its error to `problems`.
fn field<R: Read>(
    shape: R,
    name: &'static str,
    entries: &[(Wtf8, Json)],
    problems: &mut Vec<Problem>,
) -> Option<R::Value> {
    let read = match entries.iter().find(|(key, _)| key == name.as_bytes()) {
        Some((_, given)) => shape.read(given).map_err(|kind| Problem::in_field(name, kind, given)),
        None => shape.absent().ok_or_else(|| {
            // The reported input of a missing field is the whole object.
            Problem::in_field(name, Kind::Missing, &Json::Object(entries.to_vec()))
        }),
    };
    read.map_err(|problem| problems.push(problem)).ok()
}

/// Defines a request body: its struct, its rows and its reader.
macro_rules! body {
    ($(#[$about_body:meta])* $body:ident {
        $($name:ident: $value:ty as $shape:ident $({ $($setting:tt)* })? => $about:literal,)*
    }) => {
        $(#[$about_body])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $body {
            $(#[doc = $about] pub $name: $value,)*
        }

        impl $body {
            /// One row per field, in the order of the API's description.
            pub const FIELDS: &'static [Field] = &[$(Field {
                name: stringify!($name),
                about: $about,
                shape: Shape::$shape($shape $({ $($setting)* })?),
            },)*];
        }

        impl Model for $body {
            fn read(entries: &[(Wtf8, Json)]) -> Result<Self, Vec<Problem>> {
                let mut problems = Vec::new();
                $(let $name = field($shape $({ $($setting)* })?, stringify!($name), entries, &mut problems);)*
                match ($($name,)*) {
                    ($(Some($name),)*) => Ok(Self { $($name,)* }),
                    _ => Err(problems),
                }
            }
        }
    };
}

body! {
    /// Body of POST /recall.
    RecallRequest {
        query: String as Text => "Free-text recall query",
        limit: u32 as Int { default: 5, min: 1, max: 50 } => "Maximum recall seeds returned",
        graph: bool as Flag { default: false } => "Expand recall through graph neighbors",
        neighbor_limit: u32 as Int { default: 3, min: 0, max: 20 } => "Neighbors per seed when graph is true",
        modality: Option<String> as OptionalText => "Optional modality filter (for example text, image, pdf)",
        prefer_replacements: bool as Flag { default: false } => "Boost current replacements over superseded items",
    }
}

body! {
    /// Body of POST /semantic-recall.
    SemanticRecallRequest {
        query: String as Text => "Free-text query for semantic (cosine) recall",
        limit: u32 as Int { default: 5, min: 1, max: 50 } => "Top-K results to return",
    }
}
