//! Everything visible in a snapshot as one JSON value: two stores with equal listings have equal contents.

use std::collections::BTreeSet;

use engine::{
    CorruptionError, EdgeFilter, EdgeId, EdgeView, Filter, ItemId, ItemView, Micros,
    NEIGHBOURS_MAX, RowAddress, SearchError, SearchMode, Snapshot, SourceId, SourceView,
};
use kernels::Kernels;
use serde_json::{Value, json};

/// More than the items of any test.
pub const ALL: usize = 10_000;

/// Names of objects that a snapshot returns only on request.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Sources to look up, besides those that items reference.
    pub sources: Vec<SourceId>,
    /// Edges to look up, besides the neighbours of items.
    pub edges: Vec<EdgeId>,
    /// Words to search for.
    pub words: Vec<String>,
    /// Query of a vector search; empty for none.
    pub query: Vec<f32>,
}

impl Asked {
    /// Collects all written objects, the first word of every text, and one embedding.
    pub fn of<'a>(
        snapshot: &Snapshot,
        written: impl IntoIterator<Item = &'a engine::CommitInfo>,
    ) -> Result<Self, SearchError> {
        let mut asked = Self { query: vec![0.25, -0.5, 1.0, 2.0], ..Self::default() };
        for one in written {
            asked.sources.extend(&one.sources);
            asked.edges.extend(&one.edges);
        }
        for place in snapshot.item_addresses()? {
            asked.words.extend(snapshot.item(place)?.text.split(' ').next().map(str::to_owned));
        }
        Ok(asked)
    }
}

/// Lists all of a snapshot. Ids are listed as text; row addresses and segment counts are left out, since sealing
/// changes them.
pub fn listing(snapshot: &Snapshot, asked: &Asked) -> Result<Value, SearchError> {
    let mut items = Vec::new();
    let mut sources = asked.sources.clone();
    let mut erased = BTreeSet::new();
    let mut targets: Vec<u128> = asked.edges.iter().map(|id| id.0).collect();
    for place in snapshot.item_addresses()? {
        let item = snapshot.item(place)?;
        sources.extend(item.source);
        targets.push(item.id.0);
        let chain = snapshot.chain(item.id)?.members.into_iter();
        erased.extend(chain.filter(|member| member.address.is_none()).map(|member| member.id.0));
        items.push(listed_item(snapshot, place, &item)?);
    }
    sources.sort_unstable();
    sources.dedup();
    let mut listed_sources = Vec::new();
    for id in sources {
        listed_sources.push(match snapshot.source(id)? {
            Some(source) => listed_source(snapshot, &source)?,
            None => json!(null),
        });
    }
    let mut edges = Vec::new();
    for &id in &asked.edges {
        edges.push(snapshot.edge(id)?.map_or(json!(null), |edge| listed_edge(&edge)));
    }
    let mut tombstones = Vec::new();
    for target in targets.into_iter().chain(erased) {
        for stone in snapshot.tombstones(target)? {
            let mut listed = json!({
                "target": ItemId(stone.target).to_string(), "seq": stone.seq,
                "at": stone.at.0, "by": stone.by, "reason": stone.reason,
            });
            if stone.erase {
                let replaced: Vec<_> = stone.supersedes.iter().map(ItemId::to_string).collect();
                listed["erased"] = json!({ "gone": stone.target_erased, "supersedes": replaced });
            }
            tombstones.push(listed);
        }
    }
    let counts = snapshot.row_counts()?;
    let model = snapshot.model().map(|model| {
        let fingerprint = engine::hex(&model.fingerprint);
        json!({ "fingerprint": fingerprint, "dimensions": model.dimensions })
    });
    let census = snapshot.item_counts()?;
    Ok(json!({
        "seq": snapshot.seq(),
        "model": model,
        "counts": {
            "items": counts.items, "superseded": counts.superseded, "tombstoned": counts.tombstoned,
            "edges": counts.edges, "sources": counts.sources, "vectors": counts.vectors,
        },
        "kinds": census.kinds,
        "modalities": census.modalities,
        "items": items,
        "sources": listed_sources,
        "edges": edges,
        "tombstones": tombstones,
        "found": found(snapshot, asked)?,
    }))
}

/// Ids of row addresses.
pub fn ids(snapshot: &Snapshot, places: &[RowAddress]) -> Result<Vec<ItemId>, CorruptionError> {
    places.iter().map(|&place| snapshot.id(place)).collect()
}

fn texts(snapshot: &Snapshot, places: &[RowAddress]) -> Result<Vec<String>, SearchError> {
    Ok(ids(snapshot, places)?.iter().map(ItemId::to_string).collect())
}

