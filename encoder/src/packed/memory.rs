//! Heap memory aligned to a cache line, as mapped files are.

use super::layout::LINE_BYTES;

/// Packed weights in memory, made by [`pack`](crate::pack).
pub struct PackedWeights {
    /// The weights, after padding up to a multiple of a cache line.
    bytes: Vec<u8>,
    start: usize,
}

impl PackedWeights {
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

/// Packed weights from any owner, aligned to a cache line.
pub(crate) struct Held(Box<dyn AsRef<[u8]> + Send + Sync>);

impl Held {
    /// Takes ownership of `bytes`; if they are not aligned to a cache line, they are copied.
    pub(crate) fn of(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Held {
        // Boxed before the check: bytes stored inside the value move with the value.
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
