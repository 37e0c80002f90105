//! What is told of each topic: facts, each with the live counter that it was taken from, and a phrase of them.
//!
//! Owns which counters answer a topic. They are those that other tools give, asked as the caller: what that tool would
//! not tell the caller is not told here either.

use std::collections::BTreeMap;

use engine::{Filter, Micros, Snapshot};
use serde_json::{Map, Value, json};

use super::routing::Meant;
use super::topics::Topic;
use crate::continuity::followups::soonest;
use recalld_common::counted::{agreed, counted, lasting};
use recalld_common::names;
use recalld_common::own_kinds::TASK_ATTEMPT;
use recalld_store_admin::told_backups;
use recalld_tool_framework::records::Record;
use recalld_tool_framework::{Context, Profile, Tool, ToolError};

/// Names that a phrase lists; the facts have as many.
const NAMED_MAX: usize = 12;
const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

const STATS: &str = "recall_stats";
const GRAPH: &str = "graphrag_status_tool";
const QUOTA: &str = "quota_status_tool";
const TENANT: &str = "tenant_info";
const CHECK: &str = "brain_runtime_check";
const BOOTSTRAP: &str = "brain_operational_bootstrap_tool";
const MANIFEST: &str = "docstore_manifest_tool";
const TASKS: &str = "list_task_attempts_tool";
const DUE: &str = "due_followups_tool";
/// Counters of this process or of its data directory, which no other tool gives.
const PROCESS: &str = "process";
const BACKUPS: &str = "backups.json";

/// Gathers facts.
pub(super) struct Teller<'a> {
    context: &'a Context<'a>,
    snapshot: Snapshot,
    /// What other tools gave, each asked once.
    given: BTreeMap<&'static str, Value>,
    pub(super) facts: Vec<Value>,
}

/// A phrase; `None` where the caller may not know.
type Phrase = Result<Option<String>, ToolError>;

