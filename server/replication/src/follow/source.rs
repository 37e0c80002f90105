//! Byte source of a partial file: ranges of its object's parts.
//!
//! Owns the file's share of the cache while any reader has the file. Must not know which bytes are needed next.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::lazy_file::RangeFetcher;
use engine::limits::FILL_BYTES;

use super::cache::Cache;
use crate::names::Tenant;
use crate::objects::Objects;
use crate::parts::{Shelf, Untransferred};
use crate::record::FarFile;

/// A workspace's file on object storage.
#[derive(Debug)]
pub(super) struct Source {
    objects: Arc<dyn Objects>,
    tenant: Tenant,
    file: FarFile,
    cache: Arc<Cache>,
    /// Local bytes of the file.
    bytes: AtomicU64,
    /// True if the file is exempt from the cache bound: while it is opened, and on the leader.
    is_free: AtomicBool,
    /// Error of the last fetch.
    failed: Mutex<Option<Untransferred>>,
}

/// Object store and cache of a directory's sources.
#[derive(Debug, Clone)]
pub(super) struct Supply {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) tenant: Tenant,
    pub(super) cache: Arc<Cache>,
    /// Directory of the files.
    pub(super) root: PathBuf,
}

impl Source {
    /// Creates the source of a file of which `here` bytes are local.
    pub(super) fn new(supply: &Supply, file: &FarFile, here: u64) -> Self {
        supply.cache.count(here);
        Self {
            objects: Arc::clone(&supply.objects),
            tenant: supply.tenant.clone(),
            file: file.clone(),
            cache: Arc::clone(&supply.cache),
            bytes: AtomicU64::new(here),
            is_free: AtomicBool::new(true),
            failed: Mutex::default(),
        }
    }

    /// Sets the exemption from the cache bound.
    pub(super) fn set_free(&self, is_free: bool) {
        self.is_free.store(is_free, Ordering::Relaxed);
    }

    /// Takes the error of the last fetch.
    pub(super) fn failed(&self) -> Option<Untransferred> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn bytes_of(&self, range: Range<u64>) -> Result<Vec<u8>, Untransferred> {
        let bytes = range.end.saturating_sub(range.start);
        let admitted = self.cache.admit(bytes, self.is_free.load(Ordering::Relaxed));
        admitted.map_err(Untransferred::Later)?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let shelf = Shelf { objects: &*self.objects, tenant: &self.tenant };
        let fetched = self.cache.fetch(|| shelf.range(self.file.key, self.file.bytes, range));
        match &fetched {
            Ok(_) => self.cache.filled(bytes),
            Err(_) => {
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.cache.release(bytes);
            }
        }
        fetched
    }
}

impl RangeFetcher for Source {
    fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, String> {
        self.bytes_of(range).map_err(|why| {
            let told = why.to_string();
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            told
        })
    }

    fn can_read_ahead(&self) -> bool {
        self.is_free.load(Ordering::Relaxed) || self.cache.has_spare(FILL_BYTES as u64)
    }
}

/// No reader is left, and the file's name was removed before, so its bytes are free.
impl Drop for Source {
    fn drop(&mut self) {
        self.cache.release(self.bytes.load(Ordering::Relaxed));
    }
}
