//! The JSON Lines form of a store (`format-spec/export.md`): export with [`mod@write`], import with [`import`].
//!
//! Knows the engine's rows and their names on the wire; must not know sockets or policy.

mod error;
mod fields;
pub mod import;
mod limits;
mod pass;
mod pending;
mod plan;
mod read;
mod report;
mod said;
mod text;
pub mod write;

pub use error::ImportError;
pub use limits::LINE_BYTES_MAX;
pub use plan::LINES_MAX;
pub use report::{BadLines, Report};

limit_table::limits! {
    pub(crate) const LIMITS = [limits, plan];
}
