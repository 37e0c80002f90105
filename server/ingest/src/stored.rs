//! What the store has of a file: the version that stands now, and those before it.
//!
//! Owns how versions of a file are told apart. Must not know how a file is read.

use engine::{Damage, ItemId, ItemView, Sensitivity, Snapshot, SourceId, Status};
use serde_json::Value;

use super::linking::Piece;
use super::outline::{ASKED, Older};
use recalld_documents::Format;
use recalld_documents::beside::Words;
use recalld_fs_util::roots::Roots;

/// The version of a file that stands now.
pub(super) struct Stored {
    pub(super) sha256: [u8; 32],
    source: SourceId,
    version: u64,
    pub(super) document: ItemId,
    /// What was asked for: a secret in its title may have raised it beyond that.
    pub(super) asked: Sensitivity,
    /// Hash of the words beside a picture, in hex.
    pub(super) beside: Option<String>,
}

/// Looks at the newest version only; one whose document is tombstoned is not stored.
pub(super) fn stored(snapshot: &Snapshot, uri: &str) -> Result<Option<Stored>, Damage> {
    let sources = snapshot.sources_of_uri(uri)?;
    let version = sources.len() as u64;
    let Some(newest) = sources.last() else { return Ok(None) };
    for place in snapshot.items_of_source(newest.id)? {
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

/// What was asked for, where something else is stored.
fn asked(attributes: &str) -> Option<Sensitivity> {
    let attributes: Value = serde_json::from_str(attributes).ok()?;
    Sensitivity::of_name(attributes[ASKED].as_str()?)
}

/// How sensitive a document was asked to be.
pub fn asked_of(document: &ItemView<'_>) -> Sensitivity {
    asked(document.attributes).unwrap_or(document.sensitivity)
}

/// Whether the words beside a picture are those that were read with it; true of what is no picture.
pub fn beside_now(roots: &Roots, path: &str, document: &ItemView<'_>) -> bool {
    if document.modality != Format::Image.modality() {
        return true;
    }
    let bytes = recalld_fs_util::uri::contents(roots, path).unwrap_or_default();
    Words::of(roots, path, &bytes).sha256 == beside(document.modality, document.attributes)
}

/// Only pictures have words beside them.
fn beside(modality: &str, attributes: &str) -> Option<String> {
    if modality != Format::Image.modality() {
        return None;
    }
    let attributes: Value = serde_json::from_str(attributes).ok()?;
    attributes["beside_sha256"].as_str().map(str::to_owned)
}

/// The documents of so many versions before the newest one, the latest first; none that are
/// tombstoned.
pub(super) fn documents_before(
    snapshot: &Snapshot,
    uri: &str,
    versions: usize,
) -> Result<Vec<ItemId>, Damage> {
    let mut documents = Vec::new();
    for source in snapshot.sources_of_uri(uri)?.iter().rev().skip(1).take(versions) {
        for place in snapshot.items_of_source(source.id)? {
            if snapshot.kind(place)? == "document" && snapshot.status(place)? != Status::Tombstoned
            {
                documents.push(snapshot.id(place)?);
            }
        }
    }
    Ok(documents)
}

impl Stored {
    /// What a newer version is compared with.
    pub(super) fn older(&self, snapshot: &Snapshot) -> Result<Older, Damage> {
        Older::of(snapshot, self.source, self.document, self.version)
    }

    /// Id, first and last line of each chunk.
    pub(super) fn pieces(&self, snapshot: &Snapshot) -> Result<Vec<Piece>, Damage> {
        let mut pieces = Vec::new();
        for place in snapshot.items_of_source(self.source)? {
            let item = snapshot.item(place)?;
            let Some(span) = item.span.filter(|_| item.kind == "chunk") else { continue };
            pieces.push((item.id, span.line_start, span.line_end));
        }
        Ok(pieces)
    }
}

/// The document that stands for a file now.
pub fn document_of(snapshot: &Snapshot, uri: &str) -> Result<Option<ItemId>, Damage> {
    Ok(stored(snapshot, uri)?.map(|stored| stored.document))
}
