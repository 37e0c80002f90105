//! Words beside pictures: `lamp.png.txt` and `lamp.png.md` are read with `lamp.png`.
//!
//! Owns which files these are, and their hash. `lamp.txt` is none of them: as often as not it is a text of
//! its own.

use std::collections::HashSet;

use crate::image::{BESIDE_BYTES_MAX, BESIDE_ENDINGS, Beside, is_one as is_picture};
use recalld_fs_util::roots::Roots;

/// The words beside a file.
#[derive(Debug, Default)]
pub struct Words {
    /// Whether the file is a picture; no other has any.
    pub is_picture: bool,
    /// The files that the words come from.
    pub beside: Vec<Beside>,
    /// Of their names and bytes, in hex.
    pub sha256: Option<String>,
    /// Remarks for the report of the ingest.
    pub notes: Vec<String>,
}

impl Words {
    /// Those of the file at `path`, if its bytes are a picture's.
    pub fn of(roots: &Roots, path: &str, bytes: &[u8]) -> Self {
        let mut words = Self { is_picture: is_picture(bytes), ..Self::default() };
        if !words.is_picture {
            return words;
        }
        let mut hashes = Vec::new();
        for ending in BESIDE_ENDINGS {
            let Ok(file) = roots.resolve(&format!("{path}{ending}")) else { continue };
            if file.is_folder() {
                continue;
            }
            let name = file.name().to_owned();
            if file.bytes() > BESIDE_BYTES_MAX as u64 {
                let why =
                    format!("{name} is longer than {BESIDE_BYTES_MAX} bytes and was not read");
                words.notes.push(why);
                continue;
            }
            let Ok(Some(said)) = file.read_bytes() else { continue };
            hashes.extend(recalld_fs_util::uri::sha256(name.as_bytes()));
            hashes.extend(recalld_fs_util::uri::sha256(&said));
            let text = String::from_utf8_lossy(&said).replace('\0', "");
            words.beside.push(Beside { name, text });
        }
        if !words.beside.is_empty() {
            words.sha256 = Some(engine::hex(&recalld_fs_util::uri::sha256(&hashes)));
        }
        words
    }
}

/// The name of the picture among `pictures` whose words the file at `path` has.
pub fn picture_of<'a>(path: &'a str, pictures: &HashSet<String>) -> Option<&'a str> {
    let picture = BESIDE_ENDINGS.iter().find_map(|ending| path.strip_suffix(ending))?;
    pictures.contains(picture).then(|| picture.rsplit('/').next().unwrap_or(picture))
}
