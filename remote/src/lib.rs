//! What carries a store past one machine: a copy of it on object storage, made of objects that never
//! change and of one chain of numbered records for each workspace that says which of them count
//! (`format-spec/remote.md`).
//!
//! A [`Record`] is created where none is; whoever gets the next number has committed it. Start with
//! [`Objects`] and [`Chain`], which are all that is asked of the storage; [`core`] is the protocol, and a
//! [`Driver`] runs it.
#![forbid(unsafe_code)]

mod address;
mod beat;
mod chain;
pub mod core;
mod counts;
mod driver;
mod edge;
mod fault;
mod hex;
mod http;
pub mod limits;
mod names;
mod objects;
mod open;
mod record;
mod ticks;

pub use address::{Address, Coordinator, NotAnAddress};
pub use beat::Beat;
pub use chain::{Chain, Etcd, EtcdObjects, ObjectChain};
pub use counts::{Counts, Op, Outcome};
pub use driver::Driver;
pub use edge::{Edge, Kept};
pub use fault::Damage;
pub use hex::{Hash, Nonce};
pub use names::{DataKey, Key, NodeId, NotAName, Tenant};
pub use objects::{About, Away, Folder, Objects, S3, S3Settings, Tried};
pub use open::{Environment, Place, Reached, Unusable, reach};
pub use record::{Bytes, FarFile, FarLog, Fold, Full, Head, Kind, LogPiece, Record};
pub use ticks::{BootClock, TickSource, Ticks};
