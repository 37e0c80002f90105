//! The storage engine of `recalld`: typed memory items, their sources, the edges between them, and their embeddings.
//! The files have a columnar format of the engine's own; they are mapped into memory and read in place.
//!
//! Start with [`Store::open`]; write a [`Batch`]; read through a [`Snapshot`]. `format-spec/` specifies the format.
#![deny(unsafe_code)]

mod byte_reader;
mod cancel;
mod error;
pub mod fulltext;
mod ids;
mod item;
mod layout;
pub mod lazy_file;
pub mod ledger;
pub mod limits;
mod maintenance;
mod manifest;
mod merge;
pub mod os;
mod query;
mod record_codec;
mod row_state;
mod segment;
mod segment_snapshot;
mod store;
mod throttle;
mod top_k;
mod total_order;
mod vector_index;
mod wal;

pub use cancel::CancelToken;
pub use error::{CorruptionError, DiskError, OpenError, Remedy, SearchError, WriteError};
pub use ids::{EdgeId, ItemId, ParseIdError, Row, Seq, SourceId, StoreId};
pub use item::{
    Batch, BatchError, EdgeDraft, ItemDraft, Sensitivity, SourceDraft, Span, TombstoneDraft,
};
pub use layout::{COLUMNS, Cells, ColumnSpec, READ_VERSION, Table, WRITE_VERSION};
pub use maintenance::background::{
    BACKGROUND_CPU_PERCENT, BACKGROUND_RETRY_PAUSE, BackgroundWorkers,
};
pub use maintenance::backup::{CopyError, CopyReport, restore};
pub use maintenance::compact::CompactionOutcome;
pub use maintenance::index_build::IndexOutcome;
pub use maintenance::reembed::{ItemEncoder, ReembedError, ReembedReport};
pub use maintenance::salvage::{
    DroppedCounts, FileReport, LOSSES_MAX, RecordCounts, Salvage, SalvageReport, salvage,
};
pub use maintenance::verify::erasure_proof::{
    ERASURE_LIMITS, ErasureProof, Occurrence, verify_erased,
};
pub use maintenance::verify::{FINDINGS_MAX, NOTES_MAX, VerifyReport, VerifyTotals, verify};
pub use manifest::{Model, hex};
pub use os::clock::Micros;
pub use query::ann_policy::{AnnPolicy, AnnStatus, SearchMode};
pub use query::as_of::AsOf;
pub use query::filter::{Filter, ItemSet};
pub use query::graph::{
    Direction, EdgeFilter, GRAPH_EDGES_MAX, GRAPH_NODES_MAX, GraphPath, HOPS_MAX, NEIGHBOURS_MAX,
    Neighbour, Neighbourhood, PathStep, ReachedItem, WalkLimits,
};
pub use query::records::{Record, Records, TombstoneTarget};
pub use query::scan_cursor::ScanCursor;
pub use query::score::{
    BatchQuery, Hit, ItemLexicalScore, LexicalScores, LexicalSearch, PhraseMatches,
    QUOTED_BYTES_MAX, QUOTED_ITEMS_MAX, QueryTermWeight,
};
pub use query::snapshot::{ItemCounts, RowAddress, RowCounts, Snapshot, SnapshotVersion, Status};
pub use query::source_paths::SOURCES_LOOKED_AT_MAX;
pub use query::supersession::{CHAIN_ITEMS_MAX, Chain, ChainMember, Successors};
pub use query::visibility::{AccessClass, Visibility, VisibilityMask};
pub use segment::{EdgeView, ItemView, SourceView, TombstoneView};
pub use store::replication_sink;
pub use store::{CommitInfo, Env, OPEN_ATTEMPTS_MAX, Options, Store, StoreMetrics, StoreReader};
pub use throttle::{NoThrottle, Throttle};
pub use top_k::TopK;
pub use vector_index::INDEX_HEADER;
pub use wal::Durability;

limit_table::limits! {
    pub const LIMITS = [vector_index, limits, query, fulltext];
}
