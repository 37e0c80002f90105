//! The HTTP API of the real program: authentication, requests, responses.

mod large;

use std::collections::HashMap;
use std::fs;
use std::sync::OnceLock;

use serde_json::{Value, json};
use support_wire::documents;
use support_wire::mcp_client::{self, McpClient};
use support_wire::service::{Service, scratch, with_documents};
use support_wire::tree::workspace;
use support_wire::wire::{self, Answer, Ask};

/// `Bearer` alone if no token was sent; with an error if the token was invalid.
const CHALLENGE: &str = "Bearer";
const CHALLENGE_WRONG: &str = "Bearer error=\"invalid_token\"";

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| {
        // Embedding the whole specification would take more than a minute.
        let mut arguments = Vec::new();
        for page in ["ledger.md", "log.md", "mcp.md"] {
            let page = documents::specification().join(page);
            arguments.extend(["--ingest".to_owned(), page.to_str().unwrap().to_owned()]);
        }
        with_documents(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    })
}

fn operations() -> [Ask; 3] {
    let body = json!({"query": "lamp"});
    [Ask::get("/stats"), Ask::post("/recall", &body), Ask::post("/semantic-recall", &body)]
}

fn recall(body: &Value) -> Vec<Value> {
    recall_from(service(), body)
}

fn recall_from(service: &Service, body: &Value) -> Vec<Value> {
    service.post("/recall", body).as_array().unwrap().clone()
}

#[track_caller]
fn assert_detail(answer: &Answer, status: u16, detail: &str) {
    assert_eq!((answer.status, answer.json()), (status, json!({"detail": detail})));
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
fn health_is_open_and_tells_no_secret() {
    let service = service();
    for authority in [service.local(), service.hosted()] {
        let answer = wire::ask(authority, &Ask::get("/health"));
        assert_eq!(answer.status, 200);
        let health = answer.json();
        assert_eq!(health["status"], "ok");
        assert!(health["version"].is_string() && health["uptime_s"].is_u64(), "{health}");
        assert_eq!(health["store"], json!({"ready": true}));
        assert_eq!(health["encoder"]["ready"], true);
        assert_eq!(health["encoder"]["model"], "sentence-transformers/all-MiniLM-L6-v2");
        assert!(health["encoder"]["kernel"].is_string());
        let keys: Vec<&String> = health.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 5, "nothing else is told: {keys:?}");
        assert!(!answer.text().contains('/') || !answer.text().contains("tmp"));
    }
}

#[test]
fn the_gateway_is_asked_first_and_then_the_bearer() {
    let service = service();
    let good = service.credentials();
    let bearer = format!("Bearer {}", good.bearer);
    let id = ("x-gateway-client-id", good.gateway_id.as_str());
    let secret = ("x-gateway-client-secret", good.gateway_secret.as_str());
    let authorization = ("Authorization", bearer.as_str());
    let no_gateway: [&[(&str, &str)]; 6] = [
        &[],
        &[authorization],
        &[id, authorization],
        &[secret, authorization],
        &[id, ("x-gateway-client-secret", "wrong"), authorization],
        &[("x-gateway-client-id", "wrong"), secret, authorization],
    ];
    let empty = ("Authorization", "Bearer ");
    let basic = ("Authorization", "Basic dTpw");
    let wrong = ("Authorization", "Bearer recalld_pat_wrong");
    for authority in [service.local(), service.hosted()] {
        for ask in operations() {
            for headers in no_gateway {
                let answer = wire::ask(authority, &ask.clone().headers(headers));
                assert_detail(&answer, 403, "Gateway service token required");
                assert_eq!(answer.header("www-authenticate"), None);
            }
            let refused = |bearer: &[(&str, &str)], challenge: &str| {
                let ask = ask.clone().headers(&[id, secret]).headers(bearer);
                let answer = wire::ask(authority, &ask);
                assert_detail(&answer, 401, "Not authenticated");
                assert_eq!(answer.header("www-authenticate"), Some(challenge), "{bearer:?}");
            };
            refused(&[], CHALLENGE);
            refused(&[basic], CHALLENGE);
            refused(&[empty], CHALLENGE);
            refused(&[wrong], CHALLENGE_WRONG);
            refused(&[authorization, authorization], CHALLENGE);
            let both = ask.clone().headers(&[id, secret, authorization]);
            assert_eq!(wire::ask(authority, &both).status, 200);
        }
    }
}

