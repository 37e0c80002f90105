//! Arguments that are objects, or lists of objects: the same fields and bounds, one level further down.

/// Declares one, as [`args!`](super::args) does a tool's arguments.
macro_rules! object {
    ($(#[$about:meta])* $vis:vis struct $name:ident { $($fields:tt)* }) => {
        $crate::tools::args::args! { $(#[$about])* $vis struct $name { $($fields)* } }

        impl $crate::tools::args::Argument for $name {
            fn schema() -> serde_json::Value {
                $crate::tools::args::object_schema(&Self::shape())
            }

            fn read(value: &serde_json::Value) -> Result<Self, String> {
                let object = $crate::tools::args::unquoted_object(value)?;
                Self::parse(&object).map_err(|error| format!("has a wrong field: {error}"))
            }
        }

        impl $crate::tools::args::Shown for $name {
            fn shown(&self) -> Option<serde_json::Value> {
                None
            }
        }
    };
}
pub(crate) use object;

use serde_json::{Map, Value};

use super::{Field, input_schema, unquoted, wanted};

/// The schema of an object among the arguments: terse, without what its fields mean.
pub fn object_schema(fields: &[Field]) -> Value {
    let mut schema = input_schema(fields);
    for field in fields {
        if let Some(described) = schema["properties"][field.name].as_object_mut() {
            described.remove("description");
        }
    }
    schema
}

/// The object that a value is, or that a string of JSON holds.
pub fn unquoted_object(value: &Value) -> Result<Map<String, Value>, String> {
    match unquoted(value) {
        Value::Object(fields) => Ok(fields),
        _ => Err(wanted("an object", value)),
    }
}
