//! Operating system access: files, maps, time and randomness, each behind a trait or a checked type.

pub mod clock;
pub mod disk;
mod disk_read;
pub(crate) mod file_lock;
pub(crate) mod lazy_file;
pub(crate) mod mmap;