fn time(at: Option<Micros>) -> Value {
    at.map_or(json!(null), |at| json!(at.0))
}

fn listed_item(
    snapshot: &Snapshot,
    place: RowAddress,
    item: &ItemView<'_>,
) -> Result<Value, SearchError> {
    let embedding = snapshot.embedding(place)?;
    let by_ref = match item.reference {
        Some(reference) => snapshot.find_ref(reference)?.map(|at| snapshot.id(at)).transpose()?,
        None => None,
    };
    let neighbours = snapshot.neighbours(item.id, NEIGHBOURS_MAX, &EdgeFilter::default())?;
    let chain = snapshot.chain(item.id)?;
    let neighbours = neighbours.iter().map(|near| {
        let other = snapshot.id(near.address)?.to_string();
        Ok(json!([near.direction.name(), other, listed_edge(&near.edge)]))
    });
    Ok(json!({
        "id": item.id.to_string(),
        "is_found": snapshot.find(item.id)? == Some(place),
        "status": snapshot.status(place)?.name(),
        "seq": item.seq,
        "ref": item.reference,
        "ref_is_of": by_ref.map(|id| id.to_string()),
        "kind": item.kind,
        "modality": item.modality,
        "title": item.title,
        "text": item.text,
        "attributes": item.attributes,
        "tags": item.tags,
        "gates": item.gates,
        "supersedes": item.supersedes.iter().map(ItemId::to_string).collect::<Vec<_>>(),
        "current_successors": texts(snapshot, &snapshot.current_successors(item.id)?.addresses)?,
        "chain": chain.members.iter().map(|one| one.id.to_string()).collect::<Vec<_>>(),
        "source": item.source.map(|id| id.to_string()),
        "span": item.span.map(|s| json!([s.byte_start, s.byte_end, s.line_start, s.line_end])),
        "recorded_at": item.recorded_at.0,
        "recorded_by": item.recorded_by,
        "via": item.via,
        "valid_from": time(item.valid_from),
        "valid_to": time(item.valid_to),
        "sensitivity": item.sensitivity.name(),
        "searchable": item.searchable,
        "content_sha256": engine::hex(&item.content_sha256),
        "embedding": embedding.map(|row| row.iter().map(|h| h.to_f32()).collect::<Vec<_>>()),
        "neighbours": neighbours.collect::<Result<Vec<_>, SearchError>>()?,
    }))
}

fn listed_source(snapshot: &Snapshot, source: &SourceView<'_>) -> Result<Value, SearchError> {
    let versions = snapshot.sources_by_uri(source.uri)?;
    Ok(json!({
        "id": source.id.to_string(),
        "seq": source.seq,
        "kind": source.kind,
        "uri": source.uri,
        "versions": versions.iter().map(|one| one.id.to_string()).collect::<Vec<_>>(),
        "title": source.title,
        "content_sha256": engine::hex(&source.content_sha256),
        "bytes": source.bytes,
        "recorded_at": source.recorded_at.0,
        "recorded_by": source.recorded_by,
        "via": source.via,
        "items": texts(snapshot, &snapshot.items_by_source(source.id)?)?,
    }))
}

fn listed_edge(edge: &EdgeView<'_>) -> Value {
    json!({
        "id": edge.id.to_string(),
        "seq": edge.seq,
        "from": edge.from.to_string(),
        "to": edge.to.to_string(),
        "relation": edge.relation,
        "weight": edge.weight,
        "source": edge.source.map(|id| id.to_string()),
        "recorded_at": edge.recorded_at.0,
        "recorded_by": edge.recorded_by,
        "valid_from": time(edge.valid_from),
        "valid_to": time(edge.valid_to),
        "note": edge.note,
    })
}

/// Lists search results, best first. Scores are left out: CPUs may differ in their last bits.
fn found(snapshot: &Snapshot, asked: &Asked) -> Result<Value, SearchError> {
    let everything = Filter::default();
    let ids = |hits: Vec<engine::Hit>| {
        texts(snapshot, &hits.into_iter().map(|hit| hit.address).collect::<Vec<_>>())
    };
    let mut by_word = serde_json::Map::new();
    for word in &asked.words {
        by_word.insert(word.clone(), json!(ids(snapshot.search_words(word, ALL, &everything)?)?));
    }
    let exactly = snapshot.clone().with_search_mode(SearchMode::Exact);
    let near = exactly.nearest(&Kernels::detect(), &asked.query, ALL, &everything)?;
    Ok(json!({ "words": by_word, "near": ids(near)? }))
}
