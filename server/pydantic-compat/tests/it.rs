//! Request bodies compared with the responses of FastAPI with pydantic: `tests/golden/fastapi/cases.jsonl`, written by
//! the program beside it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use recalld_pydantic_compat::{
    Field, Invalid, RecallRequest, SemanticRecallRequest, Shape, recall, semantic_recall,
};
use serde_json::{Value, json};

const CASES: &str = include_str!("../../../tests/golden/fastapi/cases.jsonl");

fn body_of(case: &Value) -> Vec<u8> {
    if let Some(text) = case["body"].as_str() {
        return text.into();
    }
    if let Some(text) = case["base64"].as_str() {
        return BASE64_STANDARD.decode(text).expect("make.py wrote it");
    }
    let times = case["times"].as_u64().and_then(|times| usize::try_from(times).ok());
    case["repeat"]
        .as_str()
        .expect("make.py wrote it")
        .repeat(times.expect("make.py wrote it"))
        .into()
}

/// Returns the parsed request as the app of the golden cases echoes it.
fn accepted(path: &str, content_type: Option<&str>, body: &[u8]) -> Result<Value, Invalid> {
    if path == "/semantic-recall" {
        let SemanticRecallRequest { query, limit } = semantic_recall(content_type, body)?;
        return Ok(json!({ "query": query, "limit": limit }));
    }
    let read = recall(content_type, body)?;
    Ok(json!({
        "query": read.query,
        "limit": read.limit,
        "graph": read.graph,
        "neighbor_limit": read.neighbor_limit,
        "modality": read.modality,
        "prefer_replacements": read.prefer_replacements,
    }))
}

#[test]
fn every_answer_is_the_one_that_fastapi_gives() {
    let mut wrong = Vec::new();
    for (number, line) in CASES.lines().enumerate() {
        let case: Value = serde_json::from_str(line).unwrap();
        let body = body_of(&case);
        let wanted = case["response"].as_str().unwrap();
        let answer = accepted(case["path"].as_str().unwrap(), case["content_type"].as_str(), &body);
        let same = match &answer {
            Ok(read) => {
                case["status"] == 200 && *read == serde_json::from_str::<Value>(wanted).unwrap()
            }
            Err(invalid) => {
                case["status"] == invalid.status() && wanted.as_bytes() == invalid.body()
            }
        };
        if !same {
            let ours = answer.map_or_else(
                |invalid| String::from_utf8(invalid.body()).unwrap(),
                |read| read.to_string(),
            );
            let shown = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
            wrong.push(format!(
                "line {}: {shown}\n  wanted {} {wanted}\n  got    {ours}",
                number + 1,
                case["status"]
            ));
        }
    }
    assert!(CASES.lines().count() > 1000);
    assert!(
        wrong.is_empty(),
        "{} cases differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
}

#[test]
fn no_cut_of_a_body_panics_and_every_answer_is_json() {
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let body = body_of(&case);
        for cut in 0..body.len().min(300) {
            if let Err(invalid) = recall(Some("application/json"), &body[..cut]) {
                let answer: Value = serde_json::from_slice(&invalid.body()).unwrap();
                assert!(answer["detail"].is_array() || invalid.status() == 400, "{answer}");
            }
        }
    }
}

#[test]
fn nesting_ends_at_its_bound_and_not_in_the_stack() {
    let nested = |depth: usize| format!("{{\"query\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let status = move |depth| match recall(Some("application/json"), nested(depth).as_bytes()) {
        Ok(_) => 200,
        Err(invalid) => {
            invalid.body();
            invalid.status()
        }
    };
    // Half of a thread's default stack, as a safety margin for the nesting limit.
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let statuses = small.spawn(move || [899, 900].map(status)).unwrap().join().unwrap();
    assert_eq!(statuses, [422, 400]); // one more level is the body itself
}

#[test]
fn the_rows_are_the_contract() {
    let names = |fields: &[Field]| fields.iter().map(|field| field.name).collect::<Vec<_>>();
    assert_eq!(
        names(RecallRequest::FIELDS),
        ["query", "limit", "graph", "neighbor_limit", "modality", "prefer_replacements"]
    );
    assert_eq!(names(SemanticRecallRequest::FIELDS), ["query", "limit"]);
    for field in RecallRequest::FIELDS.iter().chain(SemanticRecallRequest::FIELDS) {
        assert!(!field.about.is_empty());
        if let Shape::Int(bounds) = field.shape {
            assert!((bounds.min..=bounds.max).contains(&bounds.default), "{field:?}");
        }
    }
}
