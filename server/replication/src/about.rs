//! Layout marker of a remote (`format-spec/remote.md`, Keys), created by the first writer.

use serde::{Deserialize, Serialize};

use crate::fault::Damage;
use crate::hex::Nonce;
use crate::names::Key;
use crate::objects::{Away, Objects, Tried};

const FORMAT: &str = "recalld remote";
/// Newest version that this build reads, and the oldest version that can read its output.
const VERSION: u16 = 1;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum bytes of the object.
    const ABOUT_BYTES_MAX: u64 = 4 << 10;
}

#[derive(Debug, Serialize, Deserialize)]
struct Said {
    format: String,
    read_version: u16,
    write_version: u16,
    id: Nonce,
}

/// Reason why a remote cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotOurs {
    /// The remote did not respond.
    Away(Away),
    /// The remote has other content, or a newer version (REM-07).
    Other(Damage),
    /// The remote has no layout marker: nothing was ever uploaded to it.
    Empty,
}

impl std::fmt::Display for NotOurs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Away(away) => away.fmt(f),
            Self::Other(damage) => damage.fmt(f),
            Self::Empty => f.write_str("nothing was ever carried there"),
        }
    }
}

impl std::error::Error for NotOurs {}

impl From<Away> for NotOurs {
    fn from(away: Away) -> Self {
        Self::Away(away)
    }
}

/// Reads the id of a remote. If the remote is empty and `fresh` is given, creates the layout marker with that id.
///
/// # Errors
/// The remote did not respond, has other content, or is empty and `fresh` is `None`.
pub fn introduce(objects: &dyn Objects, fresh: Option<Nonce>) -> Result<Nonce, NotOurs> {
    if let Some(bytes) = objects.get(&Key::About, None, ABOUT_BYTES_MAX)? {
        return read(&bytes);
    }
    let id = fresh.ok_or(NotOurs::Empty)?;
    let said = Said { format: FORMAT.into(), read_version: VERSION, write_version: VERSION, id };
    let bytes = serde_json::to_vec(&said).expect("strings and numbers are JSON");
    if let Tried::Refused(why) = objects.put_new(&Key::About, &bytes) {
        return Err(Away { why, may_pass: false }.into());
    }
    // Another node may have created the marker first; its id counts.
    match objects.get(&Key::About, None, ABOUT_BYTES_MAX)? {
        Some(bytes) => read(&bytes),
        None => {
            Err(Away { why: "what was just created is not there".into(), may_pass: true }.into())
        }
    }
}

fn read(bytes: &[u8]) -> Result<Nonce, NotOurs> {
    let other = |why: String| NotOurs::Other(Damage::new("REM-07", why));
    let said: Said = serde_json::from_slice(bytes).map_err(|error| other(error.to_string()))?;
    if said.format != FORMAT || said.read_version > VERSION {
        let (format, version) = (said.format, said.read_version);
        return Err(other(format!(
            "it is {format:?}, version {version}; this build reads {FORMAT:?} up to version {VERSION}"
        )));
    }
    Ok(said.id)
}
