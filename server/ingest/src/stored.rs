//! Existing versions of a file in the store: the current one, and earlier ones.
//!
//! Must not know how a file is read.

use engine::{CorruptionError, ItemId, ItemView, Sensitivity, Snapshot, SourceId, Status};
use serde_json::Value;

use super::linking::Piece;
use super::outline::{ASKED, Older};
use recalld_documents::Format;
use recalld_documents::beside::Words;
use recalld_fs_util::roots::Roots;

/// The current version of a file.
pub(super) struct Stored {
    pub(super) sha256: [u8; 32],
    source: SourceId,
    version: u64,
    pub(super) document: ItemId,
    /// Requested sensitivity; a secret in the document's item may have raised the stored one.
    pub(super) asked: Sensitivity,
    /// SHA-256 of an image's sidecar text, in hex.
    pub(super) beside: Option<String>,
}

/// Reads the newest version only. Returns `None` if its document is tombstoned.
pub(super) fn stored(snapshot: &Snapshot, uri: &str) -> Result<Option<Stored>, CorruptionError> {
    let sources = snapshot.sources_by_uri(uri)?;
    let version = sources.len() as u64;
    let Some(newest) = sources.last() else { return Ok(None) };
    for place in snapshot.items_by_source(newest.id)? {
        let item = snapshot.item(place)?;
        if item.kind == "document" {
            let stored = Stored {
                sha256: newest.content_sha256,
                source: newest.id,
                version,
                document: item.id,
                asked: asked(item.attributes).unwrap_or(item.sensitivity),
                beside: beside(item.modality, item.attributes),
            };
            return Ok((snapshot.status(place)? != Status::Tombstoned).then_some(stored));
        }
    }
    Ok(None)
}

/// The requested sensitivity, if different from the stored one.
fn asked(attributes: &str) -> Option<Sensitivity> {
    let attributes: Value = serde_json::from_str(attributes).ok()?;
    Sensitivity::from_name(attributes[ASKED].as_str()?)
}

/// Requested sensitivity of a document.
pub fn asked_of(document: &ItemView<'_>) -> Sensitivity {
    asked(document.attributes).unwrap_or(document.sensitivity)
}

/// Returns true if an image's sidecar text is unchanged since the ingest, or if the document is no image.
pub fn beside_now(roots: &Roots, path: &str, document: &ItemView<'_>) -> bool {
    if document.modality != Format::Image.modality() {
        return true;
    }
    let bytes = recalld_fs_util::uri::contents(roots, path).unwrap_or_default();
    Words::of(roots, path, &bytes).sha256 == beside(document.modality, document.attributes)
}

/// Hash of the sidecar text; only images have one.
fn beside(modality: &str, attributes: &str) -> Option<String> {
    if modality != Format::Image.modality() {
        return None;
    }
    let attributes: Value = serde_json::from_str(attributes).ok()?;
    attributes["beside_sha256"].as_str().map(str::to_owned)
}

/// The documents of up to `versions` versions before the newest, latest first, without tombstoned ones.
pub(super) fn documents_before(
    snapshot: &Snapshot,
    uri: &str,
    versions: usize,
) -> Result<Vec<ItemId>, CorruptionError> {
    let mut documents = Vec::new();
    for source in snapshot.sources_by_uri(uri)?.iter().rev().skip(1).take(versions) {
        for place in snapshot.items_by_source(source.id)? {
            if snapshot.kind(place)? == "document" && snapshot.status(place)? != Status::Tombstoned
            {
                documents.push(snapshot.id(place)?);
            }
        }
    }
    Ok(documents)
}

impl Stored {
    /// Loads the version for comparison with a newer one.
    pub(super) fn older(&self, snapshot: &Snapshot) -> Result<Older, CorruptionError> {
        Older::of(snapshot, self.source, self.document, self.version)
    }

    /// Id, first and last line of each chunk.
    pub(super) fn pieces(&self, snapshot: &Snapshot) -> Result<Vec<Piece>, CorruptionError> {
        let mut pieces = Vec::new();
        for place in snapshot.items_by_source(self.source)? {
            let item = snapshot.item(place)?;
            let Some(span) = item.span.filter(|_| item.kind == "chunk") else { continue };
            pieces.push((item.id, span.line_start, span.line_end));
        }
        Ok(pieces)
    }
}

/// The current document of a file.
pub fn document_of(snapshot: &Snapshot, uri: &str) -> Result<Option<ItemId>, CorruptionError> {
    Ok(stored(snapshot, uri)?.map(|stored| stored.document))
}