impl<'a> Teller<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Self {
        let snapshot = context.snapshot();
        Self { context, snapshot, given: BTreeMap::new(), facts: Vec::new() }
    }

    /// A tool that the caller may use.
    fn usable(&self, tool: &str) -> Option<&'static Tool> {
        let catalog = self.context.services.catalog;
        catalog.visible_to(self.context.caller, Profile::Full).find(|usable| usable.name == tool)
    }

    /// Whether the caller may use a tool.
    fn may_use(&self, tool: &str) -> bool {
        self.usable(tool).is_some()
    }

    /// What another tool gives the caller; `None` where it gives nothing.
    fn ask(&mut self, tool: &'static str) -> Result<Option<Value>, ToolError> {
        if let Some(given) = self.given.get(tool) {
            return Ok(Some(given.clone()));
        }
        let Some(row) = self.usable(tool) else { return Ok(None) };
        let given = (row.run)(self.context, &Map::new())?.structured;
        self.given.insert(tool, given.clone());
        Ok(Some(given))
    }

    /// Notes a fact; gives it in words.
    fn fact(&mut self, name: &str, value: Value, from: &str) -> String {
        let words = in_words(&value);
        self.facts.push(json!({"name": name, "value": value, "from": from}));
        words
    }

    /// A field of what a tool gave, as a fact. Its name leads into what is deeper by `/`.
    fn field(&mut self, given: &Value, tool: &str, field: &str, name: &str) -> String {
        let value = given.pointer(&format!("/{field}")).cloned().unwrap_or(Value::Null);
        self.fact(name, value, &format!("{tool}.{}", field.replace('/', ".")))
    }

    /// What is to be said of a topic.
    pub(super) fn tell(&mut self, meant: &Meant) -> Phrase {
        match meant.topic {
            Topic::Documents => self.documents(),
            Topic::Tasks => self.tasks(),
            Topic::Followups => self.followups(),
            Topic::Ingest => self.jobs(),
            Topic::Backups => self.backups(),
            Topic::Uptime | Topic::Version | Topic::Clock => self.process(meant.topic),
            Topic::Health | Topic::Disk | Topic::Ledger => self.checked(meant.topic),
            Topic::Graph => self.graph(),
            Topic::Quota | Topic::Rate => self.metered(meant.topic),
            Topic::Plan | Topic::Scopes | Topic::Workspace => self.tenant(meant.topic),
            Topic::Model | Topic::Tools | Topic::Limits => self.bootstrap(meant.topic),
            Topic::Writes => self.writes(),
            topic => self.stats(topic, &meant.words),
        }
    }

    fn stats(&mut self, topic: Topic, words: &[String]) -> Phrase {
        let Some(given) = self.ask(STATS)? else { return Ok(None) };
        let mut field = |field: &str, name: &str| self.field(&given, STATS, field, name);
        Ok(Some(match topic {
            Topic::Items => {
                let (items, superseded) =
                    (field("memory_items", "items"), field("superseded", "superseded"));
                format!(
                    "{} {} remembered, {superseded} of them superseded",
                    counted(&items, "item"),
                    agreed(&items, "is", "are")
                )
            }
            Topic::Kinds => self.named(&given, "by_kind", words),
            Topic::Modalities => self.named(&given, "by_modality", words),
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
        }))
    }

    /// Counts by name: of the names that are asked for, else of the most frequent ones.
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
            // One that is not there is none, which is a fact, too.
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
                self.fact(&format!("items of {what} {name}"), count.into(), &from);
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

    /// The current items of a kind that the caller may read, counted by what `of` says of each.
    fn count(&self, kind: &str, mut of: impl FnMut(&Record<'_>)) -> Result<(), ToolError> {
        let hidden = self.context.hidden(&self.snapshot)?;
        let kinds = vec![kind.to_owned()];
        let filter =
            Filter { kinds, current_only: true, hidden, unsearchable: true, ..Filter::default() };
        self.snapshot.each_admitted(&filter, |_, place| {
            of(&Record::of(&self.snapshot, place)?);
            Ok::<(), ToolError>(())
        })
    }

    fn documents(&mut self) -> Phrase {
        if !self.may_use(MANIFEST) {
            return Ok(None);
        }
        let mut count = 0_u64;
        self.count("document", |_| count += 1)?;
        self.fact("documents", count.into(), MANIFEST);
        Ok(Some(format!("{} {} active", counted(count, "document"), agreed(count, "is", "are"))))
    }

    fn tasks(&mut self) -> Phrase {
        if !self.may_use(TASKS) {
            return Ok(None);
        }
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        self.count(TASK_ATTEMPT, |record| {
            // Whoever imports may give any status; those beyond the six are not named.
            let status = STATUSES.iter().find(|status| **status == record.text("status"));
            *counts.entry((*status.unwrap_or(&"of no known status")).to_owned()).or_default() += 1;
        })?;
        let all: u64 = counts.values().sum();
        self.fact("task attempts", all.into(), TASKS);
        let mut said = Vec::new();
        for status in STATUSES {
            let count = counts.get(status).copied().unwrap_or_default();
            self.fact(&format!("task attempts {status}"), count.into(), TASKS);
            said.push(format!("{count} {status}"));
        }
        Ok(Some(format!(
            "there {} {} at tasks: {}",
            agreed(all, "is", "are"),
            counted(all, "attempt"),
            said.join(", ")
        )))
    }

    fn followups(&mut self) -> Phrase {
        if !self.may_use(DUE) {
            return Ok(None);
        }
        let hidden = self.context.hidden(&self.snapshot)?;
        let now = self.context.services.clock.now();
        let midnight = Micros(now.0 - now.0.rem_euclid(DAY_MICROS) + DAY_MICROS - 1);
        let count = |before| soonest(&self.snapshot, hidden.clone(), (None, before), 1);
        let (open, next) = count(Micros(i64::MAX))?;
        let ((due, _), (today, _)) = (count(now)?, count(midnight)?);
        self.fact("follow-ups open", open.into(), DUE);
        self.fact("follow-ups overdue", due.into(), DUE);
        self.fact("follow-ups due by the end of today, UTC", today.into(), DUE);
        let mut said = format!(
            "{} {} open, {due} of them overdue",
            counted(open, "follow-up"),
            agreed(open, "is", "are")
        );
        if let Some((at, ..)) = next.first() {
            let at = self.fact("the first one is due at", json!(names::time(*at)), DUE);
            said.push_str(&format!("; the first is due at {at}"));
        }
        Ok(Some(said))
    }

    fn jobs(&mut self) -> Phrase {
        if !self.may_use(STATS) {
            return Ok(None);
        }
        let (mut ended, mut open) = (0_u64, 0_u64);
        let mut last: Option<(Micros, Value)> = None;
        self.count("job", |record| {
            // The mark of a job that runs, or was cut off, has a ref; the record of one has none.
            if record.item.reference.is_some() {
                open += 1;
                return;
            }
            ended += 1;
            let at = record.item.recorded_at;
            if last.as_ref().is_none_or(|(last, _)| *last <= at) {
                last = Some((at, serde_json::from_str(record.item.text).unwrap_or_default()));
            }
        })?;
        let from = "items of kind job";
        self.fact("ingest jobs ended", ended.into(), from);
        self.fact("ingest jobs open or cut off", open.into(), from);
        let mut said = format!(
            "{} {} ended and {open} {} open or cut off",
            counted(ended, "ingest job"),
            agreed(ended, "has", "have"),
            agreed(open, "is", "are")
        );
        if let Some((at, report)) = last {
            let at = self.fact("last ingest ended at", json!(names::time(at)), from);
            let mut count = |field: &str, name: &str| {
                self.fact(name, report[field].clone(), &format!("{from}: {field}"))
            };
            let (files, items) = (
                count("files", "files of the last ingest"),
                count("items", "items of the last ingest"),
            );
            let errors = count("errors_count", "errors of the last ingest");
            said.push_str(&format!(
                "; the last ended at {at}: {}, {}, {}",
                counted(files, "file"),
                counted(items, "item"),
                counted(errors, "error")
            ));
        }
        Ok(Some(said))
    }

    /// Backups are the operator's: nothing is told of them in a tenant's workspace.
    fn backups(&mut self) -> Phrase {
        let context = self.context;
        let is_local = context.is_local();
        if context.caller.metered.is_some() || !is_local {
            return Ok(None);
        }
        let told = told_backups(context.services.data).map_err(ToolError::Unwritable)?;
        self.fact("backups known", told.known.into(), BACKUPS);
        self.fact("backups that can be read now", told.reachable.into(), BACKUPS);
        self.fact("ids that backups have yet to lose", told.pending.into(), BACKUPS);
        let when = match told.last_at {
            Some(at) => {
                let at = self.fact("last backup", at.into(), "backup.json.made_at");
                format!("the last was made at {at}")
            }
            None => "of none is it known when it was made".to_owned(),
        };
        let known = told.known;
        Ok(Some(if known == 0 {
            "no backup is on record".to_owned()
        } else {
            format!("{} {} on record; {when}", counted(known, "backup"), agreed(known, "is", "are"))
        }))
    }

    fn process(&mut self, topic: Topic) -> Phrase {
        let services = self.context.services;
        Ok(Some(match topic {
            Topic::Uptime => {
                let seconds = services.started.elapsed().as_secs();
                self.fact("uptime, s", seconds.into(), PROCESS);
                format!("the server has run for {}", lasting(seconds))
            }
            Topic::Version => {
                let version = self.fact("version", env!("CARGO_PKG_VERSION").into(), PROCESS);
                format!("this is recalld {version}")
            }
            _ => {
                let now = self.fact("clock", names::time(services.clock.now()).into(), PROCESS);
                format!("the server's clock says {now}")
            }
        }))
    }

    fn checked(&mut self, topic: Topic) -> Phrase {
        let Some(given) = self.ask(CHECK)? else { return Ok(None) };
        let checks = given["checks"].as_array().cloned().unwrap_or_default();
        let wanted = match topic {
            Topic::Disk => Some("disk_space"),
            Topic::Ledger => Some("ledger"),
            _ => None,
        };
        let mut said = Vec::new();
        for check in checks {
            let name = check["name"].as_str().unwrap_or_default();
            if wanted.is_some_and(|wanted| wanted != name) {
                continue;
            }
            self.fact(&format!("{name} ok"), check["ok"].clone(), &format!("{CHECK}.{name}"));
            let detail = check["detail"].as_str().unwrap_or_default();
            if check["ok"] != true {
                said.push(format!("{name} is not ok: {detail}"));
            } else if wanted.is_some() {
                self.fact(name, detail.into(), &format!("{CHECK}.{name}.detail"));
                said.push(detail.to_owned());
            }
        }
        if topic == Topic::Ledger {
            let (entries, _) = self.context.workspace.audit.progress();
            self.fact("ledger entries", entries.into(), "ledger.head");
        }
        Ok(Some(match (topic, said.is_empty()) {
            (Topic::Disk, _) => format!("of the disk: {}", said.join("; ")),
            (Topic::Ledger, _) => format!("the ledger {}", said.join("; ")),
            (_, true) => "all checks are ok: store, encoder, ledger, control store, disk and clock"
                .to_owned(),
            (_, false) => said.join("; "),
        }))
    }

    fn graph(&mut self) -> Phrase {
        let Some(given) = self.ask(GRAPH)? else { return Ok(None) };
        let names =
            ["nodes", "edges", "components", "largest_component", "isolated", "communities"];
        let [nodes, edges, components, largest, isolated, communities] =
            names.map(|name| self.field(&given, GRAPH, name, &format!("graph {name}")));
        Ok(Some(format!(
            "the graph that you may see has {} and {} in {} (the largest has {largest}), {} and {}",
            counted(nodes, "item"),
            counted(edges, "link"),
            counted(components, "component"),
            counted(communities, "community"),
            counted(isolated, "isolated item")
        )))
    }

    fn metered(&mut self, topic: Topic) -> Phrase {
        let Some(given) = self.ask(QUOTA)? else { return Ok(None) };
        let is_metered = self.field(&given, QUOTA, "metered", "metered");
        if is_metered != "true" {
            return Ok(Some(
                "calls of this workspace are not counted, and have no quota and no rate".to_owned(),
            ));
        }
        let has = |pointer: &str| given.pointer(pointer).is_some();
        if topic == Topic::Rate {
            if !has("/rate") {
                return Ok(Some("this plan has no rate limit".to_owned()));
            }
            let [per_second, burst, available] = ["per_second", "burst", "available"].map(|name| {
                self.field(&given, QUOTA, &format!("rate/{name}"), &format!("rate {name}"))
            });
            return Ok(Some(format!(
                "the rate is {} a second with a burst of {burst}, {available} at once now",
                counted(per_second, "call")
            )));
        }
        let used = self.field(&given, QUOTA, "quota/used", "calls used");
        let resets = self.field(&given, QUOTA, "quota/resets_at", "quota resets at");
        let open = self.field(&given, QUOTA, "reservations/calls_open", "calls open");
        if !has("/quota/limit") {
            return Ok(Some(format!(
                "{} {} used this month, which is not bounded; {open} {} now",
                counted(&used, "call"),
                agreed(&used, "was", "were"),
                agreed(&open, "runs", "run")
            )));
        }
        let limit = self.field(&given, QUOTA, "quota/limit", "calls a month");
        let left = self.field(&given, QUOTA, "quota/left", "calls left");
        Ok(Some(format!(
            "{left} of {} {} left ({used} used); more come at {resets}",
            counted(limit, "call"),
            agreed(&left, "is", "are")
        )))
    }

    fn tenant(&mut self, topic: Topic) -> Phrase {
        let Some(given) = self.ask(TENANT)? else { return Ok(None) };
        let mut field = |name: &str| self.field(&given, TENANT, name, &name.replace('_', " "));
        Ok(Some(match topic {
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
        }))
    }

    fn bootstrap(&mut self, topic: Topic) -> Phrase {
        let Some(given) = self.ask(BOOTSTRAP)? else { return Ok(None) };
        match topic {
            Topic::Model => {
                let [name, dimensions, kernel, precision] =
                    ["name", "dimensions", "kernel", "precision"].map(|field| {
                        self.field(
                            &given,
                            BOOTSTRAP,
                            &format!("model/{field}"),
                            &format!("model {field}"),
                        )
                    });
                Ok(Some(format!(
                    "the model is {name} with {dimensions} dimensions, by the kernel {kernel} at {precision}"
                )))
            }
            Topic::Tools => {
                let families = given["families"].as_array().cloned().unwrap_or_default();
                let tools: usize = families
                    .iter()
                    .filter_map(|family| family["tools"].as_array())
                    .map(Vec::len)
                    .sum();
                self.fact("tools", tools.into(), &format!("{BOOTSTRAP}.families"));
                let names: Vec<&str> =
                    families.iter().filter_map(|family| family["family"].as_str()).collect();
                self.fact("tool families", json!(names), &format!("{BOOTSTRAP}.families"));
                Ok(Some(format!(
                    "you may use {} of {}: {}",
                    counted(tools, "tool"),
                    counted(names.len(), "family"),
                    names.join(", ")
                )))
            }
            _ => {
                let mut bound = |field: &str, name: &str| {
                    self.field(&given, BOOTSTRAP, &format!("bounds/{field}"), name)
                };
                let (text, seconds) = (
                    bound("text_bytes", "bytes of a text"),
                    bound("call_seconds", "seconds of a call"),
                );
                let (rows, bytes) =
                    (bound("page/rows", "rows of a page"), bound("page/bytes", "bytes of a page"));
                Ok(Some(format!(
                    "a text has at most {text} bytes, a call {seconds} s, a page {rows} rows and {bytes} bytes"
                )))
            }
        }
    }

    fn writes(&mut self) -> Phrase {
        let tenant = self.ask(TENANT)?;
        let stats = self.ask(STATS)?;
        let (Some(tenant), Some(stats)) = (tenant, stats) else { return Ok(None) };
        let store = self.field(&stats, STATS, "store/takes_writes", "store takes writes");
        let enabled = self.field(&tenant, TENANT, "writes_enabled", "writes enabled");
        let scope = self.context.caller.scopes.contains(&recalld_common::scope::Scope::MemoryWrite);
        self.fact("scope memory:write", scope.into(), &format!("{TENANT}.scopes"));
        Ok(Some(match (store == "true", enabled == "true", scope) {
            (true, true, true) => "the store takes writes, and this credential may write".to_owned(),
            (true, true, false) => {
                "the store takes writes, but this credential lacks the scope memory:write".to_owned()
            }
            (true, false, _) => {
                "the store takes writes, but nothing may be stored before the e-mail address is confirmed".to_owned()
            }
            (false, ..) => "the store takes no writes now".to_owned(),
        }))
    }
}

/// `there is 1 edge`, `there are 2 edges`.
fn there_are(count: &str, one: &str) -> String {
    format!("there {} {}", agreed(count, "is", "are"), counted(count, one))
}

/// What is said of a fact that is not there.
const NOTHING: &str = "none";
/// Kinds of which people ask by name, as their words are understood.
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
/// The states of an attempt.
const STATUSES: [&str; 6] = ["planned", "running", "blocked", "succeeded", "failed", "abandoned"];

fn in_words(value: &Value) -> String {
    match value {
        Value::Null => NOTHING.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) if list.is_empty() => NOTHING.to_owned(),
        Value::Array(list) => list.iter().map(in_words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
