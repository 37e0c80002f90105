//! The operations of the HTTP API: handler and documentation of each.
//!
//! Contains texts and examples. Path and required credentials of an operation are in `pipeline::routes`; response
//! schemas are in `schemas`.

use super::Run;
use recalld_pydantic_compat::{Field, RecallRequest, SemanticRecallRequest};

/// A request body and its fields.
pub struct Body {
    /// Name of the schema.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// The fields.
    pub fields: &'static [Field],
    /// A valid body, as JSON.
    pub example: &'static str,
}

/// An operation of the HTTP API.
pub struct Operation {
    /// Unique name for programs (OpenAPI `operationId`).
    pub id: &'static str,
    /// Summary of a few words.
    pub summary: &'static str,
    /// Description in Markdown.
    pub about: &'static str,
    /// The request body, if any.
    pub body: Option<Body>,
    /// Description of a successful response, in one line.
    pub answers: &'static str,
    /// Name of a successful response's schema. If `list` is true, the response is an array of this schema.
    pub schema: &'static str,
    /// True if a successful response is an array.
    pub list: bool,
    /// A successful response, as JSON.
    pub example: &'static str,
    /// The handler.
    pub run: Run,
}

/// `GET /health`.
pub static HEALTH: Operation = Operation {
    id: "health",
    summary: "Liveness",
    about: "Says whether the service answers, and whether its store takes writes. Asks for no credentials \
            and tells no secret, no path and no count.",
    body: None,
    answers: "How the service is.",
    schema: "HealthResponse",
    list: false,
    example: r#"{"status": "ok", "version": "0.1.0", "uptime_s": 86400, "store": {"ready": true},
        "encoder": {"ready": true, "model": "sentence-transformers/all-MiniLM-L6-v2", "kernel": "avx2",
        "precision": "f32"}}"#,
    run: |ask| Ok(super::health(ask.parts)),
};

/// `GET /stats`.
pub static STATS: Operation = Operation {
    id: "stats",
    summary: "Counts of what is stored",
    about: "Counts memory items, edges, sources and sensitivity events, and says how fast recall was.",
    body: None,
    answers: "The counts.",
    schema: "StatsResponse",
    list: false,
    example: r#"{"memory_items": 1284, "edges": 3120, "sources": 96, "sensitivity_events": 2,
        "superseded": 41, "tombstoned": 3, "by_kind": {"document": 96, "chunk": 1180, "decision": 8},
        "by_modality": {"text": 1201, "code": 83}, "embedding_rows": 1284, "segments": 2,
        "bytes_on_disk": 4194304, "store": {"seq": 131, "takes_writes": true, "erasures_pending": 0},
        "search": {"mode": "auto", "approximate": false, "rows": 1284, "indexed_rows": 0, "recall_at_10": 1.0,
            "measured_over": 0},
        "recall_latency_ms": {"p50": 1.2, "p95": 3.5, "p99": 7.0}}"#,
    run: super::stats,
};

/// `POST /recall`.
pub static RECALL: Operation = Operation {
    id: "recall",
    summary: "Recall by words",
    about: "Ranks memory items by the words of the query (BM25), best first. With `graph` each item comes with \
            its strongest neighbors. With `prefer_replacements` a superseded item that matches brings its \
            current replacement in above it. Items that policy denies are left out; of items that it \
            redacts, title, text and tags are. An answer holds at most 12 MiB of items.",
    body: Some(Body {
        name: "RecallRequest",
        about: "A question by words.",
        fields: RecallRequest::FIELDS,
        example: r#"{"query": "why was the log split in two?", "limit": 3, "graph": true,
            "neighbor_limit": 2, "modality": null, "prefer_replacements": true}"#,
    }),
    answers: "The seeds, best first.",
    schema: "RecallItem",
    list: true,
    example: r#"[{"id": "chk_0000000000000000000000002k", "kind": "chunk", "title": "Log / Splitting",
        "text": "The log was split in two so that a flush and a write never wait for one another.",
        "modality": "text", "score": 7.214305, "tags": [], "status": "current", "superseded_by": null,
        "supersedes": [], "source": {"id": "src_0000000000000000000000001f", "kind": "file",
        "uri": "file:///notes/log.md"}, "provenance": {"recorded_at": "2026-03-01T09:30:00Z",
        "by": "operator", "via": "ingest", "span": {"byte_start": 120, "byte_end": 201, "line_start": 4,
        "line_end": 5}}, "validity": {"from": null, "to": null}, "policy": {"sensitivity": "internal",
        "gates": []}, "content_sha256": "6d0b07ee773591f2a1b492d3ca65afdefc90e1cadfcafb7ca6bf5ab40f7cef2a",
        "neighbors": []}]"#,
    run: super::recall,
};

/// `POST /semantic-recall`.
pub static SEMANTIC_RECALL: Operation = Operation {
    id: "semantic_recall",
    summary: "Recall by meaning",
    about: "Encodes the query and gives the exact nearest items by cosine similarity. Scores have six decimals; \
            equal scores are in order of id. Vectors are never given. An answer holds at most 12 MiB of items.",
    body: Some(Body {
        name: "SemanticRecallRequest",
        about: "A question by meaning.",
        fields: SemanticRecallRequest::FIELDS,
        example: r#"{"query": "what is left after the power fails?", "limit": 2}"#,
    }),
    answers: "The nearest items, best first.",
    schema: "SemanticRecallResponse",
    list: false,
    example: r#"{"query": "what is left after the power fails?",
        "model": "sentence-transformers/all-MiniLM-L6-v2", "dimensions": 384, "count": 0, "took_ms": 4.127,
        "results": []}"#,
    run: super::semantic_recall,
};
