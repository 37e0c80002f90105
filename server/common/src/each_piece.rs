//! A writer that passes each chunk to a closure and stores nothing. Used to hash or count output that would be large,
//! such as megabytes of JSON.

use std::io;

/// Passes each chunk to the closure, which consumes the whole chunk.
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
