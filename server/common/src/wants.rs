//! Access to a workspace that a call requires.

/// Access to a workspace that a call requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Read access.
    Reads,
    /// Write access.
    Writes,
}