#[test]
fn a_bearer_in_the_url_counts_for_nothing() {
    let service = service();
    let credentials = service.credentials();
    for name in ["access_token", "token", "authorization", "bearer"] {
        let target = format!("/stats?{name}={}", credentials.bearer);
        let ask = Ask::get(&target)
            .header("x-gateway-client-id", &credentials.gateway_id)
            .header("x-gateway-client-secret", &credentials.gateway_secret);
        let answer = service.ask(&ask);
        assert_detail(&answer, 401, "Not authenticated");
        assert_eq!(answer.header("www-authenticate"), Some(CHALLENGE));
    }
}

#[test]
fn credentials_are_asked_before_the_body_is_looked_at() {
    let ask = Ask::new("POST", "/recall").body(b"{ not json".to_vec());
    assert_detail(&service().ask(&ask), 403, "Gateway service token required");
}

#[test]
fn faulty_bodies_are_told_apart_just_as_fastapi_does() {
    let cases = workspace().join("tests/golden/fastapi/cases.jsonl");
    let cases = fs::read_to_string(cases).unwrap();
    let mut client = service().connect();
    let mut refused = 0;
    for case in cases.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        // Server tests cover bodies that are not UTF-8.
        let Some(body) = case["body"].as_str().filter(|_| case["status"] != 200) else { continue };
        let mut ask = Ask::new("POST", case["path"].as_str().unwrap());
        if let Some(kind) = case["content_type"].as_str() {
            ask = ask.header("Content-Type", kind);
        }
        let answer = client.send(&service().signed(ask.body(body.as_bytes().to_vec())));
        assert_eq!(json!(answer.status), case["status"], "{body}");
        // Compared as text: some responses contain numbers that few parsers accept.
        assert_eq!(answer.text(), case["response"], "{body}");
        refused += 1;
    }
    assert!(refused > 500, "{refused} golden cases");
}

#[test]
fn limits_hold_and_have_their_defaults() {
    let query = "lamp paraffin keeper boat wind knots ships segment log bytes";
    let count = |path: &str, limit: Option<u32>| {
        let mut body = json!({"query": query});
        if let Some(limit) = limit {
            body["limit"] = limit.into();
        }
        let answer = service().post(path, &body);
        answer.as_array().or(answer["results"].as_array()).unwrap().len()
    };
    for path in ["/recall", "/semantic-recall"] {
        assert_eq!(count(path, None), 5, "{path}");
        assert_eq!(count(path, Some(1)), 1, "{path}");
        assert_eq!(count(path, Some(50)), 50, "{path}");
        for limit in [0, 51] {
            let ask = Ask::post(path, &json!({"query": query, "limit": limit}));
            let answer = service().ask(&service().signed(ask));
            assert_eq!(answer.status, 422);
            assert_eq!(answer.json()["detail"][0]["loc"], json!(["body", "limit"]));
        }
    }
    let body = json!({"query": query, "graph": true, "neighbor_limit": 21});
    let answer = service().ask(&service().signed(Ask::post("/recall", &body)));
    assert_eq!(answer.status, 422);
    assert_eq!(answer.json()["detail"][0]["ctx"], json!({"le": 20}));
}

