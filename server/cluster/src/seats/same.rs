//! Identity check of the remote. An emptied bucket or an unmounted directory looks like a new remote. Starting on it
//! would acknowledge writes that no other node can see.

use std::path::Path;

use recalld_replication::{Nonce, NotOurs, Objects, introduce, put_small_file, read_noted};
use serde::{Deserialize, Serialize};

/// File with the identity of the remote.
const FILE: &str = "carried-to.json";
const FORMAT: &str = "recalld remote of a node";
/// Maximum bytes of the file: an address has at most a few hundred.
const CARRIED_TO_BYTES_MAX: u64 = 8 << 10;

#[derive(Debug, Serialize, Deserialize)]
struct Known {
    format: String,
    /// Address as configured.
    address: String,
    /// Id in the remote's layout marker.
    id: Nonce,
}

/// Checks that the remote at an address is the one that this data directory was uploaded to before. On first use the
/// remote's identity is recorded; an empty remote then receives the id `fresh`.
///
/// # Errors
/// The remote did not respond, has other content, or has another id; or the file cannot be read or written.
pub(super) fn recognise(
    data: &Path,
    address: &str,
    objects: &dyn Objects,
    fresh: Nonce,
) -> Result<(), String> {
    let known = read(data)?.filter(|known| known.address == address);
    let begin_anew = || {
        format!(
            "is it mounted, and the one that is meant? To carry everything to it anew, remove {}",
            data.join(FILE).display()
        )
    };
    let id = match introduce(objects, known.is_none().then_some(fresh)) {
        Ok(id) => id,
        Err(NotOurs::Empty) => {
            return Err(format!("what was carried there is not there any more; {}", begin_anew()));
        }
        Err(why) => return Err(why.to_string()),
    };
    match known {
        Some(known) if known.id == id => Ok(()),
        Some(known) => Err(format!(
            "it is the remote {id}, and what is here was carried to {}; {}",
            known.id,
            begin_anew()
        )),
        None => note(data, Known { format: FORMAT.to_owned(), address: address.to_owned(), id }),
    }
}

fn note(data: &Path, known: Known) -> Result<(), String> {
    let bytes = serde_json::to_vec(&known).map_err(|error| error.to_string())?;
    let put = put_small_file(data, FILE, &bytes);
    put.map_err(|error| format!("{}: {error}", data.join(FILE).display()))
}

fn read(data: &Path) -> Result<Option<Known>, String> {
    read_noted(&data.join(FILE), CARRIED_TO_BYTES_MAX, (FORMAT, |known: &Known| &known.format))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use recalld_replication::{Folder, Hex, Key};

    use super::*;

    #[test]
    fn a_remote_that_lost_what_it_had_is_no_new_one() {
        let scratch = tempfile::tempdir().unwrap();
        let data = scratch.path().join("data");
        fs::create_dir(&data).unwrap();
        let there =
            |name: &str| Folder::open(&scratch.path().join(name), Default::default()).unwrap();
        let (one, other) = (there("one"), there("other"));
        let begin = |address: &str, objects: &Folder, fresh: u8| {
            recognise(&data, address, objects, Hex([fresh; 16]))
        };
        begin("file:///one", &one, 1).unwrap();
        begin("file:///one", &one, 2).unwrap();
        // Another folder is mounted at the address.
        let why = begin("file:///one", &other, 3).unwrap_err();
        assert!(why.contains("not there any more") && why.contains(FILE), "{why}");
        assert_eq!(other.get(&Key::About, None, 100).unwrap(), None, "nothing was begun");
        introduce(&other, Some(Hex([4; 16]))).unwrap();
        let why = begin("file:///one", &other, 5).unwrap_err();
        assert!(why.contains(&"04".repeat(16)) && why.contains(&"01".repeat(16)), "{why}");
        // A new address is a deliberate change.
        begin("file:///other", &other, 6).unwrap();
        for wrong in
            ["", "{}", r#"{"format":"x","address":"a","id":"01010101010101010101010101010101"}"#]
        {
            fs::write(data.join(FILE), wrong).unwrap();
            assert!(begin("file:///other", &other, 7).unwrap_err().contains(FILE), "{wrong}");
        }
    }
}
