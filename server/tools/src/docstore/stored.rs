use engine::{ItemView, Snapshot};
use serde_json::Value;

use recalld_fs_util::uri;
use recalld_tool_framework::ServiceError;

pub(super) fn attributes(item: &ItemView<'_>) -> Value {
    serde_json::from_str(item.attributes).unwrap_or_default()
}

/// Path of the file that an item comes from; for an ingested text, its URI.
pub(super) fn path_of(snapshot: &Snapshot, item: &ItemView<'_>) -> Result<String, ServiceError> {
    let source = item.source.map(|id| snapshot.source(id)).transpose()?.flatten();
    let path = source.as_ref().and_then(|source| uri::to_path(source.uri));
    let told = || attributes(item)["path"].as_str().map(str::to_owned);
    let given = || source.as_ref().map(|source| source.uri.to_owned());
    Ok(path.or_else(told).or_else(given).unwrap_or_default())
}

/// Returns true if the path of the item's file, absolute or relative to its root, starts with `prefix`.
pub(super) fn is_beneath(
    snapshot: &Snapshot,
    item: &ItemView<'_>,
    prefix: &str,
) -> Result<bool, ServiceError> {
    if path_of(snapshot, item)?.starts_with(prefix) {
        return Ok(true);
    }
    Ok(attributes(item)["path"].as_str().is_some_and(|path| path.starts_with(prefix)))
}
