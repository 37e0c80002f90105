//! Every tool of the catalog, called by one tenant with another's ids, words, tokens, receipts and cursors.
//!
//! No answer may contain the other tenant's data. Each answer must equal that of a second server without the other
//! tenant, whose store must not change. Each plan and scope has exactly its own tools, by any name, over one listener.

use std::collections::{BTreeMap, BTreeSet};

use recalld_common::scope::Scope;
use recalld_metastore::Kind;
use recalld_tool_framework::{Change, Tool};
use serde_json::{Map, Value, json};
use support_server::contract::agreed;
use support_server::house::{House, Served, call, tools};
use support_server::sample_catalog;
use support_server::schema::rows;
use support_wire::service::{run_json, write};
use support_wire::wire::Answer;

/// A word that occurs only in the other tenant's store.
const WORD: &str = "ambergris";
/// Characters of an id's prefix, and minimum of characters after its underscore.
const PREFIX_CHARS: usize = 3;
const ID_CHARS_MIN: usize = 26;
/// Tools whose answers contain measurements of the machine, or durations.
const FIGURES: [&str; 5] = [
    "brain_runtime_check",
    "brain_status_query_tool",
    "recall_stats",
    "tenant_info",
    "quota_status_tool",
];
/// Fields that differ between servers or over time.
const OTHER: [&str; 12] = [
    "took_ms",
    "receipt",
    "recalld/receipt",
    "grounding_token",
    "checkpoints",
    "head_hash",
    "hash",
    "endpoints",
    "overdue_by",
    "score",
    "scores",
    "built_at",
];

/// All scopes except `identity:assert`.
fn scopes() -> Vec<&'static str> {
    let all = Scope::ALL.iter().filter(|scope| **scope != Scope::IdentityAssert);
    all.map(|scope| scope.name()).collect()
}

/// The other tenant's data that a caller could name.
#[derive(Debug, Default)]
struct Theirs {
    ids: BTreeSet<String>,
    tokens: BTreeSet<String>,
    receipts: Vec<Value>,
    /// Cursors by tool, from answers to the tools' examples.
    cursors: BTreeMap<&'static str, String>,
}

impl Theirs {
    /// Collects the ids and tokens in an answer.
    fn learn(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.ids.extend(ids(text).map(str::to_owned)),
            Value::Array(all) => all.iter().for_each(|one| self.learn(one)),
            Value::Object(fields) => {
                if let Some(token) = fields.get("grounding_token").and_then(Value::as_str) {
                    self.tokens.insert(token.to_owned());
                }
                fields.values().for_each(|one| self.learn(one));
            }
            _ => {}
        }
    }

    /// A sample id for each prefix.
    fn id_of_each_kind(&self) -> Vec<&str> {
        let mut kinds = BTreeMap::new();
        let prefixed = self.ids.iter().filter(|id| id.contains('_'));
        kinds.extend(prefixed.map(|id| (&id[..PREFIX_CHARS], &**id)));
        kinds.into_values().collect()
    }

    /// The other tenant's values for a field of a tool.
    fn values(&self, row: &Tool, field: &str) -> Vec<Value> {
        let ids = self.id_of_each_kind();
        match field {
            "id" | "supersedes" => json!(ids).as_array().unwrap().clone(),
            _ if field.ends_with("_id") && field != "agent_id" => {
                json!(ids).as_array().unwrap().clone()
            }
            "item_ids" => vec![json!(ids)],
            "grounding_tokens" => vec![json!(self.tokens.iter().take(20).collect::<Vec<_>>())],
            "receipts" => vec![json!(self.receipts[..self.receipts.len().min(100)])],
            "claims" => vec![json!([{
                "claim": format!("The {WORD} is kept in the cellar."),
                "grounding_tokens": self.tokens.iter().take(8).collect::<Vec<_>>(),
            }])],
            "cursor" => self.cursors.get(row.name).into_iter().map(|one| json!(one)).collect(),
            // Texts written by the caller are the caller's own.
            _ if row.change != Change::Nothing => Vec::new(),
            "query" | "topic" | "question" | "command" | "task" => vec![json!(WORD)],
            "path" => vec![json!("README.md"), json!("given:cellar")],
            "uri_prefix" | "path_prefix" => vec![json!("given:"), json!("file:///sample/")],
            _ => Vec::new(),
        }
    }
}

/// The ids in a text. Some refs contain an id without its prefix.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| {
        let (prefix, rest) = word.split_once('_').unwrap_or(("", word));
        let is_long = match prefix.len() {
            0 => rest.len() == ID_CHARS_MIN,
            length => length == PREFIX_CHARS && rest.len() >= ID_CHARS_MIN,
        };
        is_long && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    })
}

/// The arguments of a tool's example.
fn example(row: &Tool) -> Map<String, Value> {
    serde_json::from_str(row.example).unwrap()
}

