//! Phrases of an answer: one for each topic, from the outputs of tools and counters. All numbers are recorded as facts.

use std::collections::BTreeMap;

use recalld_common::counted::{agreed, counted, lasting};
use serde::Serialize;
use serde_json::{Value, json};

use crate::facts::{Facts, NOTHING};
use crate::sources::{
    BACKUPS, BOOTSTRAP, CHECK, DUE, GRAPH, MANIFEST, PROCESS, QUOTA, STATS, TASKS, TENANT,
};
use crate::topics::Topic;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Counts by name in a phrase, and in its facts.
    const NAMED_MAX: usize = 12;
}

/// Stems of the kinds that questions name.
const KINDS: [&str; 9] = [
    "note",
    "decision",
    "correction",
    "outcome",
    "intent",
    "chunk",
    "artifact",
    "agentstate",
    "benchmark",
];
/// States of a task attempt.
pub const ATTEMPT_STATES: [&str; 6] =
    ["planned", "running", "blocked", "succeeded", "failed", "abandoned"];

/// Counts of the open follow-ups.
pub struct Followups {
    /// Open follow-ups.
    pub open: usize,
    /// Overdue follow-ups among the open ones.
    pub overdue: usize,
    /// Open follow-ups due by the end of today, UTC.
    pub today: usize,
    /// Time of the first due follow-up.
    pub first_at: Option<String>,
}

/// Counts of the ingest jobs.
pub struct Jobs {
    /// Ended jobs.
    pub ended: u64,
    /// Jobs that are open or were interrupted.
    pub open: u64,
    /// The last ended job.
    pub last: Option<LastJob>,
}

/// The last ended ingest job. The counts are those of its stored record, `null` if the record has none.
pub struct LastJob {
    /// Time of the end.
    pub at: String,
    /// Files that were looked at.
    pub files: Value,
    /// Items that were stored.
    pub items: Value,
    /// Number of errors.
    pub errors_count: Value,
}

/// Result of a check of one component.
#[derive(Debug, Serialize)]
pub struct CheckResult {
    /// Name of the component.
    pub name: &'static str,
    /// True if the component works.
    pub ok: bool,
    /// Description of the component's state, or its fault.
    pub detail: String,
    /// Duration in milliseconds.
    pub took_ms: f64,
}

/// Counts of the recorded backups.
pub struct Backups {
    /// Recorded backups.
    pub known: usize,
    /// Backups that can be read now.
    pub reachable: usize,
    /// Erased ids that are still in backups, in total.
    pub pending: usize,
    /// Time of the last backup, if known.
    pub last_at: Option<String>,
}

impl Facts {
    /// Phrase for a topic of `recall_stats`. `words` are the words of the question.
    pub fn stats(&mut self, given: &Value, topic: Topic, words: &[String]) -> String {
        let mut field = |field: &str, name: &str| self.field(given, STATS, field, name);
        match topic {
            Topic::Items => {
                let (items, superseded) =
                    (field("memory_items", "items"), field("superseded", "superseded"));
                format!(
                    "{} {} remembered, {superseded} of them superseded",
                    counted(&items, "item"),
                    agreed(&items, "is", "are")
                )
            }
            Topic::Kinds => self.named(given, "by_kind", words),
            Topic::Modalities => self.named(given, "by_modality", words),
            Topic::Sources => there_are(&field("sources", "sources"), "source"),
            Topic::Edges => there_are(&field("edges", "edges"), "edge"),
            Topic::Superseded => {
                let (count, of) =
                    (field("superseded", "superseded"), field("memory_items", "items"));
                format!(
                    "{count} of {} {} superseded",
                    counted(of, "item"),
                    agreed(&count, "is", "are")
                )
            }
            Topic::Tombstoned => {
                let count = field("tombstoned", "tombstoned");
                let are = agreed(&count, "is", "are");
                format!("{} {are} hidden or erased", counted(&count, "item"))
            }
            Topic::Erasures => {
                let count = field("store/erasures_pending", "erasures pending");
                format!("{} {} pending", counted(&count, "erasure"), agreed(&count, "is", "are"))
            }
            Topic::Embeddings => {
                let count = field("embedding_rows", "embedding rows");
                let are = agreed(&count, "is", "are");
                format!("{} {are} stored", counted(&count, "embedding"))
            }
            Topic::Storage => {
                let (segments, bytes) =
                    (field("segments", "segments"), field("bytes_on_disk", "bytes on disk"));
                let seq = field("store/seq", "newest commit");
                format!(
                    "the store has {} and {} on disk, at commit {seq}",
                    counted(segments, "segment"),
                    counted(bytes, "byte")
                )
            }
            Topic::Search => {
                let (mode, is_approximate) = (
                    field("search/mode", "search mode"),
                    field("search/approximate", "approximate"),
                );
                let (indexed, rows) = (
                    field("search/indexed_rows", "indexed rows"),
                    field("search/rows", "searched rows"),
                );
                field("search/recall_at_10", "recall at 10");
                let how = if is_approximate == "true" { "approximate" } else { "exact" };
                format!(
                    "search by meaning is {how} (mode {mode}); {indexed} of {} {} indexed",
                    counted(rows, "row"),
                    agreed(&indexed, "is", "are")
                )
            }
            Topic::Sensitivity => {
                let count = field("sensitivity_events", "sensitivity events");
                let (events, were) =
                    (counted(&count, "sensitivity event"), agreed(&count, "was", "were"));
                format!("there {were} {events} that you may know of")
            }
            _ => {
                let [p50, p95, p99] = ["p50", "p95", "p99"].map(|p| {
                    field(&format!("recall_latency_ms/{p}"), &format!("recall latency {p}, ms"))
                });
                if p50 == NOTHING {
                    "no recall was measured since the start".to_owned()
                } else {
                    format!(
                        "recall takes {p50} ms at the median, {p95} ms at p95 and {p99} ms at p99"
                    )
                }
            }
        }
    }

