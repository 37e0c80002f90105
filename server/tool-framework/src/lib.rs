//! Tool catalog: one row per tool, from which all other descriptions of the tool are derived.
//!
//! A family's file contains the arguments, rows and functions of its tools. Lists, schemas, MCP hints, scope checks and
//! audit labels all come from the row.
#![forbid(unsafe_code)]

mod answer;
pub mod args;
mod catalog;
mod context;
mod error;
pub mod governed;
pub mod idempotency;
pub mod paging;
mod profile;
pub mod reading;
pub mod records;
pub mod results;
mod tool;
pub mod writing;

pub use answer::{Answer, decision_of, touched};
pub use catalog::Catalog;
pub use context::{ToolContext, ToolServices};
pub use error::{IN_THE_LOG, ServiceError, Stored};
pub use governed::{
    NO_QUOTA, NOT_ENTITLED, NOT_IDENTIFIED, Refused, UNMETERED, UNVERIFIED, governed,
    record_refusal, record_wrong,
};
pub use profile::Profile;
pub use recalld_common::own_kinds::ANSWER as ANSWER_KIND;
pub use tool::{Change, Family, Tool};

limit_table::limits! {
    pub const LIMITS = [paging, writing];
}
