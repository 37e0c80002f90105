//! Lookup of documents by path, and the items to tombstone with them.

use std::collections::BTreeMap;

use engine::{ItemId, ItemView, RowAddress, Status};

use recalld_fs_util::uri;
use recalld_policy::{Action, Verdict};
use recalld_recall::AccessView;
use recalld_store_admin::{KeepError, goes_with};
use recalld_tool_framework::writing::may_change;
use recalld_tool_framework::{ServiceError, ToolContext};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum items that one call tombstones.
    pub(super) const ITEMS_MAX: usize = 16_384;
}

/// Rows scanned between two checks for cancellation.
const ROWS_TOGETHER: usize = 1_024;

/// A document and its path; for an ingested text, its URI.
pub(super) struct Lying<'s> {
    pub(super) place: RowAddress,
    pub(super) item: ItemView<'s>,
    pub(super) path: String,
    /// SHA-256 and bytes of the file at its ingest; `None` for an ingested text.
    pub(super) file: Option<([u8; 32], u64)>,
}

/// Calls `visit` for every document whose status `wants` accepts and that the caller may read.
pub(super) fn each_document<'s>(
    snapshot: &'s AccessView<'_>,
    wants: impl Fn(Status) -> bool,
    mut visit: impl FnMut(Lying<'s>) -> Result<(), ServiceError>,
) -> Result<(), ServiceError> {
    for (at, place) in snapshot.item_addresses()?.enumerate() {
        if at.is_multiple_of(ROWS_TOGETHER) {
            snapshot.check_cancelled()?;
        }
        if snapshot.kind(place)? != "document" || !wants(snapshot.status(place)?) {
            continue;
        }
        let item = snapshot.item(place)?;
        if snapshot.judge(&item, Action::Read).0 != Verdict::Allow {
            continue;
        }
        let source = item.source.map(|id| snapshot.source(id)).transpose()?.flatten();
        let Some(source) = source else { continue };
        let file = uri::to_path(source.uri);
        let known = file.as_ref().map(|_| (source.content_sha256, source.bytes));
        let path = file.unwrap_or_else(|| source.uri.to_owned());
        visit(Lying { place, item, path, file: known })?;
    }
    Ok(())
}

/// Returns true if `path` is `folder` or below `folder`.
pub(super) fn lies_in(path: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches('/');
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Candidates for the meaning of a path.
///
/// An absolute path is the only candidate. Any other path may be below each root; if the path contains a colon, the
/// path itself, which may be a URI, comes first.
///
/// # Errors
/// Returns an error if the path contains `..`.
pub(super) fn meant(
    context: &ToolContext<'_>,
    field: &'static str,
    path: &str,
) -> Result<Vec<String>, ServiceError> {
    if path.split('/').any(|part| part == "..") {
        let why = format!("{path}: `..` is not followed; the path without it is wanted");
        return Err(ServiceError::argument(field, why));
    }
    let is_absolute = path.starts_with('/');
    let itself = (is_absolute || path.contains(':')).then(|| path.to_owned());
    let roots = context.workspace.roots();
    let beneath = roots.paths().map(|root| format!("{root}/{}", path.trim_start_matches("./")));
    Ok(itself.into_iter().chain(beneath.filter(|_| !is_absolute)).collect())
}

/// Collects a document and its chunks for a tombstone, if the caller may hide all of them.
///
/// # Errors
/// If policy does not allow a tombstone, returns an error that names `field`.
pub(super) fn going(
    snapshot: &AccessView<'_>,
    field: &'static str,
    document: (ItemId, RowAddress),
) -> Result<BTreeMap<ItemId, RowAddress>, ServiceError> {
    let items = goes_with(snapshot, &[document], false).map_err(|error| match error {
        KeepError::Wrong(why) => ServiceError::argument(field, why),
        KeepError::Failed(why) => ServiceError::Unwritable(why),
    })?;
    for place in items.values() {
        may_change(snapshot, field, &snapshot.item(*place)?)?;
    }
    Ok(items)
}
