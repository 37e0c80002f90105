//! What a call wants of its workspace.

/// What a call wants of its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// To read it.
    Reads,
    /// To change it.
    Writes,
}
