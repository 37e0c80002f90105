//! Converts exports of other programs to lines of `format-spec/export.md` (`format-spec/foreign.md`).
//!
//! Detects the source format and converts it, without knowledge of a store: the lines pass through the ordinary import.
//! Nothing may be lost silently: data without a counterpart is counted, with the reason.

mod chats;
mod claude;
mod detect;
mod entities;
mod error;
mod mem0;
mod memories;
mod out;
mod plain;
mod shape;
mod stream;
mod times;
mod vault;

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub use error::ForeignError;
pub use out::{SKIPPED_NAMED_MAX, Skipped, Translated};
pub use shape::Shape;

use out::Out;

limit_table::limits! {
    pub(crate) const LIMITS = [chats, entities, mem0, memories, out, stream, vault];
}

/// Detects the format of a file or folder; `None` for this project's own JSONL export.
///
/// # Errors
/// The file cannot be read, or its format is unknown.
pub fn shape_of(path: &Path) -> Result<Option<Shape>, ForeignError> {
    detect::shape_of(path)
}

/// Converts the content of `path`, which has this format, to lines in `to`. `name` becomes part of the items' source
/// URI.
///
/// # Errors
/// The file cannot be read, the lines cannot be written, the file has another format, or `cancelled` returns true.
pub fn translate(
    path: &Path,
    name: &str,
    shape: Shape,
    to: &mut File,
    cancelled: &dyn Fn() -> bool,
) -> Result<Translated, ForeignError> {
    let mut buffered = io::BufWriter::new(to);
    let mut out = Out::new(&mut buffered, shape, name, cancelled);
    match shape {
        Shape::McpMemory => entities::translate(path, &mut out)?,
        Shape::Mem0 => mem0::translate(path, &mut out)?,
        Shape::McpMemoryService => memories::translate(path, &mut out)?,
        Shape::Vault => vault::translate(path, &mut out)?,
        Shape::Chatgpt => chats::translate(path, &mut out)?,
        Shape::Claude => claude::translate(path, &mut out)?,
        Shape::Plain => plain::translate(path, &mut out)?,
    }
    let done = out.end()?;
    buffered.flush().map_err(ForeignError::Writing)?;
    if done.items == 0 && done.skipped_count == 0 {
        let why =
            format!("{}: there is nothing in it of the shape {}", path.display(), shape.name());
        return Err(ForeignError::Wrong(why));
    }
    Ok(done)
}