/// Asserts every documented field with its type.
fn assert_seed(seed: &Value) {
    let text = |value: &Value| assert!(value.is_string(), "{seed}");
    let text_or_null = |value: &Value| assert!(value.is_string() || value.is_null(), "{seed}");
    let has = |value: &Value, names: &[&str]| {
        let object = value.as_object().unwrap_or_else(|| panic!("an object: {value}"));
        for name in names {
            assert!(object.contains_key(*name), "{name} of {seed}");
        }
    };
    let fields = [
        "id",
        "kind",
        "title",
        "text",
        "modality",
        "score",
        "tags",
        "status",
        "superseded_by",
        "supersedes",
        "source",
        "provenance",
        "validity",
        "policy",
        "content_sha256",
    ];
    has(seed, &fields);
    for name in ["id", "kind", "title", "text", "modality"] {
        text(&seed[name]);
    }
    assert!(seed["score"].is_f64(), "{seed}");
    assert!(seed["tags"].is_array() && seed["supersedes"].is_array(), "{seed}");
    assert!(["current", "superseded"].contains(&seed["status"].as_str().unwrap()), "{seed}");
    text_or_null(&seed["superseded_by"]);
    if !seed["source"].is_null() {
        has(&seed["source"], &["id", "kind", "uri"]);
        assert!(seed["source"]["id"].as_str().unwrap().starts_with("src_"));
    }
    has(&seed["provenance"], &["recorded_at", "by", "via", "span"]);
    let at = seed["provenance"]["recorded_at"].as_str().unwrap();
    assert!(at.ends_with('Z') && at.contains('T'), "{at}");
    has(&seed["validity"], &["from", "to"]);
    has(&seed["policy"], &["sensitivity", "gates"]);
    text(&seed["policy"]["sensitivity"]);
    assert!(seed["policy"]["gates"].is_array());
    let sha256 = seed["content_sha256"].as_str().unwrap();
    assert!(sha256.len() == 64 && sha256.bytes().all(|b| b.is_ascii_hexdigit()), "{sha256}");
}

