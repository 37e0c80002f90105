//! The store of `recalld`: typed memory items, their sources, the edges between them and their
//! embeddings, in a hand-written columnar format that is mapped into memory and read where it
//! lies.
//!
//! Start with [`Store::open`]; write a [`Batch`]; read through a [`Snapshot`]. The bytes are
//! described in `format-spec/`.
#![deny(unsafe_code)]

mod cursor;
mod error;
mod graph;
mod ids;
mod item;
mod layout;
pub mod ledger;
pub mod limits;
mod links;
mod log;
mod manifest;
mod merge;
pub mod os;
mod record;
mod score;
mod segment;
mod snapshot;
mod state;
mod store;
mod supersede;
mod top;
mod walk;
pub mod words;
mod writer;

pub use error::{Damage, DiskError, OpenError, Remedy, WriteError};
pub use graph::{Direction, EDGES_PER_ITEM_MAX, Neighbour};
pub use ids::{EdgeId, ItemId, NotAnId, Row, Seq, SourceId, StoreId};
pub use item::{Batch, EdgeDraft, ItemDraft, Sensitivity, SourceDraft, Span, TombstoneDraft};
pub use layout::{COLUMNS, Cells, ColumnSpec, READ_VERSION, Table, WRITE_VERSION};
pub use log::Durability;
pub use manifest::{Model, hex};
pub use os::clock::Micros;
pub use score::Hit;
pub use segment::{EdgeView, ItemView, SourceView, TombstoneView};
pub use snapshot::{Census, Counts, Filter, Place, Snapshot, Status};
pub use store::{Ground, Options, Store, Written};
pub use top::Top;
pub use walk::{Record, Records, Target};
