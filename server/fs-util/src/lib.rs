//! Files and folders: the layout of a data directory, private files, allowed roots, copies.
#![forbid(unsafe_code)]

pub mod beneath;
pub mod copies;
pub mod data_dir;
pub mod private_file;
pub mod private_file_error;
pub mod roots;
#[cfg(any(test, feature = "test-util"))]
pub mod scratch;
pub mod start_error;
pub mod told_disk;
pub mod uri;

limit_table::limits! {
    pub const LIMITS = [roots];
}
