//! Export and import: this project's JSON Lines, exports of other programs, folders of notes.
#![forbid(unsafe_code)]

pub mod foreign;
pub mod limits;
pub mod lines;
pub mod vault;

limit_table::limits! {
    pub const LIMITS = [foreign, limits, lines, vault];
}
