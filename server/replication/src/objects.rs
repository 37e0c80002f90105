//! What is asked of an object store: objects by name. Knows neither a network nor what objects mean.

pub(crate) mod folder;
#[cfg(feature = "remote")]
pub(crate) mod s3;

use std::fmt;
use std::fmt::Debug;
use std::ops::Range;

use crate::limits::LISTED_TOGETHER;
use crate::names::Key;

/// An object store. Every call blocks and has a deadline of its own. What an object holds is whole or
/// not there; a new object is listed and read at once by everybody (strong consistency).
pub trait Objects: Send + Sync + Debug {
    /// Puts an object there, in place of one that may be there. Done or not done where this fails; to do
    /// it again with the same bytes is safe.
    ///
    /// # Errors
    /// The store did not say that it is there.
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away>;

    /// Puts an object where none is, with `If-None-Match: *` (RFC 9110, section 13.1.2), in one request
    /// that nothing below repeats.
    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried;

    /// The bytes of an object, those of `range` where one is given; `None` where there is no object.
    /// A range reaches at most to the object's end. More than `most` bytes are an error.
    ///
    /// # Errors
    /// The store did not answer, or with more than `most` bytes.
    fn get(&self, key: &Key, range: Option<Range<u64>>, most: u64)
    -> Result<Option<Vec<u8>>, Away>;

    /// What is known of an object without its bytes; `None` where there is none.
    ///
    /// # Errors
    /// The store did not answer.
    fn head(&self, key: &Key) -> Result<Option<About>, Away>;

    /// The first `most` objects whose keys begin with `prefix` and come after `after`, ascending by the
    /// bytes of their keys. `prefix` ends with `/`, or is empty. Objects whose names are no [`Key`] are left out.
    ///
    /// # Errors
    /// The store did not answer.
    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away>;

    /// Removes objects; one that is not there is removed already.
    ///
    /// # Errors
    /// Some may be there still.
    fn remove(&self, keys: &[Key]) -> Result<(), Away>;
}

/// Has `with` look at each object whose key begins with `prefix`, ascending, as [`Objects::list`] has them.
///
/// # Errors
/// The store did not answer; or what `with` says, which ends it.
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

/// An object, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub key: Key,
    /// Its length.
    pub bytes: u64,
    /// How long before the store's answer it was last written, by the store's own clock, in seconds.
    /// Where the store does not say, 0: as if it were new.
    pub age_s: u64,
}

/// What became of a creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// It is there, and ours.
    Made,
    /// Another one was there, or nobody knows: what is there must be read (409, 412, 5xx, no answer).
    Unsure(String),
    /// The store will not have it, and has nothing of it: credentials, the bucket, its rules (400, 401, 403,
    /// 411, 413, 501).
    Refused(String),
}

/// The store did not do what was asked, or did not say so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// What it said, for people.
    pub why: String,
    /// Whether to ask again can help: not where credentials or the bucket are wrong.
    pub may_pass: bool,
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Away {}
