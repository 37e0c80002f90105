//! The store of `recalld`: typed memory items, their sources, the edges between them and their
//! embeddings, in a hand-written columnar format that is mapped into memory and read where it
//! lies.
//!
//! Start with [`Store::open`]; write a [`Batch`]; read through a [`Snapshot`]. The bytes are
//! described in `format-spec/`.
#![deny(unsafe_code)]

mod backup;
mod compact;
mod cursor;
mod erase;
mod error;
mod gone;
mod graph;
mod ground;
mod ids;
mod item;
mod job;
mod layout;
pub mod ledger;
pub mod limits;
mod links;
mod log;
mod manifest;
mod merge;
mod moment;
mod opening;
pub mod os;
mod pace;
mod reader;
mod record;
mod reembed;
mod rows;
mod salvage;
mod score;
mod segment;
mod settle;
mod snapshot;
mod state;
mod store;
mod supersede;
mod top;
mod upkeep;
mod verify;
mod walk;
mod wanted;
pub mod words;
mod writer;

pub use backup::{Copied, CopyError, restore};
pub use compact::Compacted;
pub use error::{Damage, DiskError, OpenError, Remedy, WriteError};
pub use graph::{
    Direction, EdgeFilter, GRAPH_EDGES_MAX, GRAPH_NODES_MAX, HOPS_MAX, NEIGHBOURS_MAX, Neighbour,
    Neighbourhood, Path, Reached, Step, WalkLimits,
};
pub use ground::Ground;
pub use ids::{EdgeId, ItemId, NotAnId, Row, Seq, SourceId, StoreId};
pub use item::{
    Batch, EdgeDraft, ItemDraft, Sensitivity, SourceDraft, Span, TombstoneDraft, Unwritten,
};
pub use layout::{COLUMNS, Cells, ColumnSpec, READ_VERSION, Table, WRITE_VERSION};
pub use log::Durability;
pub use manifest::{Model, hex};
pub use moment::Moment;
pub use os::clock::Micros;
pub use pace::{FullSpeed, Pace};
pub use reader::{OPEN_ATTEMPTS_MAX, Reader};
pub use reembed::{ReembedError, Reembedded, Reencoder};
pub use salvage::{FileReport, LOSSES_MAX, LeftOut, Rows, Salvage, Salvaged, salvage};
pub use score::Hit;
pub use segment::{EdgeView, ItemView, SourceView, TombstoneView};
pub use snapshot::{Census, Counts, Filter, Place, Snapshot, Status};
pub use store::{Options, Store, Written};
pub use supersede::{CHAIN_ITEMS_MAX, Chain, Member, Successors};
pub use top::Top;
pub use upkeep::{UPKEEP_CPU_PERCENT, UPKEEP_PAUSE, Upkeep};
pub use verify::{
    ERASURE_LIMITS, Erasure, FINDINGS_MAX, NOTES_MAX, Occurrence, Verified, Walked, verify,
    verify_erased,
};
pub use walk::{Record, Records, Target};
