//! The `recalld` program.
fn main() {}
