//! Operating system access: files, maps, time and randomness, each behind a trait or a checked type.

pub mod clock;
pub mod disk;
mod disk_read;
pub(crate) mod filling;
pub(crate) mod held;
pub(crate) mod mmap;
