//! Export and import: JSON Lines of this project, exports of other programs, folders of notes.
#![forbid(unsafe_code)]

pub mod foreign;
pub mod limits;
pub mod lines;
pub mod vault;

limit_table::limits! {
    pub const LIMITS = [foreign, limits, lines, vault];
}
