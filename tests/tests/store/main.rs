//! The store's behaviours one by one, through its public door and on a real folder.

mod background;
mod backups;
mod chains;
mod directory;
mod erasure;
mod graph;
mod limits;
mod nearest;
mod reembedding;
mod retired;
mod scratch;
mod searches;
mod snapshots;
mod stops;
mod times;
mod writes;
