//! Logging, metrics, and periodic threads.
#![forbid(unsafe_code)]

pub mod limits;
pub mod log;
pub mod metrics;
pub mod ticker;

limit_table::limits! {
    pub const LIMITS = [limits];
}
