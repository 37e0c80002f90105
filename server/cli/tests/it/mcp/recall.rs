//! Recall: grounding tokens, limits, evidence.

use std::fs;

use engine::os::clock::{Random, SystemRandom};
use half::f16;
use recalld_audit::{check, tenant_hash};
use recalld_auth::{Credentials, Prefix, Verifier};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support_server::original_model;
use support_wire::service::write;

use super::{INGEST, RECALL, RECALL_NAMES, client, hex, shared};

#[test]
fn answers_are_grounded() {
    let prefix = Prefix::new("recalld").unwrap();
    let data = shared().service.data();
    let (credentials, _) =
        Credentials::open_or_create(data, &prefix, &mut |bytes| SystemRandom.fill(bytes)).unwrap();
    let verifier = Verifier::new(&[credentials.signer().public()]).unwrap();
    let answer = client().call(RECALL, &json!({"query": "Why paraffin and not electricity?"}));
    let items = answer["items"].as_array().unwrap();
    assert!(!items.is_empty() && items.len() <= 8);
    assert!(items[0]["text"].as_str().unwrap().contains("undersea cable"), "{}", items[0]);
    for item in items {
        let text = item["text"].as_str().unwrap();
        let sha256: [u8; 32] = Sha256::digest(text).into();
        assert_eq!(item["content_sha256"], hex(&sha256), "{item}");
        let token = item["grounding_token"].as_str().unwrap();
        let said = check(token, &verifier, &tenant_hash("local")).unwrap();
        assert!(said.is_of(&sha256));
        let id = recalld_common::names::parse_item(item["id"].as_str().unwrap()).unwrap();
        assert_eq!(said.item, id.0.to_le_bytes());
        assert!(check(token, &verifier, &tenant_hash("other")).is_err());
        for name in ["kind", "title", "status", "sensitivity"] {
            assert!(item[name].is_string(), "{name} of {item}");
        }
        assert!(item["provenance"]["recorded_at"].is_string(), "{item}");
        assert!(item["source"]["uri"].is_string() || item["kind"] == "note", "{item}");
    }
    assert_eq!(answer["conflicts"], json!([]));
    let routing = &answer["routing"];
    let bounds = &routing["bounds"];
    for name in ["limit", "candidate_limit", "neighbor_limit", "max_bytes", "deadline_ms"] {
        assert!(bounds[name].as_u64().unwrap() > 0, "{name} of {bounds}");
    }
    let lanes: Vec<&str> = routing["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| lane["lane"].as_str().unwrap())
        .collect();
    assert_eq!(lanes, ["words", "meaning", "graph"]);
    assert_eq!(routing["withheld"], 0);
}

#[test]
fn the_router_keeps_its_bounds() {
    let mut mcp = client();
    for name in ["limit", "candidate_limit"] {
        let why = mcp.refusal(RECALL, &json!({"query": "lamp", name: 50}));
        assert!(why.starts_with(name) && why.contains("\"limit\":8"), "{why}");
    }
    let long = mcp.refusal(RECALL, &json!({"query": "x".repeat(4097)}));
    assert!(long.contains("query") && long.contains("4096"), "{long}");
}

/// Ids with scores, and retrievers, of an answer.
fn found(answer: &Value) -> (Vec<Value>, Vec<Value>) {
    let items = answer["items"].as_array().unwrap().iter();
    let lanes = answer["routing"]["lanes"].as_array().unwrap().iter();
    (
        items.map(|item| json!([item["id"], item["score"]])).collect(),
        lanes.map(|lane| lane["lane"].clone()).collect(),
    )
}

#[test]
fn every_older_name_is_the_governed_path() {
    let mut mcp = client();
    for name in RECALL_NAMES {
        for query in ["Why paraffin and not electricity?", "who winds the clockwork of the lens"] {
            let query = json!({"query": query});
            // Other tests write concurrently, so the answer counts only if the results before and after it are equal.
            let still = (0..20).find_map(|_| {
                let before = mcp.call(RECALL, &query);
                let answer = mcp.call(name, &query);
                let after = mcp.call(RECALL, &query);
                (found(&before) == found(&after)).then_some((answer, after))
            });
            let (answer, governed) = still.expect("a moment without a write");
            assert_eq!(found(&answer), found(&governed), "{name}");
            let (routing, other) = (&answer["routing"], &governed["routing"]);
            assert_eq!(
                (&routing["route"], &routing["bounds"]),
                (&other["route"], &other["bounds"])
            );
            assert_eq!(routing["delegated_from"], name);
            assert!(other.get("delegated_from").is_none(), "{other}");
        }
        let why = mcp.refusal(name, &json!({"query": "lamp", "limit": 50}));
        assert!(why.starts_with("limit") && why.contains("\"limit\":8"), "{why}");
        assert!(mcp.refusal(name, &json!({"query": ""})).starts_with("query"));
    }
}

/// The lines of a file that an item's evidence refers to.
fn lines(evidence: &Value) -> String {
    let file = fs::read_to_string(evidence["path"].as_str().unwrap()).unwrap();
    let line = |name: &str| usize::try_from(evidence[name].as_u64().unwrap()).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    lines[line("line_start") - 1..line("line_end")].join("\n")
}

#[test]
fn evidence_comes_exactly_when_a_place_is_asked_for() {
    let mut mcp = client();
    let mut items = |query: &str| {
        let answer = mcp.call(RECALL, &json!({"query": query}));
        answer["items"].as_array().unwrap().clone()
    };
    for query in
        ["where is the spiral staircase mentioned?", "tide_height", "what is in src/lamp.py"]
    {
        let found = items(query);
        for item in &found {
            let evidence = &item["map_evidence"];
            if item["kind"] != "chunk" {
                continue;
            }
            assert_eq!(evidence["file"], "unchanged", "{item}");
            let file = fs::read(evidence["path"].as_str().unwrap()).unwrap();
            assert_eq!(evidence["file_sha256"], hex(&Sha256::digest(&file)));
            assert!(evidence["verified_at"].as_str().unwrap().ends_with('Z'));
            if !evidence["path"].as_str().unwrap().ends_with(".html") {
                let text = item["text"].as_str().unwrap().trim();
                let there = lines(evidence);
                assert!(there.contains(text), "{evidence}: {there:?} has no {text:?}");
            }
        }
        assert!(found.iter().any(|item| item["map_evidence"].is_object()), "{query}");
    }
    for query in ["why paraffin?", "how often does the fog horn sound?"] {
        assert!(items(query).iter().all(|item| item.get("map_evidence").is_none()), "{query}");
    }
}

#[test]
fn evidence_notices_that_a_file_changed() {
    let shared = shared();
    let text = "# Puffins\n\nThe puffin colony lives above the west gully.\n";
    let path = write(&shared.folder, "puffins.md", text);
    let mut mcp = client();
    mcp.call(INGEST, &json!({"paths": [path]}));
    let mut evidence = || {
        let query = json!({"query": "where is the puffin colony in the west gully?"});
        let answer = mcp.call(RECALL, &query);
        let item = answer["items"].as_array().unwrap().iter().find(|item| item["kind"] == "chunk");
        item.unwrap()["map_evidence"].clone()
    };
    assert_eq!(evidence()["file"], "unchanged");
    write(&shared.folder, "puffins.md", format!("A new line.\n\n{text}"));
    let moved = evidence();
    assert_eq!(moved["file"], "moved");
    assert!(lines(&moved).contains("west gully"), "{moved}");
    write(&shared.folder, "puffins.md", text.replace("west", "east"));
    assert_eq!(evidence()["file"], "changed");
    fs::remove_file(&path).unwrap();
    assert_eq!(evidence()["file"], "missing");
}

/// Cosine similarity of a question and a stored embedding.
fn cosine(query: &[f32], row: &[f16]) -> f64 {
    let pairs = || query.iter().zip(row).map(|(q, r)| (f64::from(*q), r.to_f64()));
    let dot: f64 = pairs().map(|(q, r)| q * r).sum();
    let lengths = pairs().fold((0.0, 0.0), |(a, b), (q, r)| (a + q * q, b + r * r));
    dot / (lengths.0 * lengths.1).sqrt()
}

#[test]
fn the_score_of_semantic_recall_is_the_cosine() {
    let query = "why is there no electric light?";
    let answer = shared().service.post("/semantic-recall", &json!({"query": query, "limit": 50}));
    let results = answer["results"].as_array().unwrap();
    let embedder = original_model::embedder();
    let asked = embedder.embed(query);
    let mut worst: f64 = 0.0;
    let mut chunks = 0;
    for result in results.iter().filter(|result| result["kind"] == "chunk") {
        let text = |name: &str| result[name].as_str().unwrap();
        let words = format!("{}\n{}", text("title"), text("text"));
        let row = embedder.embed_all(&[&words]).remove(0);
        let score = result["score"].as_f64().unwrap();
        let off = (score - cosine(&asked, &row)).abs();
        assert!(off < 1.01e-6, "{score} but {} of {words}", cosine(&asked, &row));
        let six = (score * 1e6).round() / 1e6;
        assert_eq!(score.to_bits(), six.to_bits(), "six decimals: {score}");
        worst = worst.max(off);
        chunks += 1;
    }
    assert!(chunks > 20, "{chunks} chunks");
    println!("largest difference {worst:.1e}");
}
