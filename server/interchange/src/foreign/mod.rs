//! What other programs export, as lines of `format-spec/export.md` (`format-spec/foreign.md`).
//!
//! Owns which shapes there are, how each is told, and what becomes of it. Knows no store: what is made here goes
//! the way of every import. Must lose nothing in silence: what has no place is counted, with why.

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

/// Which shape a file or folder has; `None` where it is lines of our own.
///
/// # Errors
/// It cannot be read, or is like none that is known.
pub fn shape_of(path: &Path) -> Result<Option<Shape>, ForeignError> {
    detect::shape_of(path)
}

/// Writes what is in `path`, which has this shape, as lines to `to`. Items have it as their source under `name`.
///
/// # Errors
/// It cannot be read or written, is of another shape, or `cancelled` says so.
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
