//! What a tool takes: one list of fields gives the struct, the parser, the bounds and the schema.
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
//! Clients have been seen to send numbers, lists and objects as strings of JSON; these are
//! understood wherever no text was wanted.
//!
//! Every byte of a schema lands in a model's context, so it says what a model needs to know to get a
//! call right: types, choices, ranges, how many. How long a text may be is told to who breaks it.

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
