//! What other programs export, as lines of `format-spec/export.md` (`format-spec/foreign.md`).
//!
//! Owns which shapes there are, how each is told, and what becomes of it. Knows no store: what is made here goes
//! the way of every import. Must lose nothing in silence: what has no place is counted, with why.

mod chats;
mod claude;
mod detect;
mod entities;
mod mem0;
mod memories;
mod out;
mod plain;
mod stream;
mod times;
mod vault;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use out::{SKIPPED_NAMED_MAX, Skipped};

use out::Out;
use recalld_common::counted::counted;

limit_table::limits! {
    pub(crate) const LIMITS = [chats, entities, mem0, memories, out, stream, vault];

    /// Files of one vault.
    const VAULT_FILES_MAX: usize = 200_000;
}

/// A shape that other programs export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Entities and relations of the reference MCP memory server: `memory.jsonl`.
    McpMemory,
    /// Memories of mem0, with their history.
    Mem0,
    /// Memories of mcp-memory-service.
    McpMemoryService,
    /// A folder of Markdown notes: Obsidian, basic-memory.
    Vault,
    /// Conversations of ChatGPT.
    Chatgpt,
    /// Conversations and projects of Claude.
    Claude,
    /// JSON Lines or a list of objects, of whatever keys.
    Plain,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::McpMemory,
        Self::Mem0,
        Self::McpMemoryService,
        Self::Vault,
        Self::Chatgpt,
        Self::Claude,
        Self::Plain,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::McpMemory => "mcp-memory",
            Self::Mem0 => "mem0",
            Self::McpMemoryService => "mcp-memory-service",
            Self::Vault => "vault",
            Self::Chatgpt => "chatgpt",
            Self::Claude => "claude",
            Self::Plain => "plain",
        }
    }

    /// The shape of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.name() == name)
    }
}

/// Why nothing could be made of a file.
#[derive(Debug)]
pub enum ForeignError {
    /// It cannot be read.
    Reading(PathBuf, io::Error),
    /// The lines cannot be written.
    Writing(io::Error),
    /// It is not of the shape that it was said to be, or of none that is known.
    Wrong(String),
    /// Nobody waits for it any more.
    Cancelled,
}

impl fmt::Display for ForeignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reading(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Writing(error) => write!(f, "the lines that it becomes: {error}; set TMPDIR"),
            Self::Wrong(why) => f.write_str(why),
            Self::Cancelled => f.write_str("called off"),
        }
    }
}

impl std::error::Error for ForeignError {}

/// What became of a file.
#[derive(Debug)]
pub struct Translated {
    /// What it was.
    pub shape: Shape,
    /// Items that it became.
    pub items: u64,
    /// Edges that it became.
    pub edges: u64,
    /// What has no place, and why.
    pub skipped: Vec<Skipped>,
    /// How much that is.
    pub skipped_count: u64,
}

impl Translated {
    /// `{shape, items, edges, skipped[] {place, why}, skipped_count}`.
    pub fn to_json(&self) -> Value {
        let skipped = self.skipped.iter().map(|it| json!({"place": it.place, "why": it.why}));
        json!({
            "shape": self.shape.name(), "items": self.items, "edges": self.edges,
            "skipped": skipped.collect::<Vec<_>>(), "skipped_count": self.skipped_count,
        })
    }

    /// The same in words.
    pub fn readable(&self) -> String {
        let mut text = format!(
            "read as {}: {}, {}, {} skipped",
            self.shape.name(),
            counted(self.items, "item"),
            counted(self.edges, "edge"),
            self.skipped_count
        );
        for Skipped { place, why } in &self.skipped {
            text.push_str(&format!("\nskipped {place}: {why}"));
        }
        text
    }
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
