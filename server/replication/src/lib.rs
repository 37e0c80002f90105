//! Replication of a store to object storage: immutable objects, and one log of numbered records per workspace that
//! names the objects which count (`format-spec/remote.md`).
//!
//! A [`Record`] is created with a conditional put; creating the next number commits it. [`Objects`] and [`Chain`] are
//! the whole interface to the storage and the place to start reading.
#![forbid(unsafe_code)]

mod about;
mod address;
mod ahead;
mod alone;
mod beat;
mod carry;
mod chain;
pub mod core;
mod counts;
mod driver;
mod edge;
mod emptied;
mod empty;
mod environment;
mod erased;
mod fault;
mod follow;
mod hex;
mod history;
mod holds;
#[cfg(feature = "remote")]
mod http;
mod ledger;
pub mod limits;
mod names;
mod node;
mod objects;
mod open;
mod parts;
mod probe;
mod record;
mod seat;
mod since;
mod small_file;
mod ticks;
mod verify;

pub use about::{NotOurs, introduce};
pub use address::{Address, Coordinator, NotAnAddress};
pub use alone::{Sweeper, Swept};
pub use beat::Beat;
pub use carry::{Carried, Carrier, CarryHow, CarryWhen, Over, Standing};
pub use chain::Chain;
#[cfg(feature = "etcd")]
pub use chain::etcd::{Etcd, EtcdObjects};
pub use chain::objects::ObjectChain;
pub use counts::{Counts, Op, Outcome};
pub use driver::{Driver, Halt};
pub use edge::{Edge, Kept};
pub use empty::{Deleted, Emptied, Emptying, GivenUp, May, Moment, NotNow};
pub use environment::{Environment, Unusable};
pub use erased::{Left, find_erased};
pub use fault::Damage;
pub use follow::{
    Cache, CacheUse, Keeper, LocalCopy, Moved, NotApplied, PartialDisk, Tended, Tracker,
};
pub use hex::{Hash, Hex, Nonce};
pub use history::{NotRestored, restore, tenants};
pub use holds::{Holding, Holds};
pub use ledger::{
    LedgerBringer, LedgerSource, LedgerThere, LedgerVolume, NotBrought, NotFetched, ledgers,
    was_brought,
};
pub use names::{DataKey, Key, LedgerPiece, NodeId, NotAName, Tenant};
pub use node::Node;
pub use objects::folder::Folder;
#[cfg(feature = "remote")]
pub use objects::s3::S3;
pub use objects::{About, Away, Objects, Tried};
pub use open::{Place, Reached, S3Settings, reach};
pub use parts::{Shelf, Untransferred, Upload, hash_of};
pub use probe::{Unfit, clear_probes, probe};
pub use record::{Bytes, FarFile, FarLog, Fold, Full, Head, Kind, LogPiece, Record};
pub use seat::holdings::Holdings;
pub use seat::{
    Age, Erasing, Following, NotSeated, Owed, RecordObserver, Role, Seat, Seated, Taken, forget,
    held_in, is_followed, may_have_bytes,
};
pub use small_file::{put as put_small_file, read_noted};
pub use ticks::{BootClock, TickSource, Ticks};
pub use verify::{Checked, Look, verify};

limit_table::limits! {
    pub const LIMITS = [about, core, follow, ledger, limits, seat];
}
