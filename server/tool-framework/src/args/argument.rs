//! The [`Argument`] trait and the argument types that every tool may use.

use engine::{ItemId, Micros};
use serde_json::{Map, Value, json};

use crate::error::ServiceError;
use recalld_common::names;
use recalld_common::nearest::{cut, nearest};

/// An argument type: its schema and its parser.
pub trait Argument: Sized {
    /// JSON Schema of the type, without description and default.
    fn schema() -> Value;
    /// Parses a value; the error text names the allowed values.
    fn read(value: &Value) -> Result<Self, String>;
    /// Value of an omitted argument; `None` if the argument is required.
    fn absent() -> Option<Self> {
        None
    }
    /// Minimum and maximum characters of a text; `None` for other types. Schemas omit these bounds.
    fn chars() -> Option<(usize, usize)> {
        None
    }
}

/// One field of a tool's arguments.
pub struct Field {
    /// Argument name in the JSON object.
    pub name: &'static str,
    /// Description in the schema.
    pub about: &'static str,
    /// True if a call must pass the argument.
    pub required: bool,
    /// JSON Schema, including the default.
    pub schema: Value,
    /// Minimum and maximum characters; `None` if the argument is not a text.
    pub chars: Option<(usize, usize)>,
}

/// Function that returns the fields of a tool's arguments.
pub type Shape = fn() -> Vec<Field>;

/// Builds a tool's `inputSchema`: a flat object without additional properties.
pub fn input_schema(fields: &[Field]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = field.schema.clone();
        schema["description"] = field.about.into();
        properties.insert(field.name.to_owned(), schema);
    }
    let required: Vec<&str> =
        fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let mut schema = json!({
        "type": "object", "properties": properties, "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// Declares a tool's arguments; see the documentation of the module `args`.
#[doc(hidden)]
#[macro_export]
macro_rules! tool_args {
    ($(#[$about:meta])* $vis:vis struct $name:ident {
        $($field:ident: $type:ty $(= $default:expr)? => $help:literal),* $(,)?
    }) => {
        $(#[$about])*
        #[derive(Debug)]
        $vis struct $name { $(#[doc = $help] $vis $field: $type),* }

        impl $name {
            /// Fields as described in the catalog.
            $vis fn shape() -> Vec<$crate::args::Field> {
                vec![$($crate::args::field::<$type>(
                    $crate::args::plain(stringify!($field)), $help, $crate::tool_args!(@default $type $(, $default)?),
                )),*]
            }

            /// Parses and checks the arguments.
            $vis fn parse(
                raw: &serde_json::Map<String, serde_json::Value>,
            ) -> Result<Self, $crate::ServiceError> {
                $crate::args::check_names(
                    raw, &[$($crate::args::plain(stringify!($field))),*],
                )?;
                Ok(Self { $($field: $crate::args::read(
                    raw, $crate::args::plain(stringify!($field)), $crate::tool_args!(@default $type $(, $default)?),
                )?),* })
            }
        }
    };
    (@default $type:ty) => { None::<$type> };
    (@default $type:ty, $default:expr) => { Some::<$type>($default) };
}
pub use tool_args as args;

/// Strips the `r#` prefix of a raw identifier.
pub fn plain(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
}

/// Describes one field for the schema.
pub fn field<T: Argument + Shown>(
    name: &'static str,
    about: &'static str,
    default: Option<T>,
) -> Field {
    let mut schema = T::schema();
    let required = default.is_none() && T::absent().is_none();
    if let Some(default) = default.and_then(|default| default.shown()) {
        schema["default"] = default;
    }
    Field { name, about, required, schema, chars: T::chars() }
}

/// Parses one field; an omitted field gets `default`, then `T::absent()`.
pub fn read<T: Argument>(
    raw: &Map<String, Value>,
    name: &'static str,
    default: Option<T>,
) -> Result<T, ServiceError> {
    let leaves_out = |value: &&Value| {
        // Some clients send null for arguments that they omit.
        !value.is_null() || default.is_none() && T::absent().is_none()
    };
    match raw.get(name).filter(leaves_out) {
        None => default
            .or_else(T::absent)
            .ok_or_else(|| ServiceError::argument(name, "is missing and must be given")),
        Some(value) => T::read(value).map_err(|why| ServiceError::argument(name, why)),
    }
}

/// Rejects a text without a visible character.
///
/// # Errors
/// Returns an argument error if `text` is blank.
pub fn refuse_blank(field: &'static str, text: &str) -> Result<(), ServiceError> {
    if text.trim().is_empty() {
        let why = "is blank; at least one visible character is wanted";
        return Err(ServiceError::argument(field, why));
    }
    Ok(())
}

/// Rejects unknown argument names; the error suggests the nearest known name.
pub fn check_names(raw: &Map<String, Value>, known: &[&str]) -> Result<(), ServiceError> {
    let Some(stranger) = raw.keys().find(|key| !known.contains(&key.as_str())) else {
        return Ok(());
    };
    let hint = match nearest(stranger, known.iter().copied()) {
        Some(name) => format!("; did you mean `{name}`?"),
        None if known.is_empty() => "; this tool takes no arguments".to_owned(),
        None => format!("; it takes {}", known.join(", ")),
    };
    Err(ServiceError::argument(
        "arguments",
        format!("`{}` is not an argument{hint}", cut(stranger)),
    ))
}

/// Parses a string that contains JSON; returns any other value unchanged.
pub(super) fn unquoted(value: &Value) -> Value {
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| value.clone()),
        _ => value.clone(),
    }
}

/// Schema form of a default value.
pub trait Shown {
    /// The default as JSON; `None` if the schema shows no default.
    fn shown(&self) -> Option<Value>;
}

/// A text of `MIN` to `MAX` characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<const MIN: usize, const MAX: usize>(pub String);

impl<const MIN: usize, const MAX: usize> Argument for Text<MIN, MAX> {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(|| wanted("a string", value))?;
        let chars = text.chars().count();
        if !(MIN..=MAX).contains(&chars) {
            return Err(format!("has {chars} characters; {MIN} to {MAX} are allowed"));
        }
        Ok(Self(text.to_owned()))
    }

    fn chars() -> Option<(usize, usize)> {
        Some((MIN, MAX))
    }
}

impl<const MIN: usize, const MAX: usize> Shown for Text<MIN, MAX> {
    fn shown(&self) -> Option<Value> {
        Some(self.0.as_str().into())
    }
}

/// Largest `maximum` that a schema shows. Larger maxima are omitted, because no caller exceeds one by mistake.
const SHOWN_MAX: i64 = 1_000_000;

/// Parses an integer written as `4` or `4.0`; JSON Schema accepts both.
fn whole(value: &Value) -> Option<i64> {
    /// From 2^53 on, `f64` cannot represent every integer (IEEE 754: 53 bits).
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
        (number.abs() < EXACT_MAX).then_some(number as i64)
    })
}

