//! Secret detection: keys, tokens and passwords in a text.
//!
//! Defines what counts as a secret, and finds its position. Callers receive a kind, a line and a byte range, never the
//! secret itself. The bytes are scanned once; lookahead is bounded by a named limit or cached in `Runs`. Must not know
//! items, files or tools.
//!
//! Each pattern relies on a property that other text lacks:
//! - a vendor prefix with its length and checksum (`tokens`)
//! - the frame of a key block (`blocks`)
//! - a position where only a secret occurs (`carried`)
//! - a name that denotes a secret beside a plausible value (`assigned`, `values`)
//!
//! Anything else is not reported: a false positive hides text that somebody wants to find.
#![forbid(unsafe_code)]

mod assigned;
mod blocks;
mod carried;
mod kind;
mod runs;
mod scan;
mod tokens;
mod values;

pub use kind::Kind;
pub use scan::{SENSITIVITY, Secret, each, first, masked};

limit_table::limits! {
    pub const LIMITS = [assigned, blocks, carried, tokens, values];
}

#[cfg(test)]
mod tests;
