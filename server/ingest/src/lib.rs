//! Ingest: files below the allowed roots, and texts of clients, become documents and chunks in the store.
//!
//! Owns the walk (`walk`), the ingest job (`job`, `report`), texts of clients (`given`) and secret findings (`held`).
//! Owns also link candidates (`links`) with their edges (`linking`), and the records of a document (`outline`,
//! `parcel`, `stored`). Files are read and split by `recalld_documents`. `walk` and `links` do not know the engine;
//! nothing here knows HTTP or the tools.
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
pub use report::{ReportFacts, StoredJob};
pub use stored::document_of;
pub use stored::{asked_of, beside_now};

limit_table::limits! {
    pub const LIMITS = [held, job, parcel, report, walk];
}
