//! Tenant isolation: no sequence of calls by one tenant returns or counts data of another, and only the credential
//! determines the workspace of a call.
//!
//! Random calls of two tenants and the operator are interleaved on one server. No answer to the first tenant may
//! contain a word or id of the others. Each answer must equal that of a second server, which has only this tenant's
//! calls; there, ids of the others are replaced by unknown ids.

use std::cell::Cell;
use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Map, Value, json};
use support_server::house::{House, Served, mcp, signed};
use support_wire::wire::{self, Answer, Ask};

/// Number of call sequences; each has its own workspaces.
const CASES: u32 = 10;
/// Shrinking attempts after a failure.
const SHRINKS: u32 = 30;
const CALLS_MAX: usize = 48;
/// The word in each caller's items; no caller queries another's word.
const WORDS: [&str; 3] = ["ambergris", "basaltine", "cobaltite"];
const TOPICS: [&str; 3] =
    ["The vault opens with left turns.", "We chose epoll for old kernels.", "Umbrellas sell well."];
const RECALLS: [&str; 5] = [
    "retrieval_arbitrate_tool",
    "brain_recall",
    "semantic_recall_tool",
    "keyword_recall_tool",
    "graph_recall_tool",
];
const LISTS: [&str; 4] =
    ["tools/list", "resources/list", "resources/templates/list", "prompts/list"];
/// Unknown tool names, some of them named like operator functions.
const NO_TOOLS: [&str; 4] =
    ["ledger_verify_tool", "tenant_list_tool", "bench_run_tool", "operator_export"];

/// The callers: two tenants, and the machine's operator.
const A: usize = 0;
const B: usize = 1;
const LOCAL: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Which {
    Own(usize),
    /// An item of the next caller.
    Others(usize),
}

#[derive(Debug, Clone)]
enum Act {
    Remember {
        topic: usize,
        supersedes: Option<Which>,
        key: Option<u8>,
    },
    Recall {
        topic: usize,
        by: usize,
    },
    Rest {
        topic: usize,
        is_semantic: bool,
        is_local: bool,
    },
    RestStats {
        is_local: bool,
    },
    Stats,
    Document(Which),
    Read(Which),
    ReadDocument(Which),
    Brief,
    DailyBrief,
    Complete {
        of: usize,
    },
    List {
        of: usize,
        has_cursor: bool,
    },
    Ingest,
    NoTool(usize),
    Follow(Which),
    /// Uses another caller's session, by `POST`, `GET` and `DELETE`.
    InTheirs(usize),
    CancelTheirs,
}

#[derive(Debug, Clone)]
struct Step {
    by: usize,
    act: Act,
    /// The way in which the request names another workspace, if any.
    disguise: Option<usize>,
    in_session: bool,
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![(0..4usize).prop_map(Which::Own), (0..4usize).prop_map(Which::Others)]
}

fn act() -> impl Strategy<Value = Act> {
    let remember = (0..3usize, proptest::option::of(which()), proptest::option::of(0..2u8));
    prop_oneof![
        5 => remember.prop_map(|(topic, supersedes, key)| Act::Remember { topic, supersedes, key }),
        3 => (0..3usize, 0..RECALLS.len()).prop_map(|(topic, by)| Act::Recall { topic, by }),
        3 => (0..3usize, any::<bool>(), any::<bool>())
            .prop_map(|(topic, is_semantic, is_local)| Act::Rest { topic, is_semantic, is_local }),
        2 => any::<bool>().prop_map(|is_local| Act::RestStats { is_local }),
        2 => Just(Act::Stats),
        1 => which().prop_map(Act::Document),
        2 => which().prop_map(Act::Read),
        1 => which().prop_map(Act::ReadDocument),
        1 => Just(Act::Brief),
        1 => Just(Act::DailyBrief),
        2 => (0..3usize).prop_map(|of| Act::Complete { of }),
        1 => (0..LISTS.len(), any::<bool>())
            .prop_map(|(of, has_cursor)| Act::List { of, has_cursor }),
        1 => Just(Act::Ingest),
        1 => (0..NO_TOOLS.len()).prop_map(Act::NoTool),
        1 => which().prop_map(Act::Follow),
        2 => (0..3usize).prop_map(Act::InTheirs),
        1 => Just(Act::CancelTheirs),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let by = prop_oneof![4 => Just(A), 3 => Just(B), 1 => Just(LOCAL)];
    let disguise = proptest::option::of(0..DISGUISES);
    (by, act(), disguise, any::<bool>()).prop_map(|(by, act, disguise, in_session)| Step {
        by,
        act,
        disguise,
        in_session,
    })
}

/// State of one caller.
#[derive(Debug, Default, Clone)]
struct Known {
    bearer: String,
    session: String,
    slug: String,
    /// Ids of the caller's items, in the order of creation.
    ids: Vec<String>,
}

/// A server and its callers.
struct World<'a> {
    served: &'a Served,
    known: [Known; 3],
    /// If true, the other callers' sessions, items and events are unknown ones.
    nobodys: bool,
}

