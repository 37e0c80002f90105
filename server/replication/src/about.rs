//! What a remote says of itself (`format-spec/remote.md`, Keys): made by the first who writes there.

use serde::{Deserialize, Serialize};

use crate::fault::Damage;
use crate::hex::Nonce;
use crate::names::Key;
use crate::objects::{Away, Objects, Tried};

const FORMAT: &str = "recalld remote";
/// Newest version that this build reads, and the least that can read what it writes.
const VERSION: u16 = 1;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Longest object that is read.
    const ABOUT_BYTES_MAX: u64 = 4 << 10;
}

#[derive(Debug, Serialize, Deserialize)]
struct Said {
    format: String,
    read_version: u16,
    write_version: u16,
    id: Nonce,
}

/// Why a remote is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotOurs {
    /// It did not answer.
    Away(Away),
    /// It is another thing, or of a newer version (REM-07).
    Other(Damage),
    /// Nothing was ever carried there.
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

/// The id of a remote. Where it has none and `fresh` is given, that becomes it.
///
/// # Errors
/// No answer; another thing; nothing there, where nothing may be made.
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
    // Another one may have been faster, and its id counts.
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