    /// Counts by name: of the names in the question, or else of the most frequent names.
    fn named(&mut self, given: &Value, field: &str, words: &[String]) -> String {
        let counts: BTreeMap<String, u64> =
            serde_json::from_value(given[field].clone()).unwrap_or_default();
        let mut rows: Vec<(String, u64)> = counts.into_iter().collect();
        let is_asked = |name: &str| {
            let plain = name.replace(['_', '-'], "");
            words.iter().any(|word| *word == name || *word == plain)
        };
        if field == "by_kind" {
            let asked: Vec<String> =
                words.iter().filter(|word| KINDS.contains(&word.as_str())).cloned().collect();
            let mut of_asked: Vec<(String, u64)> =
                rows.iter().filter(|(name, _)| is_asked(name)).cloned().collect();
            // The count of an unknown name is 0, which is recorded as a fact, too.
            for name in asked {
                let is_there =
                    of_asked.iter().any(|(known, _)| known.replace(['_', '-'], "") == name);
                if !is_there {
                    of_asked.push((name, 0));
                }
            }
            if !of_asked.is_empty() {
                rows = of_asked;
            }
        }
        rows.sort_by(|(_, one), (_, other)| other.cmp(one));
        let all = rows.len();
        rows.truncate(NAMED_MAX);
        let what = if field == "by_kind" { "kind" } else { "modality" };
        let said: Vec<String> = rows
            .into_iter()
            .map(|(name, count)| {
                let from = format!("{STATS}.{field}.{name}");
                self.note(&format!("items of {what} {name}"), count.into(), &from);
                format!("{count} {name}")
            })
            .collect();
        if said.is_empty() {
            return "nothing is remembered yet".to_owned();
        }
        let more =
            if all > NAMED_MAX { format!(" and {} more", all - NAMED_MAX) } else { String::new() };
        format!("items by {what}: {}{more}", said.join(", "))
    }

    /// Phrase for the number of active documents.
    pub fn documents(&mut self, count: u64) -> String {
        self.note("documents", count.into(), MANIFEST);
        format!("{} {} active", counted(count, "document"), agreed(count, "is", "are"))
    }

    /// Phrase for task attempts: the total, and the count in each of [`ATTEMPT_STATES`].
    pub fn tasks(&mut self, all: u64, counts: [u64; ATTEMPT_STATES.len()]) -> String {
        self.note("task attempts", all.into(), TASKS);
        let mut said = Vec::new();
        for (state, count) in ATTEMPT_STATES.into_iter().zip(counts) {
            self.note(&format!("task attempts {state}"), count.into(), TASKS);
            said.push(format!("{count} {state}"));
        }
        format!(
            "there {} {} at tasks: {}",
            agreed(all, "is", "are"),
            counted(all, "attempt"),
            said.join(", ")
        )
    }

    /// Phrase for the open follow-ups.
    pub fn followups(&mut self, found: Followups) -> String {
        let Followups { open, overdue, today, first_at } = found;
        self.note("follow-ups open", open.into(), DUE);
        self.note("follow-ups overdue", overdue.into(), DUE);
        self.note("follow-ups due by the end of today, UTC", today.into(), DUE);
        let mut said = format!(
            "{} {} open, {overdue} of them overdue",
            counted(open, "follow-up"),
            agreed(open, "is", "are")
        );
        if let Some(at) = first_at {
            let at = self.note("the first one is due at", at.into(), DUE);
            said.push_str(&format!("; the first is due at {at}"));
        }
        said
    }