impl<'a> World<'a> {
    fn begin(served: &'a Served, bearers: [&str; 3], case: usize, nobodys: bool) -> Self {
        let mut world = Self { served, known: Default::default(), nobodys };
        for (who, bearer) in bearers.into_iter().enumerate() {
            world.known[who].bearer = bearer.to_owned();
            world.known[who].slug = slug(who, case);
            let is_there = !nobodys || who == A;
            world.known[who].session = match is_there {
                true => world.session(who),
                false => "A".repeat(32),
            };
        }
        world
    }

    fn session(&self, who: usize) -> String {
        let client = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let answer = self.send(who, mcp("", "initialize", &params));
        answer.header("mcp-session-id").unwrap_or_else(|| panic!("{}", answer.text())).to_owned()
    }

    /// Sends an MCP request with the caller's credential; the operator uses the local listener without one.
    fn send(&self, who: usize, ask: Ask) -> Answer {
        let bearer = format!("Bearer {}", self.known[who].bearer);
        let at = match who {
            LOCAL => self.served.service.local(),
            _ => self.served.service.hosted(),
        };
        let ask = ask.without("Authorization");
        let ask = if who == LOCAL { ask } else { ask.header("Authorization", &bearer) };
        wire::ask(at, &ask)
    }

    /// Resolves the id of an item; an unknown id if the other caller has none.
    fn id(&self, who: usize, which: Which) -> String {
        let (of, at) = match which {
            Which::Own(at) => (who, at),
            Which::Others(at) => ((who + 1) % 3, at),
        };
        let ids = &self.known[of].ids;
        let is_nobodys = ids.is_empty() || (of != who && self.nobodys);
        if is_nobodys { format!("itm_{}", "7".repeat(26)) } else { ids[at % ids.len()].clone() }
    }

