//! The program `recalld`: its commands, and the service that `recalld serve` starts.
#![forbid(unsafe_code)]

pub mod app;
pub mod cli;
pub mod eval;
pub mod housekeeping;
mod keep_seats;
pub mod limits;

limit_table::limits! {
    pub const LIMITS = [cli, eval, limits];
}
