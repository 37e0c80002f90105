//! Arguments of a tool: one list of fields generates the struct, the parser, the bounds and the schema.
//!
//! ```text
//! args! {
//!     /// What `graph_path_tool` takes.
//!     struct Path {
//!         from_id: Id => "Where the path starts.",
//!         max_hops: Int<1, 6> = Int(4) => "The longest path to look for, in edges.",
//!         note: Option<Text<0, 200>> => "Why it is asked.",
//!     }
//! }
//! ```
//!
//! Some clients send numbers, lists and objects as JSON strings. The parser accepts such strings for every type but
//! text.
//!
//! Every byte of a schema enters a model's context, so a schema has only the parts needed for a correct call: types,
//! choices, ranges and counts. Text length limits appear only in the error of a text that exceeds them.

mod argument;
mod choice;
mod object;
mod values;

pub use argument::{
    Argument, Field, Id, Int, List, Shape, Shown, Text, Time, args, check_names, field,
    input_schema, plain, read, refuse_blank,
};
pub use choice::{choices, one_of};
pub use object::{object, object_schema, unquoted_object};
pub use values::{
    AnyJson, AnyNumber, AnyObject, Day, Edge, Real, Sha256, Source, SourceGiven, Zone,
};

#[cfg(test)]
mod tests;