    /// Builds the request of a step, and the foreign id in it.
    fn ask(&self, step: &Step) -> Asked {
        let (who, other) = (step.by, (step.by + 1) % 3);
        let mut asked = Asked::default();
        let topic = |at: usize| TOPICS[at];
        let call = |name: &str, arguments: Value| {
            Body::Mcp("tools/call", json!({"name": name, "arguments": arguments}))
        };
        let mut id = |which: Which| {
            let id = self.id(who, which);
            asked.id = Some(id.clone());
            id
        };
        let body = match &step.act {
            Act::Remember { topic: at, supersedes, key } => {
                let count = self.known[who].ids.len();
                let text = format!("{} {}, as of entry {count}.", WORDS[who], topic(*at));
                let mut arguments = json!({"text": text, "tags": [WORDS[who]]});
                if let Some(which) = supersedes {
                    arguments["supersedes"] = id(*which).into();
                }
                if let Some(key) = key {
                    // A reused key with other arguments is rejected, so these arguments depend on nothing else.
                    arguments = json!({"text": format!("{} key {key}", WORDS[who])});
                    arguments["idempotency_key"] = format!("key-{key}").into();
                }
                call("brain_remember", arguments)
            }
            Act::Recall { topic: at, by } => call(RECALLS[*by], json!({"query": topic(*at)})),
            Act::Rest { topic: at, is_semantic, is_local } => {
                asked.is_local = *is_local;
                let path = if *is_semantic { "/semantic-recall" } else { "/recall" };
                Body::Post(path, json!({"query": topic(*at), "limit": 50}))
            }
            Act::RestStats { is_local } => {
                asked.is_local = *is_local;
                Body::Get("/stats")
            }
            Act::Stats => call("recall_stats", json!({})),
            Act::Document(which) => {
                call("docstore_get_document_tool", json!({"document_id": id(*which)}))
            }
            Act::Read(which) => uri("resources/read", &format!("item/{}", id(*which))),
            Act::ReadDocument(which) => uri("resources/read", &format!("document/{}", id(*which))),
            Act::Brief => uri("resources/read", "brief/today"),
            Act::DailyBrief => {
                Body::Mcp("prompts/get", json!({"name": "daily-brief", "arguments": {}}))
            }
            Act::Complete { of } => completion(*of),
            Act::List { of, has_cursor: false } => Body::Mcp(LISTS[*of], json!({})),
            Act::List { of, has_cursor: true } => Body::Mcp(LISTS[*of], json!({"cursor": "1"})),
            Act::Ingest => call("ingest_paths_tool", json!({"paths": [self.shared_folder()]})),
            Act::NoTool(at) => call(NO_TOOLS[*at], json!({})),
            Act::Follow(which) => uri("resources/subscribe", &format!("item/{}", id(*which))),
            Act::InTheirs(how) => {
                asked.session = Some(self.known[other].session.clone());
                match how {
                    0 => Body::Mcp("resources/list", json!({})),
                    1 => Body::Bare("GET"),
                    _ => Body::Bare("DELETE"),
                }
            }
            Act::CancelTheirs => Body::Note("notifications/cancelled", json!({"requestId": 1})),
        };
        if step.in_session && asked.session.is_none() {
            asked.session = Some(self.known[who].session.clone());
        }
        asked.body = body;
        asked
    }

    fn shared_folder(&self) -> String {
        self.served.beside("theirs").to_str().unwrap().to_owned()
    }

    /// Runs a step. Returns the answer, and the requested id.
    fn take(&self, step: &Step) -> (Answer, Option<String>) {
        let mut asked = self.ask(step);
        let other = self.known[(step.by + 1) % 3].slug.clone();
        let (headers, query) = disguised(step.disguise, &other, &mut asked.body);
        let (ask, is_mcp) = match &asked.body {
            Body::Mcp(method, params) => (mcp("", method, params), true),
            Body::Note(method, params) => {
                let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
                (support_wire::mcp_client::ask(&message), true)
            }
            Body::Bare(method) => {
                let ask = Ask::new(method, "/mcp").header("Accept", "text/event-stream");
                (ask.header("Last-Event-ID", "1-1"), true)
            }
            Body::Post(path, body) => (Ask::post(path, body), false),
            Body::Get(path) => (Ask::get(path), false),
        };
        let mut ask = headers.iter().fold(ask, |ask, (name, value)| ask.header(name, value));
        if let Some(query) = query {
            ask = ask.with_query(&query);
        }
        if is_mcp {
            if let Some(session) = &asked.session {
                ask = ask.header("Mcp-Session-Id", session);
            }
            return (self.send(step.by, ask), asked.id);
        }
        let service = &self.served.service;
        let is_local = asked.is_local || step.by == LOCAL;
        let at = if is_local { service.local() } else { service.hosted() };
        (wire::ask(at, &signed(service, &self.known[step.by].bearer, ask)), asked.id)
    }

    /// Records the id of a remembered item.
    fn learn(&mut self, step: &Step, answer: &Answer) {
        if !matches!(step.act, Act::Remember { .. }) || answer.status != 200 {
            return;
        }
        let said = answer.json();
        let id = said["result"]["structuredContent"]["item"]["id"].as_str();
        let ids = &mut self.known[step.by].ids;
        if let Some(id) = id.filter(|id| !ids.iter().any(|known| known == id)) {
            ids.push(id.to_owned());
        }
    }
}

