//! Bytes on the heap that start on a cache line, as those of a mapped file do.

use super::layout::LINE_BYTES;

/// Packed weights in memory, as [`pack`](crate::pack) makes them.
pub struct PackedWeights {
    /// The weights, and what is before them up to a multiple of a line.
    bytes: Vec<u8>,
    start: usize,
}

impl PackedWeights {
    /// So many zeros.
    pub(crate) fn zeros(length: usize) -> PackedWeights {
        let bytes = vec![0; length + LINE_BYTES - 1];
        let start = bytes.as_ptr().align_offset(LINE_BYTES);
        let mut zeros = PackedWeights { bytes, start };
        zeros.bytes.truncate(start + length);
        zeros
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

impl AsRef<[u8]> for PackedWeights {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Packed weights wherever they lie, starting on a line.
pub(crate) struct Held(Box<dyn AsRef<[u8]> + Send + Sync>);

impl Held {
    /// Takes bytes over; those that do not start on a line are copied.
    pub(crate) fn of(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Held {
        // Boxed first: bytes that lie in the value itself move with it.
        let held = Held(Box::new(bytes));
        let given = held.bytes();
        if given.as_ptr().addr().is_multiple_of(LINE_BYTES) {
            return held;
        }
        let mut copied = PackedWeights::zeros(given.len());
        copied.as_mut().copy_from_slice(given);
        Held(Box::new(copied))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}
