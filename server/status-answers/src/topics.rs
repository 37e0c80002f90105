//! Topics: the possible questions about the service, and their patterns.
//!
//! A topic matches if a part of the question has all words of one of its patterns; of two matching patterns, the one
//! with the greater weight counts.

/// Topic of a question about the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// Number of items.
    Items,
    /// Items by kind.
    Kinds,
    /// Items by modality.
    Modalities,
    /// Number of documents.
    Documents,
    /// Number of sources.
    Sources,
    /// Number of edges.
    Edges,
    /// Graph statistics.
    Graph,
    /// Superseded items.
    Superseded,
    /// Hidden and erased items, which have tombstones.
    Tombstoned,
    /// Pending erasures.
    Erasures,
    /// Embeddings.
    Embeddings,
    /// Embedding model.
    Model,
    /// Segments, bytes on disk, and the newest commit.
    Storage,
    /// Method of vector search.
    Search,
    /// Latency of recall.
    Latency,
    /// Quota of calls per month.
    Quota,
    /// Rate limit of calls.
    Rate,
    /// Plan of the account.
    Plan,
    /// Scopes of the credential.
    Scopes,
    /// Ledger of the workspace.
    Ledger,
    /// Sensitivity events.
    Sensitivity,
    /// Uptime of the server.
    Uptime,
    /// Version of the service.
    Version,
    /// Ingest jobs.
    Ingest,
    /// Task attempts.
    Tasks,
    /// Follow-ups.
    Followups,
    /// Backups.
    Backups,
    /// All health checks.
    Health,
    /// Free disk space.
    Disk,
    /// Clock of the server.
    Clock,
    /// Permission of the caller to write.
    Writes,
    /// Tools available to the caller.
    Tools,
    /// Limits of a text, a call and a page.
    Limits,
    /// Current workspace.
    Workspace,
}

/// Weight of a pattern: its words may occur beside another topic's (`Loose`), name one topic (`Plain`), or have a joint
/// meaning of their own (`Sure`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    Loose,
    Plain,
    Sure,
}

use Weight::{Loose, Plain, Sure};