enum Body {
    Mcp(&'static str, Value),
    Note(&'static str, Value),
    /// An HTTP method without a body.
    Bare(&'static str),
    Post(&'static str, Value),
    Get(&'static str),
}

struct Asked {
    body: Body,
    session: Option<String>,
    id: Option<String>,
    is_local: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self { body: Body::Get("/"), session: None, id: None, is_local: false }
    }
}

fn uri(method: &'static str, rest: &str) -> Body {
    Body::Mcp(method, json!({"uri": format!("memory://{rest}")}))
}

fn completion(of: usize) -> Body {
    let prompt = json!({"type": "ref/prompt", "name": "record-a-decision"});
    let (of, argument) = match of {
        0 => (json!({"type": "ref/resource", "uri": "memory://item/{id}"}), "id"),
        1 => (prompt, "supersedes"),
        _ => (prompt, "tag"),
    };
    let argument = json!({"name": argument, "value": ""});
    Body::Mcp("completion/complete", json!({"ref": of, "argument": argument}))
}

const DISGUISES: usize = 12;

/// Makes a request name another workspace in one of many places: a header field, a query to append, or a field of its
/// body.
fn disguised(
    how: Option<usize>,
    other: &str,
    body: &mut Body,
) -> (Vec<(&'static str, String)>, Option<String>) {
    let host = format!("{other}.example");
    let header = |name: &'static str, value: String| (vec![(name, value)], None);
    let mut within = |at: &[&str], value: Value| {
        match body {
            Body::Mcp(_, params) | Body::Note(_, params) | Body::Post(_, params) => {
                let mut place = params;
                for name in at {
                    place = &mut place[*name];
                }
                *place = value;
            }
            Body::Bare(_) | Body::Get(_) => {}
        }
        (Vec::new(), None)
    };
    match how {
        None => (Vec::new(), None),
        Some(0) => header("X-Tenant", other.to_owned()),
        Some(1) => header("X-Workspace", other.to_owned()),
        Some(2) => header("X-Forwarded-Host", host),
        Some(3) => header("Forwarded", format!("host={host};for=10.0.0.1")),
        Some(4) => header("X-Forwarded-User", other.to_owned()),
        Some(5) => header("Cookie", format!("workspace={other}; tenant={other}")),
        Some(6) => header("X-Original-URL", format!("/tenants/{other}/mcp")),
        Some(7) => (Vec::new(), Some(format!("workspace={other}&tenant={other}"))),
        Some(8) => within(&["_meta"], json!({"workspace": other, "tenant": other})),
        Some(9) => within(&["workspace"], other.into()),
        Some(10) => within(&["tenant"], other.into()),
        Some(_) => within(&["arguments", "workspace"], other.into()),
    }
}

fn slug(who: usize, case: usize) -> String {
    match who {
        LOCAL => "local".to_owned(),
        _ => format!("{}-{case}", ["acme", "globex"][who]),
    }
}

/// Normalizes an answer for comparison: removes fields that differ between servers (times, receipts, file locations),
/// replaces ids by numbers, and sorts lists.
fn plain(value: &Value, names: &[(String, String)]) -> Value {
    const OTHER: [&str; 12] = [
        "took_ms",
        "receipt",
        "recalld/receipt",
        "grounding_token",
        "recall_latency_ms",
        "bytes_on_disk",
        "segments",
        "search",
        "score",
        "scores",
        "created_at",
        "recorded_at",
    ];
    match value {
        Value::String(text) => {
            let named = names.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to));
            match serde_json::from_str::<Value>(&named) {
                Ok(Value::Object(inner)) => plain(&Value::Object(inner), names),
                _ => named.into(),
            }
        }
        Value::Array(all) => {
            let mut all: Vec<Value> = all.iter().map(|one| plain(one, names)).collect();
            all.sort_by_key(ToString::to_string);
            all.into()
        }
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !OTHER.contains(&name.as_str()));
            let kept: Map<String, Value> =
                kept.map(|(name, value)| (name.clone(), plain(value, names))).collect();
            kept.into()
        }
        other => other.clone(),
    }
}

/// Normalizes the status and body of an answer. If a tool returns data, the text copy is dropped: it contains times.
fn compared(answer: &Answer, own: &[String], asked: Option<&String>) -> Value {
    let own = own.iter().enumerate().map(|(at, id)| (id, format!("#{at}")));
    let asked = asked.map(|id| (id, "#asked".to_owned()));
    // Some messages contain an item's id without its kind.
    let bare = |id: &str| id.rsplit('_').next().unwrap_or(id).to_owned();
    let names: Vec<(String, String)> = own
        .chain(asked)
        .flat_map(|(id, label)| [(id.clone(), label.clone()), (bare(id), label)])
        .collect();
    let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if body["result"]["structuredContent"].is_object() {
        body["result"]["content"].take();
    }
    json!([answer.status, plain(&body, &names)])
}

/// Both servers, and bearers of the workspaces reserved for each sequence.
struct Stage {
    both: Served,
    alone: Served,
    bearers: Vec<[String; 3]>,
    used: Cell<usize>,
    /// Number of own words shown to the first tenant; with none, the test would prove nothing.
    shown: Cell<usize>,
}

impl Stage {
    fn set() -> Self {
        let (both, alone) = (House::quick(), House::quick());
        let mut bearers = Vec::new();
        let mut serve = |house: House, is_both: bool| {
            for case in 0..(CASES + SHRINKS + 1) as usize {
                let acme = house.tenant(&slug(A, case), "open");
                if is_both {
                    let globex = house.tenant(&slug(B, case), "open");
                    bearers.push([acme, globex, String::new()]);
                } else {
                    bearers[case][LOCAL] = acme;
                }
            }
            fs::create_dir(house.beside("theirs")).unwrap();
            fs::write(house.beside("theirs/notes.md"), format!("# {}\n", WORDS[LOCAL])).unwrap();
            house.run(&[])
        };
        let both = serve(both, true);
        let alone = serve(alone, false);
        Self { both, alone, bearers, used: Cell::new(0), shown: Cell::new(0) }
    }

