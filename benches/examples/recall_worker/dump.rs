//! Exports a data directory as files, vectors included, so that the peers store the same items.
//!
//! ```text
//! ids.txt        one id a line, in the order of the vectors
//! vectors.f16    their vectors: little-endian halves, one row after another
//! items.jsonl    one object a line, in the same order, with the fields that recall shows
//! edges.jsonl    [edge id, from, to, relation, weight], the two by their place in that order
//! ```

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use engine::{ItemId, Record, Snapshot, Status, hex};
use recalld_common::names;
use serde_json::json;

use crate::Failure;

/// Writes the searchable items of a data directory, and the edges between them.
pub(crate) fn dump(data: &Path, folder: &Path, vectors_only: bool) -> Result<(), Failure> {
    let started = crate::open(data)?;
    let snapshot = started.parts.local.get().store.snapshot();
    std::fs::create_dir_all(folder)?;
    let rows = vectors(&snapshot, folder)?;
    if vectors_only {
        return Ok(());
    }
    let mut items = written(folder, "items.jsonl")?;
    let mut edges = written(folder, "edges.jsonl")?;
    for record in snapshot.records() {
        match record? {
            Record::Item(item, status) if rows.contains_key(&item.id) => {
                let successors = snapshot.direct_successors(item.id)?;
                let superseded_by = match successors.last() {
                    Some(&place) => Some(names::of_item(&snapshot.item(place)?)),
                    None => None,
                };
                let line = json!({
                    "id": names::of_item(&item), "kind": item.kind, "title": item.title,
                    "text": item.text, "modality": item.modality, "tags": item.tags,
                    "status": status.name(), "superseded_by": superseded_by,
                    "recorded_at": names::time(item.recorded_at), "by": item.recorded_by,
                    "via": item.via, "valid_from": item.valid_from.map(names::time),
                    "valid_to": item.valid_to.map(names::time),
                    "sensitivity": item.sensitivity.name(),
                    "content_sha256": hex(&item.content_sha256),
                });
                writeln!(items, "{line}")?;
            }
            Record::Edge(edge, false) => {
                if let (Some(from), Some(to)) = (rows.get(&edge.from), rows.get(&edge.to)) {
                    let line = json!([names::edge(edge.id), from, to, edge.relation, edge.weight]);
                    writeln!(edges, "{line}")?;
                }
            }
            _ => {}
        }
    }
    items.flush()?;
    edges.flush()?;
    Ok(())
}

/// Writes ids and vectors in row order; returns the position of each item in that order.
fn vectors(snapshot: &Snapshot, folder: &Path) -> Result<HashMap<ItemId, usize>, Failure> {
    let mut rows = HashMap::new();
    let mut ids = written(folder, "ids.txt")?;
    let mut vectors = written(folder, "vectors.f16")?;
    for record in snapshot.records() {
        let Record::Item(item, status) = record? else { continue };
        if !item.searchable || status == Status::Tombstoned {
            continue;
        }
        let Some(place) = snapshot.find(item.id)? else { continue };
        let Some(halves) = snapshot.embedding(place)? else { continue };
        writeln!(ids, "{}", names::of_item(&item))?;
        for half in halves {
            vectors.write_all(&half.to_bits().to_le_bytes())?;
        }
        rows.insert(item.id, rows.len());
    }
    ids.flush()?;
    vectors.flush()?;
    Ok(rows)
}

fn written(folder: &Path, name: &str) -> Result<BufWriter<File>, Failure> {
    let path = folder.join(name);
    let file = File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(BufWriter::new(file))
}