/// Pattern: words as normalized by [`crate::words::stem`], and their joint weight.
pub(crate) type Cue = (&'static str, Weight);

/// Topic with its name, as users ask for it, and its patterns.
pub(crate) struct Row {
    pub(crate) topic: Topic,
    pub(crate) name: &'static str,
    pub(crate) cues: &'static [Cue],
}

const fn row(topic: Topic, name: &'static str, cues: &'static [Cue]) -> Row {
    Row { topic, name, cues }
}

/// All topics, in the order of their answers.
pub(crate) const TOPICS: &[Row] = &[
    row(
        Topic::Health,
        "health",
        &[
            ("status", Loose),
            ("health", Plain),
            ("healthy", Loose),
            ("ok", Loose),
            ("fine", Loose),
            ("okay", Loose),
            ("well", Loose),
            ("problem", Loose),
            ("wrong", Loose),
            ("broken", Loose),
            ("alive", Plain),
            ("check", Loose),
            ("error", Loose),
            ("state", Loose),
            ("down", Loose),
            ("ready", Loose),
            ("work", Loose),
            ("upandrunning", Plain),
            ("trouble", Loose),
            ("issue", Loose),
            ("condition", Loose),
            ("reachable", Plain),
            ("online", Loose),
        ],
    ),
    row(
        Topic::Items,
        "items",
        &[
            ("size memory", Loose),
            ("item", Loose),
            ("memory", Loose),
            ("thing", Loose),
            ("remember", Loose),
            ("remembered", Loose),
            ("record", Loose),
            ("stored", Loose),
            ("entry", Loose),
            ("fact", Loose),
            ("current item", Plain),
            ("memory size", Plain),
        ],
    ),
    row(
        Topic::Kinds,
        "kinds",
        &[
            ("kind", Plain),
            ("type", Plain),
            ("note", Plain),
            ("decision", Plain),
            ("correction", Plain),
            ("outcome", Plain),
            ("intent", Plain),
            ("chunk", Plain),
            ("artifact", Plain),
            ("agentstate", Plain),
            ("benchmark", Plain),
        ],
    ),
    row(Topic::Modalities, "modalities", &[("modality", Sure)]),
    row(
        Topic::Documents,
        "documents",
        &[
            ("document", Plain),
            ("doc", Plain),
            ("file", Plain),
            ("docstore", Plain),
            ("page", Loose),
            ("document ingested", Sure),
            ("file ingested", Sure),
            ("doc ingested", Sure),
        ],
    ),
    row(Topic::Sources, "sources", &[("source", Plain), ("url", Plain), ("origin", Plain)]),
    row(
        Topic::Edges,
        "edges",
        &[
            ("edge", Plain),
            ("link", Plain),
            ("relation", Plain),
            ("relationship", Plain),
            ("connection", Plain),
            ("edge graph", Sure),
            ("link graph", Sure),
        ],
    ),
    row(
        Topic::Graph,
        "graph",
        &[
            ("graph", Plain),
            ("component", Plain),
            ("community", Plain),
            ("isolated", Plain),
            ("connected", Plain),
            ("degree", Plain),
            ("node", Plain),
            ("cluster", Plain),
        ],
    ),
    row(
        Topic::Superseded,
        "superseded",
        &[
            ("superseded", Sure),
            ("replaced", Sure),
            ("outdated", Sure),
            ("obsolete", Sure),
            ("old version", Sure),
            ("older version", Sure),
        ],
    ),
    row(
        Topic::Tombstoned,
        "tombstoned",
        &[
            ("tombstoned", Sure),
            ("tombstone", Sure),
            ("deleted", Sure),
            ("hidden", Sure),
            ("forgotten", Sure),
            ("removed", Sure),
            ("erased", Plain),
        ],
    ),
    row(
        Topic::Erasures,
        "erasures",
        &[
            ("erasure", Sure),
            ("pending erased", Sure),
            ("waiting erased", Sure),
            ("wait erased", Sure),
            ("left erased", Sure),
        ],
    ),
    row(
        Topic::Embeddings,
        "embeddings",
        &[("embedding", Plain), ("vector", Plain), ("embedded", Plain)],
    ),
    row(
        Topic::Model,
        "model",
        &[
            ("dim", Sure),
            ("model", Sure),
            ("encoder", Sure),
            ("dimension", Sure),
            ("kernel", Sure),
            ("precision", Sure),
            ("embedder", Sure),
        ],
    ),
    row(
        Topic::Storage,
        "storage",
        &[
            ("size memory", Loose),
            ("footprint", Plain),
            ("segment", Sure),
            ("byte disk", Sure),
            ("disk store", Sure),
            ("disk use", Sure),
            ("disk usage", Sure),
            ("disk memory", Sure),
            ("space memory", Sure),
            ("space store", Sure),
            ("size store", Sure),
            ("large store", Sure),
            ("big store", Sure),
            ("large memory", Plain),
            ("big memory", Loose),
            ("byte", Plain),
            ("storage", Plain),
            ("megabyte", Plain),
            ("mb", Plain),
            ("gb", Plain),
            ("gigabyte", Plain),
            ("database size", Sure),
            ("seq", Plain),
            ("commit", Plain),
        ],
    ),
    row(
        Topic::Search,
        "search",
        &[
            ("index", Sure),
            ("indexed", Sure),
            ("approximate", Sure),
            ("exact", Plain),
            ("search mode", Sure),
            ("recallat10", Sure),
            ("ann", Plain),
            ("search", Loose),
            ("exhaustive", Plain),
        ],
    ),
    row(
        Topic::Latency,
        "latency",
        &[
            ("latency", Sure),
            ("p50", Sure),
            ("p95", Sure),
            ("p99", Sure),
            ("percentile", Sure),
            ("median", Plain),
            ("fast recall", Sure),
            ("fast search", Sure),
            ("slow recall", Sure),
            ("slow search", Sure),
            ("quick recall", Sure),
            ("quick search", Sure),
            ("recall time", Sure),
            ("search time", Sure),
            ("response time", Sure),
            ("recall take", Sure),
            ("search take", Sure),
            ("answer time", Sure),
            ("recall speed", Sure),
            ("search speed", Sure),
            ("performance", Plain),
            ("fast", Loose),
            ("slow", Loose),
            ("quick", Loose),
            ("speed", Loose),
            ("millisecond", Plain),
        ],
    ),
    row(
        Topic::Quota,
        "quota",
        &[
            ("call remain", Sure),
            ("consumed", Loose),
            ("quota", Sure),
            ("call left", Sure),
            ("call month", Sure),
            ("call used", Sure),
            ("call remaining", Sure),
            ("remaining call", Sure),
            ("request left", Sure),
            ("request month", Sure),
            ("request used", Sure),
            ("call renew", Sure),
            ("call reset", Sure),
            ("call", Loose),
            ("allowance", Plain),
            ("usage", Loose),
            ("reset", Loose),
            ("reservation", Plain),
            ("call reserved", Sure),
            ("call open", Sure),
        ],
    ),
    row(
        Topic::Rate,
        "rate",
        &[
            ("rate limit", Sure),
            ("rate", Plain),
            ("ratelimit", Sure),
            ("burst", Sure),
            ("second call", Sure),
            ("second request", Sure),
            ("throttle", Sure),
            ("throttled", Sure),
            ("minute call", Plain),
            ("minute request", Plain),
            ("call once", Plain),
            ("request once", Plain),
        ],
    ),
    row(Topic::Plan, "plan", &[("plan", Plain), ("subscription", Plain), ("tier", Plain)]),
    row(
        Topic::Scopes,
        "scopes",
        &[
            ("credential", Loose),
            ("token", Loose),
            ("access", Loose),
            ("scope", Sure),
            ("permission", Sure),
            ("entitled", Plain),
            ("credential allowed", Plain),
            ("token allowed", Plain),
            ("entitlement", Plain),
        ],
    ),
    row(
        Topic::Ledger,
        "ledger",
        &[
            ("ledger", Sure),
            ("audit", Plain),
            ("audit entry", Sure),
            ("audit log", Sure),
            ("audit trail", Sure),
            ("receipt", Plain),
            ("integrity", Plain),
        ],
    ),
    row(
        Topic::Sensitivity,
        "sensitivity",
        &[
            ("sensitivity", Sure),
            ("sensitive", Plain),
            ("event", Loose),
            ("withheld", Sure),
            ("redacted", Sure),
            ("redaction", Sure),
        ],
    ),
    row(
        Topic::Uptime,
        "uptime",
        &[
            ("day online", Sure),
            ("day up", Sure),
            ("hour up", Sure),
            ("day running", Sure),
            ("hour running", Sure),
            ("hour online", Sure),
            ("uptime", Sure),
            ("long up", Sure),
            ("long running", Sure),
            ("since up", Sure),
            ("since running", Sure),
            ("when start", Sure),
            ("when started", Sure),
            ("server start", Sure),
            ("server started", Sure),
            ("restart", Sure),
            ("restarted", Sure),
            ("long alive", Sure),
            ("boot", Plain),
            ("long online", Sure),
            ("service start", Sure),
            ("service started", Sure),
        ],
    ),
    row(Topic::Version, "version", &[("version", Plain), ("release", Plain), ("build", Plain)]),
    row(
        Topic::Ingest,
        "ingest",
        &[
            ("ingest", Plain),
            ("job", Plain),
            ("ingestion", Plain),
            ("import", Plain),
            ("ingested", Loose),
            ("ingest job", Sure),
            ("ingesting", Plain),
        ],
    ),
    row(
        Topic::Tasks,
        "tasks",
        &[
            ("task succeeded", Sure),
            ("planned", Loose),
            ("task", Plain),
            ("attempt", Plain),
            ("blocked", Loose),
            ("task running", Sure),
            ("task failed", Sure),
            ("attempt running", Sure),
            ("todo", Plain),
            ("abandoned", Loose),
        ],
    ),
    row(
        Topic::Followups,
        "followups",
        &[("followup", Sure), ("overdue", Plain), ("due", Plain), ("reminder", Sure)],
    ),
    row(Topic::Backups, "backups", &[("backup", Sure), ("backedup", Sure)]),
    row(
        Topic::Disk,
        "disk",
        &[
            ("disk", Plain),
            ("free disk", Sure),
            ("disk full", Sure),
            ("free space", Sure),
            ("disk left", Sure),
            ("disk room", Sure),
            ("space left", Sure),
            ("room left", Plain),
            ("disk space", Sure),
            ("full", Loose),
        ],
    ),
    row(
        Topic::Clock,
        "clock",
        &[
            ("currenttime", Sure),
            ("clock", Sure),
            ("what time", Plain),
            ("server time", Plain),
            ("time now", Plain),
            ("current time", Sure),
            ("what date", Plain),
            ("today date", Plain),
        ],
    ),
    row(
        Topic::Writes,
        "writes",
        &[
            ("write", Plain),
            ("readonly", Sure),
            ("writable", Sure),
            ("writeable", Sure),
            ("write store", Sure),
            ("write enabled", Sure),
            ("save", Loose),
        ],
    ),
    row(
        Topic::Tools,
        "tools",
        &[("tool", Plain), ("family", Plain), ("catalog", Plain), ("tool family", Sure)],
    ),
    row(
        Topic::Limits,
        "limits",
        &[
            ("text size", Plain),
            ("long text", Plain),
            ("longest text", Sure),
            ("maximum text", Sure),
            ("max text", Sure),
            ("largest text", Sure),
            ("long call", Sure),
            ("call take", Sure),
            ("row page", Sure),
            ("page most", Plain),
            ("bound", Plain),
            ("limit", Loose),
            ("maximum", Loose),
            ("timeout", Plain),
            ("page size", Sure),
            ("text limit", Sure),
            ("text size maximum", Sure),
            ("byte text", Sure),
            ("page hold", Plain),
        ],
    ),
    row(
        Topic::Workspace,
        "workspace",
        &[
            ("workspace", Loose),
            ("tenant", Loose),
            ("email", Plain),
            ("email verified", Sure),
            ("email confirmed", Sure),
            ("address verified", Sure),
            ("workspace name", Sure),
            ("principal", Loose),
            ("which workspace", Sure),
            ("which tenant", Sure),
        ],
    ),
];
