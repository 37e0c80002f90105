//! Destinations of a segment's bytes: the heap or a file.
//!
//! Owns bytes only; pages, columns and checksums of the format belong to [`super::file_writer`].

use sha2::{Digest, Sha256};

use crate::error::DiskError;
use crate::os::disk::DiskFile;
use crate::os::mmap::{AlignedBytes, HUGE_PAGE_BYTES};
use crate::throttle::Throttle;

/// Write size of [`FileSink`]. If a file is written in units of a huge page, the operating system caches the file in
/// huge pages. Later scans then read from these pages and not from the device.
const BUFFER_BYTES: usize = HUGE_PAGE_BYTES;

/// Receives the bytes of a file in order.
pub(crate) trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]) -> Result<(), DiskError>;

    /// Reports work that has not written any bytes yet. Returns false if the work must end.
    fn after_work(&self) -> bool {
        true
    }
}

/// Writing to the heap never fails.
impl Sink for AlignedBytes {
    fn put(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.extend(bytes);
        Ok(())
    }
}

/// Writes a new file and computes the SHA-256 of its bytes. Syncing and renaming the file is left to the caller.
pub(crate) struct FileSink<'a> {
    file: &'a dyn DiskFile,
    throttle: &'a dyn Throttle,
    buffer: Vec<u8>,
    sha256: Sha256,
}

impl<'a> FileSink<'a> {
    /// Appends to `file`. Work without output polls `pace`.
    pub(crate) fn new(file: &'a dyn DiskFile, pace: &'a dyn Throttle) -> Self {
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Self { file, throttle: pace, buffer, sha256: Sha256::new() }
    }

    /// Writes the buffered rest and returns the SHA-256 of all bytes.
    pub(crate) fn finish(mut self) -> Result<[u8; 32], DiskError> {
        self.flush()?;
        Ok(self.sha256.finalize().into())
    }
}

impl FileSink<'_> {
    fn flush(&mut self) -> Result<(), DiskError> {
        self.sha256.update(&self.buffer);
        self.file.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

impl Sink for FileSink<'_> {
    fn put(&mut self, mut bytes: &[u8]) -> Result<(), DiskError> {
        while !bytes.is_empty() {
            let (fits, rest) = bytes.split_at(bytes.len().min(BUFFER_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(fits);
            if self.buffer.len() == BUFFER_BYTES {
                self.flush()?;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn after_work(&self) -> bool {
        self.throttle.after_work()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::throttle::NoThrottle;

    /// Length of each append.
    #[derive(Debug, Default)]
    struct Pieces(Mutex<Vec<usize>>);

    impl DiskFile for Pieces {
        fn append(&self, bytes: &[u8]) -> Result<(), DiskError> {
            self.0.lock().unwrap().push(bytes.len());
            Ok(())
        }

        fn sync(&self) -> Result<(), DiskError> {
            Ok(())
        }

        fn reserve(&self, _: u64) -> Result<(), DiskError> {
            Ok(())
        }
    }

    /// Appends are whole huge pages, whatever the lengths of the input: only then does the system cache the file in
    /// huge pages.
    #[test]
    fn file_sink_writes_in_huge_page_units() {
        let (file, pieces) = (Pieces::default(), [7, HUGE_PAGE_BYTES + 1, 3, HUGE_PAGE_BYTES, 5]);
        let mut sink = FileSink::new(&file, &NoThrottle);
        let all = vec![9; HUGE_PAGE_BYTES + 1];
        pieces.iter().for_each(|&bytes| sink.put(&all[..bytes]).unwrap());
        let sha256 = sink.finish().unwrap();
        let whole = vec![9; pieces.iter().sum()];
        assert_eq!(sha256, <[u8; 32]>::from(Sha256::digest(&whole)));
        assert_eq!(*file.0.lock().unwrap(), [HUGE_PAGE_BYTES, HUGE_PAGE_BYTES, 16]);
    }
}