    /// Phrase for ingest jobs.
    pub fn jobs(&mut self, found: Jobs) -> String {
        let Jobs { ended, open, last } = found;
        let from = "items of kind job";
        self.note("ingest jobs ended", ended.into(), from);
        self.note("ingest jobs open or cut off", open.into(), from);
        let mut said = format!(
            "{} {} ended and {open} {} open or cut off",
            counted(ended, "ingest job"),
            agreed(ended, "has", "have"),
            agreed(open, "is", "are")
        );
        if let Some(LastJob { at, files, items, errors_count }) = last {
            let at = self.note("last ingest ended at", at.into(), from);
            let mut count = |what: &str, count: Value, field: &str| {
                self.note(&format!("{what} of the last ingest"), count, &format!("{from}: {field}"))
            };
            let (files, items) = (count("files", files, "files"), count("items", items, "items"));
            let errors = count("errors", errors_count, "errors_count");
            said.push_str(&format!(
                "; the last ended at {at}: {}, {}, {}",
                counted(files, "file"),
                counted(items, "item"),
                counted(errors, "error")
            ));
        }
        said
    }

    /// Phrase for the backups of the data directory.
    pub fn backups(&mut self, found: Backups) -> String {
        let Backups { known, reachable, pending, last_at } = found;
        self.note("backups known", known.into(), BACKUPS);
        self.note("backups that can be read now", reachable.into(), BACKUPS);
        self.note("ids that backups have yet to lose", pending.into(), BACKUPS);
        let when = match last_at {
            Some(at) => {
                let at = self.note("last backup", at.into(), "backup.json.made_at");
                format!("the last was made at {at}")
            }
            None => "of none is it known when it was made".to_owned(),
        };
        if known == 0 {
            "no backup is on record".to_owned()
        } else {
            format!("{} {} on record; {when}", counted(known, "backup"), agreed(known, "is", "are"))
        }
    }

    /// Phrase for the uptime, in seconds.
    pub fn uptime(&mut self, seconds: u64) -> String {
        self.note("uptime, s", seconds.into(), PROCESS);
        format!("the server has run for {}", lasting(seconds))
    }

    /// Phrase for the version of the service.
    pub fn version(&mut self) -> String {
        let version = self.note("version", env!("CARGO_PKG_VERSION").into(), PROCESS);
        format!("this is recalld {version}")
    }

    /// Phrase for the server's clock.
    pub fn clock(&mut self, now: String) -> String {
        let now = self.note("clock", now.into(), PROCESS);
        format!("the server's clock says {now}")
    }

    /// Phrase for a topic of `brain_runtime_check`. `entries` is the number of ledger entries.
    pub fn checked(&mut self, checks: &[CheckResult], topic: Topic, entries: u64) -> String {
        let wanted = match topic {
            Topic::Disk => Some("disk_space"),
            Topic::Ledger => Some("ledger"),
            _ => None,
        };
        let mut said = Vec::new();
        for CheckResult { name, ok, detail, .. } in checks {
            if wanted.is_some_and(|wanted| wanted != *name) {
                continue;
            }
            self.note(&format!("{name} ok"), (*ok).into(), &format!("{CHECK}.{name}"));
            if !ok {
                said.push(format!("{name} is not ok: {detail}"));
            } else if wanted.is_some() {
                said.push(self.note(name, json!(detail), &format!("{CHECK}.{name}.detail")));
            }
        }
        if topic == Topic::Ledger {
            self.note("ledger entries", entries.into(), "ledger.head");
        }
        match (topic, said.is_empty()) {
            (Topic::Disk, _) => format!("of the disk: {}", said.join("; ")),
            (Topic::Ledger, _) => format!("the ledger {}", said.join("; ")),
            (_, true) => "all checks are ok: store, encoder, ledger, control store, disk and clock"
                .to_owned(),
            (_, false) => said.join("; "),
        }
    }

    /// Phrase for the graph, from `graphrag_status_tool`.
    pub fn graph(&mut self, given: &Value) -> String {
        let names =
            ["nodes", "edges", "components", "largest_component", "isolated", "communities"];
        let [nodes, edges, components, largest, isolated, communities] =
            names.map(|name| self.field(given, GRAPH, name, &format!("graph {name}")));
        format!(
            "the graph that you may see has {} and {} in {} (the largest has {largest}), {} and {}",
            counted(nodes, "item"),
            counted(edges, "link"),
            counted(components, "component"),
            counted(communities, "community"),
            counted(isolated, "isolated item")
        )
    }

