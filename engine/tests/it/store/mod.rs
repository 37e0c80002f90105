//! The store's behaviours one by one, through its public API and on a real folder.

mod background;
mod backups;
mod cancellation;
mod directory;
mod erasure;
mod graph;
mod limits;
mod phrases;
mod reembedding;
mod replica;
mod replication;
mod scan_cursor;
mod scratch_store;
mod search;
mod snapshots;
mod supersession;
mod supersession_chains;
mod time_travel;
mod vector_search;
mod visibility;
mod writes;
