//! A workspace that is written here: what its store tells is brought into its chain.
//!
//! [`Carrier`] is told by the store ([`engine::far::Far`]) and has two threads: one writes records, one at a
//! time; the other sends files, so that a large one holds up no commit. What is to be done next is decided by
//! [`state`], which knows no network.

mod carried;
mod carrier;
mod plan;
mod sending;
mod shared;
mod state;
mod writing;

pub use carried::Carried;
pub(crate) use carried::FILE as CARRIED_FILE;
pub use carrier::{Carrier, CarryHow, Standing};
pub use shared::{CarryWhen, Over};
