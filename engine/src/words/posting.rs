//! A posting, as all of this room speaks of it.

/// One term in one row: how often in the body and in the title, each at most 255.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// The row.
    pub row: u32,
    /// Times in the body.
    pub body: u8,
    /// Times in the title.
    pub title: u8,
}
