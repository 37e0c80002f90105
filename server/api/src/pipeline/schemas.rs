//! Schemas of the HTTP API's bodies, as JSON Schema 2020-12.
//!
//! Request schemas are generated from the fields that parse the request. Response schemas are written here, and tests
//! check the responses against them. Objects are open: a client must tolerate unknown fields.

use serde_json::{Map, Value, json};

use recalld_pydantic_compat::{Field, Shape};

/// Builds a reference to a schema of the description.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Builds a request body's schema from its fields.
pub(super) fn of_body(name: &str, about: &str, fields: &[Field]) -> Value {
    let required: Vec<&str> = fields
        .iter()
        .filter(|field| matches!(field.shape, Shape::Text(_)))
        .map(|field| field.name)
        .collect();
    let numbered = (0..).zip(fields);
    let properties: Map<String, Value> =
        numbered.map(|(at, field)| (field.name.to_owned(), property(at, field))).collect();
    json!({
        "title": name, "description": about, "type": "object",
        "required": required, "properties": properties,
    })
}

/// Builds the schema of the field at index `at`. Objects are serialized in alphabetical order, so each property states
/// its index.
fn property(at: usize, field: &Field) -> Value {
    let mut schema = match field.shape {
        Shape::Text(_) => json!({"type": "string"}),
        Shape::OptionalText(_) => json!({"type": ["string", "null"], "default": null}),
        Shape::Int(int) => json!({
            "type": "integer", "minimum": int.min, "maximum": int.max, "default": int.default,
        }),
        Shape::Flag(flag) => json!({"type": "boolean", "default": flag.default}),
    };
    schema["description"] = field.about.into();
    schema["x-order"] = at.into();
    schema
}

/// Returns all response schemas by name.
pub(super) fn of_answers() -> Vec<(&'static str, Value)> {
    vec![
        ("HealthResponse", health()),
        ("StatsResponse", stats()),
        ("RecallItem", recall_item()),
        ("Neighbor", neighbor()),
        ("Source", source()),
        ("Provenance", provenance()),
        ("Span", span()),
        ("SemanticRecallResponse", semantic_recall()),
        ("HTTPValidationError", validation_errors()),
        ("ValidationError", validation_error()),
        ("Problem", problem()),
    ]
}

/// Builds an object schema in which all properties are required, except those in `optional`.
fn object(about: &str, properties: Value, optional: &[&str]) -> Value {
    let names = properties.as_object().into_iter().flat_map(Map::keys);
    let required: Vec<&String> = names.filter(|name| !optional.contains(&name.as_str())).collect();
    json!({"type": "object", "description": about, "required": required, "properties": properties})
}

fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

fn text_or_null(about: &str) -> Value {
    json!({"type": ["string", "null"], "description": about})
}

fn time_or_null(about: &str) -> Value {
    json!({"type": ["string", "null"], "format": "date-time", "description": about})
}

fn count(about: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": about})
}

fn list(of: Value, about: &str) -> Value {
    json!({"type": "array", "items": of, "description": about})
}

fn or_null(name: &str) -> Value {
    json!({"anyOf": [reference(name), {"type": "null"}]})
}

fn health() -> Value {
    let store = json!({"ready": {"type": "boolean", "description": "Whether it takes writes."}});
    let encoder = json!({
        "ready": {"type": "boolean"}, "model": text("The model's name."),
        "kernel": text("The level of the arithmetic."),
        "precision": text("The form of the weights."),
    });
    let backups = json!({
        "state": {"enum": ["ok", "failing", "overdue"], "type": "string",
            "description": "`failing` after an attempt that came to nothing; `overdue` long after one was due."},
    });
    object(
        "How the service is.",
        json!({
            "status": {"enum": ["ok", "degraded"], "type": "string",
                "description": "`degraded` while the store or the ledger takes no writes."},
            "version": text("The program's version."),
            "uptime_s": count("Seconds since the start."),
            "store": object("The store.", store, &[]),
            "encoder": object("What makes vectors of texts.", encoder, &[]),
            "backups": object("Backups on schedule, where there are any.", backups, &[]),
            "role": {"enum": ["writer", "follower", "none"], "type": "string",
                "description": "What this node is to the operator's workspace, where there are others."},
            "stale_s": {"type": ["integer", "null"], "minimum": 0,
                "description": "How many seconds old answers of a follower may be; null where nobody can tell."},
        }),
        &["backups", "role", "stale_s"],
    )
}

