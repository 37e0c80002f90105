//! A small store in which the example of every catalog row finds its objects.

use std::path::{Path, PathBuf};
use support_wire::tree::workspace;

use recalld_api::operator::{Import, import_as_operator};
use serde_json::json;

use crate::desk::{Desk, operator};
use support_wire::service::{run_json, write};

/// The text of the sample's document, for a folder to ingest.
const README: &str = "# Sample\n\nThe beacon of Gull Rock is lit by paraffin.\n\n\
                      ## Relief\n\nThe relief boat comes on the first Monday of the month.\n";

/// Path of the sample, in export format.
pub fn lines() -> PathBuf {
    workspace().join("tests/golden/sample.jsonl")
}

/// Imports the sample into the store of a data directory that no server has open.
///
/// # Panics
/// A line is invalid.
pub fn import_into(data: &Path) {
    let path = lines();
    let report = run_json(data, &["import", path.to_str().expect("a plain name")]);
    assert_eq!(report["bad_count"], 0, "{report}");
}

/// Makes a [`Desk`] with the sample, and an ingested file `README.md`.
///
/// # Panics
/// The import or the ingest fails.
pub fn desk() -> Desk {
    let desk = Desk::new();
    let raw = json!({"path": lines(), "strict": true});
    let raw = raw.as_object().expect("it is an object");
    let wanted = Import::parse(raw).expect("it is what an import takes");
    let answer =
        desk.with_context(&operator(), |context| import_as_operator(context, raw, &wanted));
    assert_eq!(answer.expect("the import runs").structured["bad_count"], 0);
    let folder = desk.files();
    write(&folder, "README.md", README);
    desk.call("ingest_paths_tool", json!({"paths": [folder]}));
    desk
}
