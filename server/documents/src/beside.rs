//! Sidecar texts: `lamp.png.txt` and `lamp.png.md` are read together with `lamp.png`.
//!
//! `lamp.txt` is not a sidecar of `lamp.png`: such a file is often an unrelated text.

use std::collections::HashSet;

use crate::image::{BESIDE_BYTES_MAX, BESIDE_ENDINGS, Beside, is_one as is_picture};
use recalld_fs_util::roots::Roots;

/// The sidecar texts of one file.
#[derive(Debug, Default)]
pub struct Words {
    /// True for an image; other files have no sidecar texts.
    pub is_picture: bool,
    /// Sidecar files in the order of `BESIDE_ENDINGS`.
    pub beside: Vec<Beside>,
    /// SHA-256 over the hashes of the sidecars' names and bytes, in hex; `None` without sidecars.
    pub sha256: Option<String>,
    /// Remarks for the ingest report.
    pub notes: Vec<String>,
}

impl Words {
    /// Reads the sidecars of the file at `path`, if `bytes` are those of an image.
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

/// Returns the name of the image among `pictures` to which the sidecar at `path` belongs.
pub fn picture_of<'a>(path: &'a str, pictures: &HashSet<String>) -> Option<&'a str> {
    let picture = BESIDE_ENDINGS.iter().find_map(|ending| path.strip_suffix(ending))?;
    pictures.contains(picture).then(|| picture.rsplit('/').next().unwrap_or(picture))
}