fn stats() -> Value {
    let counts = |about: &str| {
        json!({"type": "object", "additionalProperties": {"type": "integer", "minimum": 0},
            "description": about})
    };
    let store = json!({
        "seq": count("The newest commit."), "takes_writes": {"type": "boolean"},
        "why": text("Why it takes no writes."),
        "erasures_pending": {"type": ["integer", "null"], "minimum": 0},
    });
    let search = json!({
        "mode": {"type": "string", "enum": ["auto", "exact", "approximate"]},
        "approximate": {"type": "boolean", "description": "Whether an index is used."},
        "rows": count("Embeddings."),
        "indexed_rows": count("Of these, embeddings in an index."),
        "recall_at_10": {"type": "number", "minimum": 0, "maximum": 1,
            "description": "The share of the ten nearest that is found; 1 where the search is exact."},
        "measured_over": count("Neighbours that this was measured with; 0 where the search is exact."),
    });
    let milliseconds = json!({"type": ["number", "null"], "minimum": 0});
    let latency = json!({"p50": milliseconds, "p95": milliseconds, "p99": milliseconds});
    object(
        "Counts of what is stored.",
        json!({
            "memory_items": count("Items that are neither superseded nor tombstoned, and those that are."),
            "edges": count("Edges between items."),
            "sources": count("Where items came from."),
            "sensitivity_events": count("Items that policy redacted; those it withheld, for who may read the ledger."),
            "superseded": count("Items that another one replaces."),
            "tombstoned": count("Items that were taken back."),
            "by_kind": counts("Items of each kind."),
            "by_modality": counts("Items of each modality."),
            "names_left_out": count("Kinds and modalities beyond the most frequent, where there are any."),
            "embedding_rows": count("Stored vectors."),
            "segments": count("Parts of the store."),
            "bytes_on_disk": count("Bytes of all files of the store."),
            "store": object("How the store is.", store, &["why"]),
            "search": object("How a search by meaning is done.", search, &[]),
            "recall_latency_ms": object("Milliseconds; null before the first recall.", latency, &[]),
        }),
        &["names_left_out"],
    )
}

fn recall_item() -> Value {
    let erased = object(
        "What is left of an erased item.",
        json!({"id": text("Its id."), "erased_at": time_or_null("When.")}),
        &[],
    );
    let validity = json!({
        "from": time_or_null("From when it is true."), "to": time_or_null("Until when."),
    });
    let policy = json!({
        "sensitivity": {"type": "string",
            "enum": ["public", "internal", "confidential", "restricted"]},
        "gates": list(json!({"type": "string"}), "Named flags that policy looks at."),
    });
    object(
        "A recalled memory item.",
        json!({
            "id": text("A type prefix and 26 characters."),
            "ref": text("The caller's own id, where it has one."),
            "kind": text("What it is: document, chunk, decision, ..."),
            "title": text("One line."),
            "text": text("What it says."),
            "modality": text("What it is made of: text, code, ..."),
            "score": {"type": "number",
                "description": "What it was ranked by, to six decimals; neighbors have none."},
            "tags": list(json!({"type": "string"}), "Labels."),
            "status": {"type": "string", "enum": ["current", "superseded", "tombstoned"]},
            "superseded_by": text_or_null("The id of what stands in its place now."),
            "supersedes": list(json!({"type": "string"}), "The ids of what it replaces."),
            "erased": list(erased, "Those of the two above that were erased."),
            "source": or_null("Source"),
            "provenance": reference("Provenance"),
            "validity": object("When it is true, as far as somebody said so.", validity, &[]),
            "policy": object("How carefully to treat it.", policy, &[]),
            "content_sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$",
                "description": "SHA-256 of the text."},
            "neighbors": list(reference("Neighbor"), "With `graph`: the strongest first."),
        }),
        &["ref", "score", "erased", "neighbors"],
    )
}

fn neighbor() -> Value {
    object(
        "An item that an edge leads to.",
        json!({
            "edge_id": text("The edge's id."),
            "relation": text("What the edge means."),
            "direction": {"type": "string", "enum": ["in", "out"]},
            "weight": {"type": "number", "minimum": 0, "maximum": 1},
            "item": reference("RecallItem"),
        }),
        &[],
    )
}

fn source() -> Value {
    object(
        "Where an item came from.",
        json!({
            "id": text("The source's id."), "kind": text("file, text, ..."), "uri": text("Where."),
        }),
        &[],
    )
}

fn provenance() -> Value {
    object(
        "Who recorded an item, when, and from which part of its source.",
        json!({
            "recorded_at": {"type": "string", "format": "date-time"},
            "by": text("Who."),
            "via": text("Through which tool or job."),
            "span": or_null("Span"),
        }),
        &[],
    )
}

fn span() -> Value {
    object(
        "A part of a source; lines count from 1, the ends of bytes are exclusive.",
        json!({
            "byte_start": count(""), "byte_end": count(""),
            "line_start": count(""), "line_end": count(""),
        }),
        &[],
    )
}

fn semantic_recall() -> Value {
    object(
        "The nearest items.",
        json!({
            "query": text("The query as it was read."),
            "model": text("The encoder's model."),
            "dimensions": count("Width of its vectors."),
            "count": count("How many results there are."),
            "took_ms": {"type": "number", "minimum": 0},
            "results": list(reference("RecallItem"), "Best first; `score` is the cosine."),
        }),
        &[],
    )
}

fn validation_errors() -> Value {
    json!({
        "title": "HTTPValidationError", "type": "object",
        "properties": {"detail": list(reference("ValidationError"), "Every problem, in order.")},
    })
}

fn validation_error() -> Value {
    json!({
        "title": "ValidationError", "type": "object",
        "required": ["loc", "msg", "type"],
        "properties": {
            "loc": list(
                json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
                "Where the faulty input is."
            ),
            "msg": text("What is wrong."),
            "type": text("What kind of error it is."),
            "ctx": {"type": "object", "description": "What the message was made of."},
            "input": {"description": "The faulty input."},
        },
    })
}

fn problem() -> Value {
    let writer = text("Where the workspace is written, if that is why.");
    let fields = json!({"detail": text("In words."), "writer": writer});
    object("Why there is no answer.", fields, &["writer"])
}
