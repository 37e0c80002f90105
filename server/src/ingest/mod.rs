//! Ingest: files under allowed roots become documents, and documents become chunks.
//!
//! Owns the walk (`walk`), the path policy (`roots`, `beneath`), the readers (`read`), the cutting
//! into chunks (`chunk`, `pieces`) and the guessing of link targets (`links`). Knows file descriptors and bytes; must not
//! know the engine, HTTP or the tools. Everything here is a pure function of the bytes it is given.

mod beneath;
pub mod chunk;
pub mod links;
mod pieces;
pub mod read;
pub mod roots;
pub mod walk;
