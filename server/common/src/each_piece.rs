//! A writer that hands on what is written, piece by piece, and keeps nothing: for hashes and counts of what would be
//! written, such as JSON of megabytes.

use std::io;

/// Gives each piece to a function, which takes all of it.
pub struct EachPiece<F>(pub F);

impl<F: FnMut(&[u8])> io::Write for EachPiece<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
