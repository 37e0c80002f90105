//! The store's behaviours one by one, through its public API and on a real folder.

mod background;
mod backups;
mod carried;
mod chains;
mod directory;
mod erasure;
mod following;
mod graph;
mod hidden;
mod limits;
mod nearest;
mod quoted;
mod reembedding;
mod resumed;
mod retired;
mod scratch;
mod searches;
mod snapshots;
mod stops;
mod times;
mod writes;