    /// Runs one sequence in its own workspaces.
    fn run(&self, steps: &[Step]) -> Result<(), TestCaseError> {
        let case = self.used.replace(self.used.get() + 1);
        let [acme, globex, alone] = &self.bearers[case];
        let operator = self.both.service.credentials().bearer.clone();
        let mut world = World::begin(&self.both, [acme, globex, &operator], case, false);
        let mut twin = World::begin(&self.alone, [alone, "nobody", "nobody"], case, true);
        for (at, step) in steps.iter().enumerate() {
            let (answer, asked) = world.take(step);
            let said = format!("{}{}", answer.head(), answer.text());
            for other in [A, B, LOCAL].into_iter().filter(|other| *other != step.by) {
                let word = WORDS[other];
                prop_assert!(!said.contains(word), "step {at} {step:?} tells {word}: {said}");
                let ids = world.known[other].ids.iter();
                for id in ids.filter(|id| asked.as_ref() != Some(*id)) {
                    prop_assert!(!said.contains(&**id), "step {at} {step:?} tells {id}: {said}");
                }
            }
            world.learn(step, &answer);
            if step.by != A {
                continue;
            }
            self.shown.set(self.shown.get() + said.matches(WORDS[A]).count());
            let (same, asked_there) = twin.take(step);
            twin.learn(step, &same);
            let there = compared(&same, &twin.known[A].ids, asked_there.as_ref());
            let here = compared(&answer, &world.known[A].ids, asked.as_ref());
            prop_assert_eq!(here, there, "step {} {:?}: {}", at, step, said);
        }
        // All sessions have survived the others' attempts.
        for who in [A, B, LOCAL] {
            let ping =
                mcp("", "ping", &json!({})).header("Mcp-Session-Id", &world.known[who].session);
            let answer = world.send(who, ping);
            prop_assert_eq!(answer.status, 200, "{}: {}", who, answer.text());
        }
        Ok(())
    }
}

#[test]
fn no_calls_of_one_tenant_tell_or_count_anything_of_another() {
    let stage = Stage::set();
    let config = Config {
        cases: CASES,
        max_shrink_iters: SHRINKS,
        failure_persistence: None,
        ..Config::default()
    };
    let steps = proptest::collection::vec(step(), CALLS_MAX / 2..=CALLS_MAX);
    let tried = TestRunner::new(config).run(&steps, |steps| stage.run(&steps));
    tried.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stage.shown.get() > 50, "it was shown {} words", stage.shown.get());
}