/// A server with these tenants, and a bearer for each.
fn served(slugs: &[&str]) -> (Served, Vec<String>) {
    let house = House::quick();
    let bearer = |slug: &&str| {
        house.tenant(slug, "operator");
        house.bearer(slug, Kind::Bearer, &scopes())
    };
    let bearers = slugs.iter().map(bearer).collect();
    (house.run(&[]), bearers)
}

/// Fills a tenant's workspace with data of every type, and returns its ids, tokens, receipts and cursors.
fn furnish(served: &Served, slug: &str, bearer: &str) -> Theirs {
    let lines = sample_catalog::lines();
    let data = served.service.data();
    let report = run_json(data, &["import", "--workspace", slug, lines.to_str().unwrap()]);
    assert_eq!(report["bad_count"], 0, "{report}");
    let folder = served.beside("theirs");
    write(&folder, "cellar.md", format!("# Barrels\n\nThe {WORD} lies in oak.\n"));
    run_json(data, &["ingest", "--workspace", slug, folder.to_str().unwrap()]);
    let mut theirs = Theirs::default();
    let mut take = |tool: &'static str, arguments: Value| {
        let said = call(&served.service, bearer, tool, &arguments).json();
        // Some examples fail, because their item does not exist yet.
        let answer = &said["result"]["structuredContent"];
        if answer.is_object() {
            theirs.receipts.push(answer["receipt"].clone());
            theirs.learn(answer);
        }
        if let Some(cursor) = answer["next_cursor"].as_str() {
            theirs.cursors.insert(tool, cursor.to_owned());
        }
    };
    for n in 0..24 {
        let text = format!("The {WORD} of barrel {n} is kept in the cellar.");
        let source = json!({"uri": format!("https://example.org/{n}"), "title": WORD});
        take("brain_remember", json!({"text": text, "tags": [WORD], "source": source}));
        take("record_task_attempt_tool", json!({"task": format!("Weigh barrel {n}")}));
        take("issue_artifact_id_tool", json!({"kind": "barrel", "name": format!("barrel {n}")}));
    }
    let text = format!("# Cellar\n\nThe {WORD} is weighed at noon.\n\n## Barrels\n\nOf oak.\n");
    let uri = "given:cellar";
    take("ingest_text_tool", json!({"title": WORD, "text": text, "uri": uri}));
    for row in rows().filter(|row| row.change != Change::Removes) {
        take(row.name, Value::Object(example(row)));
    }
    take("brain_recall", json!({"query": WORD}));
    theirs
}

/// A tenant's export lines.
fn exported(served: &Served, bearer: &str) -> Vec<Value> {
    let mut lines = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page = served.given(bearer, "export_memory_tool", &json!({"cursor": cursor}));
        lines.extend(page["lines"].as_array().unwrap().iter().cloned());
        match page.get("next_cursor") {
            Some(next) => cursor = next.clone(),
            None => return lines,
        }
    }
}

/// Normalizes answers of one server: its own ids are numbered in order of appearance.
#[derive(Default)]
struct Plain {
    numbers: BTreeMap<String, usize>,
}

impl Plain {
    fn of(&mut self, row: &Tool, answer: &Answer, theirs: &Theirs) -> Value {
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let is_error = body["result"]["isError"].clone();
        if FIGURES.contains(&row.name) || row.name.starts_with("brain_benchmark") {
            return json!([answer.status, is_error]);
        }
        if body["result"]["structuredContent"].is_object() {
            body["result"]["content"].take();
        }
        json!([answer.status, self.value(&body, theirs)])
    }

    fn value(&mut self, value: &Value, theirs: &Theirs) -> Value {
        match value {
            Value::String(text) => self.text(text, theirs).into(),
            Value::Array(all) => all.iter().map(|one| self.value(one, theirs)).collect(),
            Value::Object(fields) => {
                let kept = fields.iter().filter(|(name, _)| !OTHER.contains(&name.as_str()));
                kept.map(|(name, one)| (name.clone(), self.value(one, theirs))).collect()
            }
            other => other.clone(),
        }
    }

    fn text(&mut self, text: &str, theirs: &Theirs) -> String {
        let mut plain = text.to_owned();
        for id in ids(text).filter(|id| !theirs.ids.contains(*id)) {
            let next = self.numbers.len();
            let number = *self.numbers.entry(id.to_owned()).or_insert(next);
            plain = plain.replace(id, &format!("#{number}"));
        }
        without_times(&plain)
    }
}

/// Replaces the times in a text.
fn without_times(text: &str) -> String {
    let words = text.split_inclusive(|c: char| c.is_whitespace() || "\"\\,;()".contains(c));
    let is_time = |word: &str| {
        let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        bare.len() > 18 && bare.ends_with('Z') && bare.contains('T') && bare.contains(':')
    };
    words.map(|word| if is_time(word) { "TIME " } else { word }).collect()
}

