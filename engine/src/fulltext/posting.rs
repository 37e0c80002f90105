/// Occurrences of one term in one row, at most 255 in the body and in the title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posting {
    /// Row number.
    pub row: u32,
    /// Occurrences in the body.
    pub body: u8,
    /// Occurrences in the title.
    pub title: u8,
}
