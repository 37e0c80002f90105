//! Arguments that are objects or lists of objects, with the field types and bounds of top-level arguments.

/// Declares an object argument; the syntax is that of [`args!`](super::args).
#[doc(hidden)]
#[macro_export]
macro_rules! tool_object {
    ($(#[$about:meta])* $vis:vis struct $name:ident { $($fields:tt)* }) => {
        $crate::args::args! { $(#[$about])* $vis struct $name { $($fields)* } }

        impl $crate::args::Argument for $name {
            fn schema() -> serde_json::Value {
                $crate::args::object_schema(&Self::shape())
            }

            fn read(value: &serde_json::Value) -> Result<Self, String> {
                let object = $crate::args::unquoted_object(value)?;
                Self::parse(&object).map_err(|error| format!("has a wrong field: {error}"))
            }
        }

        impl $crate::args::Shown for $name {
            fn shown(&self) -> Option<serde_json::Value> {
                None
            }
        }
    };
}
pub use tool_object as object;

use serde_json::{Map, Value};

use super::argument::{Field, input_schema, unquoted, wanted};

/// Schema of a nested object. Field descriptions are omitted to keep the catalog short.
pub fn object_schema(fields: &[Field]) -> Value {
    let mut schema = input_schema(fields);
    for field in fields {
        if let Some(described) = schema["properties"][field.name].as_object_mut() {
            described.remove("description");
        }
    }
    schema
}

/// Returns the object in `value`, or the object in a JSON string.
pub fn unquoted_object(value: &Value) -> Result<Map<String, Value>, String> {
    match unquoted(value) {
        Value::Object(fields) => Ok(fields),
        _ => Err(wanted("an object", value)),
    }
}