#[test]
fn whatever_a_tenant_names_of_another_is_to_it_what_nobody_has() {
    let (both, bearers) = served(&["acme", "globex"]);
    let (alone, other) = served(&["globex"]);
    let (acme, globex, twin) = (&bearers[0], &bearers[1], &other[0]);
    let theirs = furnish(&both, "acme", acme);
    let kinds = theirs.id_of_each_kind();
    let kinds: Vec<&str> = kinds.iter().map(|id| &id[..PREFIX_CHARS]).collect();
    for kind in ["art", "chk", "doc", "edg", "fup", "itm", "job", "rcp", "src", "tsk"] {
        assert!(kinds.contains(&kind), "there is no {kind}: {kinds:?}");
    }
    assert!(!theirs.tokens.is_empty() && theirs.cursors.len() > 3, "{:?}", theirs.cursors);
    let before = exported(&both, acme);
    assert!(before.iter().any(|line| line.as_str().unwrap().contains(WORD)));
    let (mut here, mut there) = (Plain::default(), Plain::default());
    let mut calls = 0;
    let mut wrong = Vec::new();
    for row in rows() {
        let mut asked = vec![example(row)];
        for field in (row.shape)() {
            for value in theirs.values(row, field.name) {
                let mut arguments = example(row);
                // Some arguments exclude each other.
                if matches!(field.name, "grounding_tokens" | "document_id" | "item_id") {
                    for other in ["item_ids", "path", "topic", "query", "subject"] {
                        arguments.remove(other);
                    }
                }
                arguments.insert(field.name.to_owned(), value);
                asked.push(arguments);
            }
        }
        for arguments in asked {
            calls += 1;
            let arguments = Value::Object(arguments);
            let answer = call(&both.service, globex, row.name, &arguments);
            let same = call(&alone.service, twin, row.name, &arguments);
            let (given, said) = (arguments.to_string(), answer.text());
            if !given.contains(WORD) && said.contains(WORD) {
                wrong.push(format!("{} {given} tells {WORD}: {said}", row.name));
            }
            for id in theirs.ids.iter().filter(|id| said.contains(&***id)) {
                if !given.contains(&**id) {
                    wrong.push(format!("{} {given} tells {id}: {said}", row.name));
                }
            }
            let (one, other) = (here.of(row, &answer, &theirs), there.of(row, &same, &theirs));
            if one != other {
                wrong.push(format!("{} {given}:\n  {one}\n  {other}", row.name));
            }
        }
    }
    println!("{calls} calls");
    let told: Vec<&String> = wrong.iter().take(8).collect();
    assert!(wrong.is_empty(), "{} are wrong: {told:#?}", wrong.len());
    assert!(calls > 3 * rows().count(), "{calls}");
    assert_eq!(exported(&both, acme), before, "what the other has is as it was");
}

/// The agreed families and scopes of the built-in plans.
fn plan_has(plan: &str, family: &str, name: &str, scope: Option<Scope>) -> bool {
    match plan {
        "free" => ["brain_recall", "brain_remember", "tenant_info"].contains(&name),
        "team" => family != "bench" && scope != Some(Scope::AuditRead),
        _ => true,
    }
}

/// Tools called in one workspace; its burst allows no more.
const ASKED_TOGETHER: usize = 40;

#[test]
fn each_plan_and_scope_has_its_tools_and_no_others_by_any_name() {
    let house = House::quick();
    let there: Vec<_> =
        agreed().filter(|(_, name, _)| rows().any(|row| row.name == *name)).collect();
    let mut asked = Vec::new();
    for plan in ["free", "team", "operator"] {
        let each = Scope::ALL.iter().map(|scope| vec![scope.name()]);
        for (at, scopes) in each.chain([scopes()]).enumerate() {
            for (part, some) in there.chunks(ASKED_TOGETHER).enumerate() {
                let slug = format!("{plan}-{at}-{part}");
                house.tenant(&slug, plan);
                asked.push((plan, scopes.clone(), house.bearer(&slug, Kind::User, &scopes), some));
            }
        }
    }
    let served = house.run(&[]);
    for (plan, scopes, bearer, some) in &asked {
        let has_scope =
            |scope: Option<Scope>| scope.is_none_or(|scope| scopes.contains(&scope.name()));
        let wanted = there.iter().filter(|&&(family, name, scope)| {
            plan_has(plan, family, name, scope) && has_scope(scope)
        });
        let wanted: BTreeSet<&str> = wanted.map(|(_, name, _)| *name).collect();
        let listed = tools(&served.service, bearer);
        let listed: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
        assert_eq!(listed, wanted, "{plan} {scopes:?}");
        let nobodys = call(&served.service, bearer, "no_such_tool", &json!({}));
        for &(family, name, scope) in some.iter().filter(|(_, name, _)| !wanted.contains(name)) {
            let row = rows().find(|row| row.name == name).unwrap();
            let answer = call(&served.service, bearer, name, &Value::Object(example(row)));
            if plan_has(plan, family, name, scope) {
                let reason = answer.json()["error"]["data"]["reason"].clone();
                assert_eq!((answer.status, &reason), (403, &json!("insufficient_scope")), "{name}");
                continue;
            }
            let said = answer.text().replace(name, "no_such_tool");
            assert_eq!((answer.status, &*said), (nobodys.status, &*nobodys.text()), "{name}");
        }
    }
}
