//! The storage engine of `recalld`: typed memory items, their sources, the edges between them, and their embeddings.
//! The files have a columnar format of the engine's own; they are mapped into memory and read in place.
//!
//! Start with [`Store::open`]; write a [`Batch`]; read through a [`Snapshot`]. `format-spec/` specifies the format.
#![deny(unsafe_code)]

mod cursor;
mod error;
pub mod filling;
mod ids;
mod index;
mod item;
mod keeping;
mod layout;
pub mod ledger;
pub mod limits;
mod log;
mod manifest;
mod merge;
mod ordered;
pub mod os;
mod pace;
mod part;
mod reading;
mod record;
mod segment;
mod state;
mod stop;
mod store;
mod top;
pub mod words;

pub use error::{Damage, DiskError, OpenError, Remedy, SearchError, WriteError};
pub use ids::{EdgeId, ItemId, NotAnId, Row, Seq, SourceId, StoreId};
pub use index::INDEX_HEADER;
pub use item::{
    Batch, EdgeDraft, ItemDraft, Sensitivity, SourceDraft, Span, TombstoneDraft, Unwritten,
};
pub use keeping::backup::{Copied, CopyError, restore};
pub use keeping::compact::Compacted;
pub use keeping::indexing::Indexed;
pub use keeping::reembed::{ReembedError, Reembedded, Reencoder};
pub use keeping::salvage::{FileReport, LOSSES_MAX, LeftOut, Rows, Salvage, Salvaged, salvage};
pub use keeping::upkeep::{UPKEEP_CPU_PERCENT, UPKEEP_PAUSE, Upkeep};
pub use keeping::verify::erased::{ERASURE_LIMITS, Erasure, Occurrence, verify_erased};
pub use keeping::verify::{FINDINGS_MAX, NOTES_MAX, Verified, Walked, verify};
pub use layout::{COLUMNS, Cells, ColumnSpec, READ_VERSION, Table, WRITE_VERSION};
pub use log::Durability;
pub use manifest::{Model, hex};
pub use os::clock::Micros;
pub use pace::{FullSpeed, Pace};
pub use reading::filter::{Chosen, Filter};
pub use reading::graph::{
    Direction, EdgeFilter, GRAPH_EDGES_MAX, GRAPH_NODES_MAX, HOPS_MAX, NEIGHBOURS_MAX, Neighbour,
    Neighbourhood, Path, Reached, Step, WalkLimits,
};
pub use reading::hidden::{Class, Hidden, Sight};
pub use reading::moment::Moment;
pub use reading::places::SOURCES_LOOKED_AT_MAX;
pub use reading::resume::Mark;
pub use reading::score::{
    Asked, AskedTerm, AskedWords, GivenWords, Hit, QUOTED_BYTES_MAX, QUOTED_ITEMS_MAX, Quoted,
    WordScores,
};
pub use reading::searching::{SearchMode, SearchState, Searching};
pub use reading::snapshot::{Census, Counts, Edition, Place, Snapshot, Status};
pub use reading::supersede::{CHAIN_ITEMS_MAX, Chain, Member, Successors};
pub use reading::walk::{Record, Records, Target};
pub use segment::{EdgeView, ItemView, SourceView, TombstoneView};
pub use stop::Stop;
pub use store::far;
pub use store::{Figures, Ground, OPEN_ATTEMPTS_MAX, Options, Reader, Store, Written};
pub use top::Top;

limit_table::limits! {
    pub const LIMITS = [index, limits, reading, words];
}