    /// Phrase for the quota or the rate, from `quota_status_tool`.
    pub fn metered(&mut self, given: &Value, topic: Topic) -> String {
        let is_metered = self.field(given, QUOTA, "metered", "metered");
        if is_metered != "true" {
            return "calls of this workspace are not counted, and have no quota and no rate"
                .to_owned();
        }
        let has = |pointer: &str| given.pointer(pointer).is_some();
        if topic == Topic::Rate {
            if !has("/rate") {
                return "this plan has no rate limit".to_owned();
            }
            let [per_second, burst, available] = ["per_second", "burst", "available"].map(|name| {
                self.field(given, QUOTA, &format!("rate/{name}"), &format!("rate {name}"))
            });
            return format!(
                "the rate is {} a second with a burst of {burst}, {available} at once now",
                counted(per_second, "call")
            );
        }
        let used = self.field(given, QUOTA, "quota/used", "calls used");
        let resets = self.field(given, QUOTA, "quota/resets_at", "quota resets at");
        let open = self.field(given, QUOTA, "reservations/calls_open", "calls open");
        if !has("/quota/limit") {
            return format!(
                "{} {} used this month, which is not bounded; {open} {} now",
                counted(&used, "call"),
                agreed(&used, "was", "were"),
                agreed(&open, "runs", "run")
            );
        }
        let limit = self.field(given, QUOTA, "quota/limit", "calls a month");
        let left = self.field(given, QUOTA, "quota/left", "calls left");
        format!(
            "{left} of {} {} left ({used} used); more come at {resets}",
            counted(limit, "call"),
            agreed(&left, "is", "are")
        )
    }

    /// Phrase for the plan, the scopes or the workspace, from `tenant_info`.
    pub fn tenant(&mut self, given: &Value, topic: Topic) -> String {
        let mut field = |name: &str| self.field(given, TENANT, name, &name.replace('_', " "));
        match topic {
            Topic::Plan => {
                let (plan, families) = (field("plan"), field("families"));
                format!("the plan is {plan}, with the families {families}")
            }
            Topic::Scopes => format!("this credential has the scopes {}", field("scopes")),
            _ => {
                let workspace = field("workspace");
                let mut said = format!("this is the workspace {workspace}");
                if given.get("email_verified").is_some() {
                    let is = if field("email_verified") == "true" { "is" } else { "is not" };
                    said.push_str(&format!(", whose e-mail address {is} confirmed"));
                }
                said
            }
        }
    }

    /// Phrase for the number of tools that the caller may use, and their families.
    pub fn tools(&mut self, count: usize, families: &[&str]) -> String {
        let from = format!("{BOOTSTRAP}.families");
        self.note("tools", count.into(), &from);
        let names = self.note("tool families", json!(families), &from);
        format!(
            "you may use {} of {}: {names}",
            counted(count, "tool"),
            counted(families.len(), "family")
        )
    }

    /// Phrase for the model or the limits, from `brain_operational_bootstrap_tool`.
    pub fn bootstrap(&mut self, given: &Value, topic: Topic) -> String {
        match topic {
            Topic::Model => {
                let [name, dimensions, kernel, precision] =
                    ["name", "dimensions", "kernel", "precision"].map(|field| {
                        self.field(
                            given,
                            BOOTSTRAP,
                            &format!("model/{field}"),
                            &format!("model {field}"),
                        )
                    });
                format!(
                    "the model is {name} with {dimensions} dimensions, by the kernel {kernel} at {precision}"
                )
            }
            _ => {
                let mut bound = |field: &str, name: &str| {
                    self.field(given, BOOTSTRAP, &format!("bounds/{field}"), name)
                };
                let (text, seconds) = (
                    bound("text_bytes", "bytes of a text"),
                    bound("call_seconds", "seconds of a call"),
                );
                let (rows, bytes) =
                    (bound("page/rows", "rows of a page"), bound("page/bytes", "bytes of a page"));
                format!(
                    "a text has at most {text} bytes, a call {seconds} s, a page {rows} rows and {bytes} bytes"
                )
            }
        }
    }

    /// Phrase for the caller's permission to write, from `tenant_info` and `recall_stats`. `scope` is true if the
    /// credential has the scope to write.
    pub fn writes(&mut self, tenant: &Value, stats: &Value, scope: bool) -> String {
        let store = self.field(stats, STATS, "store/takes_writes", "store takes writes");
        let enabled = self.field(tenant, TENANT, "writes_enabled", "writes enabled");
        self.note("scope memory:write", scope.into(), &format!("{TENANT}.scopes"));
        match (store == "true", enabled == "true", scope) {
            (true, true, true) => "the store takes writes, and this credential may write".to_owned(),
            (true, true, false) => {
                "the store takes writes, but this credential lacks the scope memory:write".to_owned()
            }
            (true, false, _) => {
                "the store takes writes, but nothing may be stored before the e-mail address is confirmed".to_owned()
            }
            (false, ..) => "the store takes no writes now".to_owned(),
        }
    }
}

/// Existence phrase with a count: `there is 1 edge`, `there are 2 edges`.
fn there_are(count: &str, one: &str) -> String {
    format!("there {} {}", agreed(count, "is", "are"), counted(count, one))
}
