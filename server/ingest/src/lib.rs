//! Ingest: files under allowed roots become documents, and documents become chunks.
//!
//! Owns the walk (`walk`), the path policy (`roots`, `beneath`), the readers (`read`), words beside pictures
//! (`beside`), the cutting into chunks (`chunk`, `pieces`) and the guessing of link targets (`links`). Knows file
//! descriptors and bytes; must not know the engine, HTTP or the tools, except for `job`, `held`, `linking`,
//! `outline`, `parcel`, `report` and `stored`, which store what the others read: all but these are pure functions
//! of their bytes.
#![forbid(unsafe_code)]

pub mod given;
mod held;
pub mod job;
mod linking;
pub mod links;
mod outline;
mod parcel;
mod report;
mod stored;
pub mod walk;

pub use held::Held;
pub use job::{BrokenOff, Job, Report, Request};
pub use stored::document_of;
pub use stored::{asked_of, beside_now};

limit_table::limits! {
    pub const LIMITS = [held, job, parcel, report, walk];
}