#[test]
fn a_seed_has_every_documented_field() {
    let seeds = recall(&json!({"query": "undersea cable fails in winter", "limit": 10}));
    seeds.iter().for_each(assert_seed);
    let first = &seeds[0];
    assert!(first["text"].as_str().unwrap().contains("undersea cable"), "{first}");
    assert!(first["source"]["uri"].as_str().unwrap().ends_with("/decisions.md"), "{first}");
    let span = &first["provenance"]["span"];
    let lines: Vec<&str> = documents::DECISIONS.lines().collect();
    let line = |name: &str| usize::try_from(span[name].as_u64().unwrap()).unwrap();
    let there = lines[line("line_start") - 1..line("line_end")].join("\n");
    assert!(there.contains("undersea cable"), "{span}: {there}");
    let scores: Vec<f64> = seeds.iter().map(|seed| seed["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
}

#[test]
fn each_kind_of_document_is_recalled_by_its_words() {
    for (query, file) in [
        ("clockwork Fresnel lens polishes", "README.md"),
        ("diaphone compressor", "decisions.md"),
        ("yellow flag above a black ball", "signals.rst"),
        ("causeway floods & must not be walked", "visitors.html"),
        ("rule of twelfths tide_height", "tides.rs"),
        ("Clockwork wind the spring turns", "lamp.py"),
        ("salted herring", "stores.txt"),
        ("Day 37 millibars", "weather.log"),
        ("hash-chained audit ledger signed checkpoints", ".md"),
    ] {
        let seeds = recall(&json!({"query": query, "limit": 3}));
        let uris: Vec<&str> =
            seeds.iter().map(|seed| seed["source"]["uri"].as_str().unwrap()).collect();
        assert!(uris[0].ends_with(file), "{query}: {uris:?}");
    }
    let none = recall(&json!({"query": "zyzzyva quokkaesque"}));
    assert!(none.is_empty(), "{none:?}");
}

#[test]
fn neighbours_come_when_asked_for() {
    let query = "Fresnel lens dusk keeper";
    let seeds = recall(&json!({"query": query, "limit": 3}));
    assert!(seeds.iter().all(|seed| seed.get("neighbors").is_none()));
    let mut seen = 0;
    for (limit, bound) in [(None, 3), (Some(0), 0), (Some(1), 1), (Some(20), 20)] {
        let mut body = json!({"query": query, "limit": 3, "graph": true});
        if let Some(limit) = limit {
            body["neighbor_limit"] = limit.into();
        }
        let seeds = recall(&body);
        let ids: Vec<&Value> = seeds.iter().map(|seed| &seed["id"]).collect();
        for seed in &seeds {
            let neighbours = seed["neighbors"].as_array().unwrap();
            assert!(neighbours.len() <= bound, "{limit:?}: {}", neighbours.len());
            seen += neighbours.len();
            let weights: Vec<f64> =
                neighbours.iter().map(|one| one["weight"].as_f64().unwrap()).collect();
            assert!(weights.is_sorted_by(|a, b| a >= b), "{weights:?}");
            for neighbour in neighbours {
                assert!(neighbour["edge_id"].as_str().unwrap().starts_with("edg_"));
                assert!(neighbour["relation"].is_string(), "{neighbour}");
                let direction = neighbour["direction"].as_str().unwrap();
                assert!(["in", "out"].contains(&direction), "{neighbour}");
                assert!(!ids.contains(&&neighbour["item"]["id"]), "a seed as a neighbour");
                let mut item = neighbour["item"].clone();
                item["score"] = json!(0.5);
                assert_seed(&item);
            }
        }
    }
    assert!(seen > 0, "no neighbour was seen");
}

#[test]
fn links_between_files_are_edges() {
    let body = json!({"query": "diaphone compressor fog horn", "limit": 1});
    let back = recall(&json!({
        "query": "handbook Skerry Point kept decisions signal codes", "limit": 1, "graph": true,
        "neighbor_limit": 20,
    }));
    let targets: Vec<&str> = back[0]["neighbors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["relation"] == "links_to" && one["direction"] == "out")
        .map(|one| one["item"]["source"]["uri"].as_str().unwrap())
        .collect();
    for file in ["decisions.md", "signals.rst", "visitors.html"] {
        assert!(targets.iter().any(|uri| uri.ends_with(file)), "{file}: {}", back[0]);
    }
    assert_eq!(recall(&body).len(), 1);
}

#[test]
fn modality_filters_before_ranking() {
    let query = "tide height of the reef for the supply boat";
    let of = |modality: Value| recall(&json!({"query": query, "limit": 20, "modality": modality}));
    for modality in ["text", "code"] {
        let seeds = of(json!(modality));
        assert!(!seeds.is_empty(), "{modality}");
        assert!(seeds.iter().all(|seed| seed["modality"] == modality), "{modality}");
    }
    assert!(of(json!("image")).is_empty());
    let any = of(Value::Null);
    assert!(any.iter().any(|seed| seed["modality"] == "code"));
    assert!(any.iter().any(|seed| seed["modality"] == "text"));
    let one = recall(&json!({"query": query, "limit": 1, "modality": "text"}));
    assert_eq!(one.len(), 1, "the filter comes before the limit");
}

#[test]
fn a_replacement_steps_above_what_it_replaced() {
    let mut mcp = McpClient::open(service());
    let old = json!({"text": "Gannets nest on ledge zeta; the ledge zeta ladder is red."});
    let old = mcp.call("brain_remember", &old)["item"]["id"].clone();
    let new = json!({"text": "The birds moved away and the ladder was scrapped.",
        "supersedes": old});
    let new = mcp.call("brain_remember", &new)["item"]["id"].clone();
    let query = "gannets on ledge zeta";
    let ids = |prefer: bool| {
        let seeds = recall(&json!({"query": query, "limit": 50, "prefer_replacements": prefer}));
        let at = |id: &Value| seeds.iter().position(|seed| seed["id"] == *id);
        if let Some(at) = at(&old) {
            assert_eq!(seeds[at]["status"], "superseded");
            assert_eq!(seeds[at]["superseded_by"], new);
        }
        if let Some(at) = at(&new) {
            assert_eq!(seeds[at]["status"], "current");
            assert_eq!(seeds[at]["supersedes"], json!([old]));
        }
        (at(&old), at(&new))
    };
    assert_eq!(ids(false), (Some(0), None), "it shares no word with the question");
    assert_eq!(ids(true), (Some(1), Some(0)));
}

#[test]
fn what_is_titled_as_the_question_comes_first_and_each_keeps_its_own_score() {
    // A service of its own: writes of other tests would change the word weights.
    let scratch = scratch();
    let service = Service::start(scratch.path(), &[]);
    let mut mcp = McpClient::open(&service);
    let titled = json!({"title": "Samphire beds", "text": "Nobody knows who planted them."});
    let titled = mcp.call("brain_remember", &titled)["item"]["id"].clone();
    let worded = json!({"title": "Of samphire, samphire beds and beds of samphire",
        "text": "Samphire beds: samphire beds, beds and samphire."});
    let worded = mcp.call("brain_remember", &worded)["item"]["id"].clone();
    let seeds = |query: &str| recall_from(&service, &json!({"query": query, "limit": 50}));
    let score = |seeds: &[Value], id: &Value| {
        let seed = seeds.iter().find(|seed| seed["id"] == *id);
        seed.and_then(|seed| seed["score"].as_f64()).unwrap()
    };
    let asked = seeds("samphire BEDS?");
    assert_eq!((&asked[0]["id"], &asked[1]["id"]), (&titled, &worded));
    assert!(score(&asked, &titled) < score(&asked, &worded), "{asked:?}");
    // A query of the same words that is no title: the order is by score, and the scores are equal.
    let turned = seeds("beds samphire");
    assert_eq!((&turned[0]["id"], &turned[1]["id"]), (&worded, &titled));
    for id in [&titled, &worded] {
        assert!((score(&asked, id) - score(&turned, id)).abs() < f64::EPSILON, "{asked:?}");
    }
    let scores = |seeds: &[Value]| {
        seeds.iter().map(|seed| seed["score"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert!(scores(&turned).is_sorted_by(|a, b| a >= b));
    assert!(scores(&asked[1..]).is_sorted_by(|a, b| a >= b));
}

#[test]
fn what_was_said_of_an_item_comes_back_with_it() {
    let mut mcp = McpClient::open(service());
    let old = mcp.call("brain_remember", &json!({"text": "Quillwort ferry times, first edition."}));
    let old = old["item"]["id"].clone();
    let given = json!({
        "text": "The quillwort ferry leaves at the turn of the tide.", "title": "Quillwort ferry",
        "kind": "decision", "tags": ["ferry", "tide"], "sensitivity": "confidential",
        "gates": ["no_export"], "valid_from": "2026-01-02T03:04:05Z",
        "valid_to": "2027-01-02T03:04:05Z", "supersedes": old,
    });
    let new = mcp.call("brain_remember", &given)["item"]["id"].clone();
    let query = "quillwort ferry leaves turn of the tide";
    let body = json!({"query": query, "limit": 2, "prefer_replacements": true});
    let semantic = service().post("/semantic-recall", &json!({"query": query, "limit": 1}));
    for seed in [&recall(&body)[0], &semantic["results"][0]] {
        assert_seed(seed);
        for name in ["text", "title", "kind", "tags"] {
            assert_eq!(seed[name], given[name], "{name}");
        }
        assert_eq!(seed["id"], new);
        assert_eq!((&seed["status"], &seed["superseded_by"]), (&json!("current"), &Value::Null));
        assert_eq!(seed["supersedes"], json!([old]));
        assert_eq!(seed["validity"], json!({"from": given["valid_from"], "to": given["valid_to"]}));
        assert_eq!(seed["policy"], json!({"sensitivity": "confidential", "gates": ["no_export"]}));
        assert_eq!(seed["provenance"]["span"], Value::Null);
        assert_eq!(seed["provenance"]["by"], "operator");
        assert_eq!(seed["provenance"]["via"], "brain_remember");
    }
}

#[test]
fn semantic_recall_says_what_was_asked_of_which_model_and_gives_the_best_first() {
    let query = "why is there no electric light?";
    let answer = service().post("/semantic-recall", &json!({"query": query, "limit": 50}));
    assert_eq!(answer["query"], query);
    assert_eq!(answer["model"], "sentence-transformers/all-MiniLM-L6-v2");
    assert_eq!((&answer["dimensions"], &answer["count"]), (&json!(384), &json!(50)));
    assert!(answer["took_ms"].is_f64(), "{}", answer["took_ms"]);
    let results = answer["results"].as_array().unwrap();
    results.iter().for_each(assert_seed);
    let scores: Vec<f64> = results.iter().map(|one| one["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    for pair in results.windows(2).filter(|pair| pair[0]["score"] == pair[1]["score"]) {
        assert!(
            pair[0]["id"].as_str() < pair[1]["id"].as_str(),
            "equal scores are in order of id: {pair:?}"
        );
    }
}

#[test]
fn no_answer_holds_a_vector() {
    fn walk(value: &Value) {
        match value {
            Value::Array(members) => {
                let numbers = members.iter().filter(|one| one.is_number()).count();
                assert!(numbers < 16, "a vector of {numbers} numbers");
                members.iter().for_each(walk);
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    assert!(!name.contains("vector") && name != "embedding", "{name}");
                    walk(field);
                }
            }
            _ => {}
        }
    }
    let service = service();
    let body = json!({"query": "lamp fuel", "limit": 50});
    let mut deep = body.clone();
    deep["graph"] = true.into();
    walk(&service.post("/recall", &deep));
    walk(&service.post("/semantic-recall", &body));
    let asked = json!({"query": "where is lamp fuel?"});
    walk(&McpClient::open(service).result("retrieval_arbitrate_tool", &asked));
}

#[test]
fn statistics_count_what_is_there() {
    let service = service();
    recall(&json!({"query": "lamp"})); // so that there is a latency, whichever test comes first
    let answer = service.ask(&service.signed(Ask::get("/stats")));
    assert_eq!(answer.status, 200);
    let stats = answer.json();
    for name in [
        "memory_items",
        "edges",
        "sources",
        "sensitivity_events",
        "superseded",
        "tombstoned",
        "embedding_rows",
        "segments",
        "bytes_on_disk",
    ] {
        assert!(stats[name].is_u64(), "{name} of {stats}");
    }
    let documents = stats["by_kind"]["document"].as_u64().unwrap();
    assert!(documents > documents::READABLE, "{stats}");
    assert!(stats["sources"].as_u64().unwrap() >= documents);
    assert!(stats["by_modality"]["code"].as_u64().unwrap() >= 2, "{stats}");
    assert!(stats["edges"].as_u64().unwrap() > 0);
    let latency: HashMap<String, f64> =
        serde_json::from_value(stats["recall_latency_ms"].clone()).unwrap();
    assert_eq!(latency.len(), 3);
}

#[test]
fn unknown_paths_and_methods_are_told_apart() {
    let service = service();
    for path in ["/", "/nothing", "/recall/", "/health/x", "/operator", "/RECALL"] {
        assert_detail(&service.ask(&service.signed(Ask::get(path))), 404, "Not Found");
    }
    for (method, path, allowed) in [
        ("GET", "/recall", "OPTIONS, POST"),
        ("PUT", "/semantic-recall", "OPTIONS, POST"),
        ("DELETE", "/stats", "GET, HEAD, OPTIONS"),
        ("POST", "/health", "GET, HEAD, OPTIONS"),
    ] {
        let answer = service.ask(&service.signed(Ask::new(method, path)));
        assert_detail(&answer, 405, "Method Not Allowed");
        assert_eq!(answer.header("allow"), Some(allowed), "{method} {path}");
    }
    let operator = Ask::post("/operator/recall", &json!({"query": "lamp"}));
    let answer = wire::ask(service.hosted(), &service.signed(operator));
    assert_detail(&answer, 404, "Not Found");
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let service = service();
    let large = json!({"query": "x".repeat(1024 * 1024)});
    let answer = service.ask(&service.signed(Ask::post("/recall", &large)));
    assert_eq!(answer.status, 413);
    assert!(answer.json()["detail"].as_str().unwrap().contains("1048576"), "{}", answer.text());
    // An announced body that is never sent is rejected by its length.
    let announced = Ask::new("POST", "/recall").header("Content-Length", "999999999");
    assert_eq!(service.ask(&service.signed(announced)).status, 413);
}

#[test]
fn what_a_head_is_refused_for_is_told_under_the_clients_own_id() {
    for (name, value, status) in [
        ("Content-Length", "999999999", 413),
        ("Expect", "a miracle", 417),
        ("Transfer-Encoding", "gzip", 501),
    ] {
        let ask = Ask::get("/stats").header(name, value);
        let own = ask.clone().header("X-Request-Id", "mine-1");
        let answer = service().ask(&own);
        assert_eq!((answer.status, answer.header("x-request-id")), (status, Some("mine-1")));
        let odd = service().ask(&ask.header("X-Request-Id", "not one of ours!"));
        assert_eq!(odd.status, status);
        assert!(!odd.header("x-request-id").unwrap().contains(' '));
    }
}

#[test]
fn one_connection_serves_many_requests() {
    let service = service();
    let mut client = service.connect();
    for _ in 0..3 {
        assert_eq!(client.send(&Ask::get("/health")).status, 200);
        for ask in operations() {
            assert_eq!(client.send(&service.signed(ask)).status, 200);
        }
        let head = client.send(&Ask::new("HEAD", "/health"));
        let length: usize = head.header("content-length").unwrap().parse().unwrap();
        assert!(head.status == 200 && length > 0 && head.body.is_empty());
        let head = client.send(&service.signed(Ask::new("HEAD", "/stats")));
        assert!(head.status == 200 && head.body.is_empty());
        assert_eq!(client.send(&Ask::get("/nothing")).status, 404);
    }
    let last = client.send(&Ask::get("/health").header("Connection", "close"));
    assert_eq!(last.status, 200);
    assert!(client.is_closed().unwrap());
}

#[test]
fn the_local_listener_refuses_other_hosts_and_origins() {
    let service = service();
    let port = service.local().rsplit_once(':').unwrap().1;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let rebound = format!("evil.example:{port}");
    for ask in [Ask::get("/health"), mcp_client::ask(&ping)] {
        for host in ["evil.example", rebound.as_str(), "127.0.0.2", "localhost.evil.example"] {
            let answer = service.ask(&ask.clone().header("Host", host));
            assert_eq!(answer.status, 403, "{host}: {}", answer.text());
        }
        let other = format!("http://localhost:{}", port.parse::<u16>().unwrap() ^ 1);
        for origin in ["http://evil.example", "null", "https://example.com", other.as_str()] {
            let answer = service.ask(&ask.clone().header("Origin", origin));
            assert_eq!(answer.status, 403, "{origin}: {}", answer.text());
        }
        let own = format!("http://{}", service.local());
        assert_eq!(service.ask(&ask.clone().header("Origin", &own)).status, 200);
        let named = format!("localhost:{port}");
        assert_eq!(service.ask(&ask.clone().header("Host", &named)).status, 200);
    }
}

#[test]
fn mcp_on_the_hosted_listener_needs_the_bearer() {
    let service = service();
    let ping = mcp_client::ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    // The response states where to get a token, and for which resource (RFC 9728, section 5.1).
    let document = format!("http://{}/.well-known/oauth-protected-resource/mcp", service.hosted());
    let challenge = |error: &str| {
        let scopes = "tenant:read brain:proxy memory:write ingest:write agent:state";
        format!("Bearer {error}resource_metadata=\"{document}\", scope=\"{scopes}\"")
    };
    let answer = wire::ask(service.hosted(), &ping);
    assert_detail(&answer, 401, "Not authenticated");
    assert_eq!(answer.header("www-authenticate"), Some(&*challenge("")));
    let wrong = ping.clone().header("Authorization", "Bearer wrong");
    let answer = wire::ask(service.hosted(), &wrong);
    assert_detail(&answer, 401, "Not authenticated");
    let why = "the access token is not good, or not good any more";
    let error = format!("error=\"invalid_token\", error_description=\"{why}\", ");
    let wanted = challenge(&error);
    assert_eq!(answer.header("www-authenticate"), Some(&*wanted));
    let bearer = format!("Bearer {}", service.credentials().bearer);
    let answer = wire::ask(service.hosted(), &ping.header("Authorization", &bearer));
    assert_eq!((answer.status, answer.json()["result"].clone()), (200, json!({})));
}