/// An integer from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int<const MIN: i64, const MAX: i64>(pub i64);

impl<const MIN: i64, const MAX: i64> Argument for Int<MIN, MAX> {
    fn schema() -> Value {
        let mut schema = json!({"type": "integer", "minimum": MIN});
        if MAX <= SHOWN_MAX {
            schema["maximum"] = MAX.into();
        }
        schema
    }

    fn read(value: &Value) -> Result<Self, String> {
        let number = whole(&unquoted(value)).ok_or_else(|| wanted("an integer", value))?;
        if !(MIN..=MAX).contains(&number) {
            return Err(format!("is {number}; {MIN} to {MAX} is allowed"));
        }
        Ok(Self(number))
    }
}

impl<const MIN: i64, const MAX: i64> Shown for Int<MIN, MAX> {
    fn shown(&self) -> Option<Value> {
        Some(self.0.into())
    }
}

impl Argument for bool {
    fn schema() -> Value {
        json!({"type": "boolean"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        unquoted(value).as_bool().ok_or_else(|| wanted("true or false", value))
    }
}

impl Shown for bool {
    fn shown(&self) -> Option<Value> {
        Some((*self).into())
    }
}

/// A list of `MIN` to `MAX` members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T, const MIN: usize, const MAX: usize>(pub Vec<T>);

impl<T: Argument, const MIN: usize, const MAX: usize> Argument for List<T, MIN, MAX> {
    fn schema() -> Value {
        let mut schema = json!({"type": "array", "items": T::schema(), "maxItems": MAX});
        if MIN > 0 {
            schema["minItems"] = MIN.into();
        }
        schema
    }

    fn read(value: &Value) -> Result<Self, String> {
        let list = unquoted(value);
        let members = list.as_array().ok_or_else(|| wanted("a list", value))?;
        if !(MIN..=MAX).contains(&members.len()) {
            return Err(format!("has {} members; {MIN} to {MAX} are allowed", members.len()));
        }
        let read = members
            .iter()
            .enumerate()
            .map(|(at, member)| T::read(member).map_err(|why| format!("member {at} {why}")));
        read.collect::<Result<_, _>>().map(Self)
    }
}

impl<T, const MIN: usize, const MAX: usize> Shown for List<T, MIN, MAX> {
    fn shown(&self) -> Option<Value> {
        None
    }
}

impl<T: Argument> Argument for Option<T> {
    fn schema() -> Value {
        T::schema()
    }

    fn read(value: &Value) -> Result<Self, String> {
        if value.is_null() { Ok(None) } else { T::read(value).map(Some) }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn chars() -> Option<(usize, usize)> {
        T::chars()
    }
}

impl<T> Shown for Option<T> {
    fn shown(&self) -> Option<Value> {
        None
    }
}

/// An item id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id(pub ItemId);

impl Argument for Id {
    fn schema() -> Value {
        json!({"type": "string"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(|| wanted("an id", value))?;
        names::parse_item(text).map(Self).map_err(|error| error.to_string())
    }
}

impl Shown for Id {
    fn shown(&self) -> Option<Value> {
        None
    }
}

/// A timestamp in RFC 3339 form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub Micros);

impl Argument for Time {
    fn schema() -> Value {
        json!({"type": "string", "format": "date-time"})
    }

    fn read(value: &Value) -> Result<Self, String> {
        let text = value.as_str().ok_or_else(|| wanted("a time", value))?;
        names::parse_time(text).map(Self)
    }
}

impl Shown for Time {
    fn shown(&self) -> Option<Value> {
        None
    }
}

pub(super) fn wanted(what: &str, found: &Value) -> String {
    let found = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string \"{}\"", cut(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    format!("is {found}; {what} is wanted")
}
