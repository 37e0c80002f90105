//! Interface of an object store: objects by key.

pub(crate) mod folder;
#[cfg(feature = "remote")]
pub(crate) mod s3;

use std::fmt;
use std::fmt::Debug;
use std::ops::Range;

use crate::limits::LISTED_TOGETHER;
use crate::names::Key;

/// An object store. Each call blocks and has its own timeout. Objects are written atomically; a new object is visible
/// to all readers and listings at once (strong consistency).
pub trait Objects: Send + Sync + Debug {
    /// Puts an object and replaces an existing one. After an error the object may or may not be stored; a retry with
    /// the same bytes is safe.
    ///
    /// # Errors
    /// The store did not confirm the put.
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away>;

    /// Puts an object if its key is absent, with `If-None-Match: *` (RFC 9110, section 13.1.2). The put is a single
    /// request that no lower layer retries.
    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried;

    /// Reads an object, or the bytes in `range`; `None` if there is no object. A range is cut at the object's end. More
    /// than `most` bytes are an error.
    ///
    /// # Errors
    /// The store did not respond, or with more than `most` bytes.
    fn get(&self, key: &Key, range: Option<Range<u64>>, most: u64)
    -> Result<Option<Vec<u8>>, Away>;

    /// Reads the metadata of an object; `None` if there is no object.
    ///
    /// # Errors
    /// The store did not respond.
    fn head(&self, key: &Key) -> Result<Option<About>, Away>;

    /// Lists the first `most` objects whose keys begin with `prefix` and sort after `after`, ascending by the bytes of
    /// their keys. `prefix` is empty or ends with `/`. Objects whose names are no [`Key`] are omitted.
    ///
    /// # Errors
    /// The store did not respond.
    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away>;

    /// Removes objects. An absent object counts as removed.
    ///
    /// # Errors
    /// Some of the objects may still exist.
    fn remove(&self, keys: &[Key]) -> Result<(), Away>;
}

/// Calls `with` for each object whose key begins with `prefix`, ascending, as listed by [`Objects::list`].
///
/// # Errors
/// The store did not respond, or `with` failed, which ends the loop.
pub(crate) fn each(
    objects: &dyn Objects,
    prefix: &str,
    mut with: impl FnMut(&About) -> Result<(), Away>,
) -> Result<(), Away> {
    let mut after = None;
    loop {
        let listed = objects.list(prefix, after.as_ref(), LISTED_TOGETHER)?;
        listed.iter().try_for_each(&mut with)?;
        match listed.last() {
            Some(last) if listed.len() == LISTED_TOGETHER => after = Some(last.key.clone()),
            _ => return Ok(()),
        }
    }
}

/// Metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Key of the object.
    pub key: Key,
    /// Length in bytes.
    pub bytes: u64,
    /// Seconds from the last write to the store's response, by the store's own clock. If the store does not report a
    /// time, 0, as for a new object.
    pub age_s: u64,
}

/// Outcome of a conditional put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// The object is stored, and it is the caller's.
    Made,
    /// Another object exists, or the outcome is unknown: the caller must read the object (409, 412, 5xx, no response).
    Unsure(String),
    /// The store rejected the object and stored nothing: wrong credentials, bucket or policy (400, 401, 403, 411, 413,
    /// 501).
    Refused(String),
}

/// Error of a store that failed or did not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// Message for users.
    pub why: String,
    /// True if a retry may succeed; false if credentials or bucket are wrong.
    pub may_pass: bool,
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Away {}
