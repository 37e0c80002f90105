//! What carries a store past one machine: a copy of it on object storage, made of objects that never
//! change and of one chain of numbered records for each workspace that says which of them count
//! (`format-spec/remote.md`).
//!
//! A [`Record`] is created where none is; whoever gets the next number has committed it. Start with
//! [`Objects`] and [`Chain`], which are all that is asked of the storage.
#![forbid(unsafe_code)]

mod about;
mod address;
mod beat;
mod carry;
mod chain;
pub mod core;
mod counts;
mod driver;
mod edge;
mod fault;
mod follow;
mod hex;
mod history;
mod http;
pub mod limits;
mod names;
mod node;
mod objects;
mod open;
mod parts;
mod probe;
mod record;
mod seat;
mod ticks;
mod verify;

pub use about::{NotOurs, introduce};
pub use address::{Address, Coordinator, NotAnAddress};
pub use beat::Beat;
pub use carry::{Carrier, CarryHow, CarryWhen, Over, Standing};
pub use chain::{Chain, Etcd, EtcdObjects, ObjectChain};
pub use counts::{Counts, Op, Outcome};
pub use driver::{Driver, Halt};
pub use edge::{Edge, Kept};
pub use fault::Damage;
pub use follow::{LocalCopy, Moved, NotApplied, Tracker};
pub use hex::{Hash, Hex, Nonce};
pub use history::{NotRestored, restore, tenants};
pub use names::{DataKey, Key, NodeId, NotAName, Tenant};
pub use node::Node;
pub use objects::{About, Away, Folder, Objects, S3, S3Settings, Tried};
pub use open::{Environment, Place, Reached, Unusable, reach};
pub use parts::{Shelf, Untransferred, Upload, hash_of};
pub use probe::{Unfit, probe};
pub use record::{Bytes, FarFile, FarLog, Fold, Full, Head, Kind, LogPiece, Record};
pub use seat::{Age, Following, Lag, NotSeated, Role, Seat, Seated, Taken, is_followed};
pub use ticks::{BootClock, TickSource, Ticks};
pub use verify::{Checked, Look, find_bytes, verify};
