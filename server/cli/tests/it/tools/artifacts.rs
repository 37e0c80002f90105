//! `artifacts`: ids are issued, compared and listed.

use std::fs;

use engine::Sensitivity;
use serde_json::{Value, json};
use support_server::desk::{Desk, member, operator};

use super::texts;

/// Issues an artifact and returns the answer.
#[track_caller]
fn issue(desk: &Desk, wanted: Value) -> Value {
    desk.call("issue_artifact_id_tool", wanted)
}

fn id(answer: &Value) -> String {
    answer["artifact"]["artifact_id"].as_str().unwrap().to_owned()
}

const ONE: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const TWO: &str = "2222222222222222222222222222222222222222222222222222222222222222";

#[test]
fn the_same_kind_name_and_hash_have_the_same_id() {
    let desk = Desk::new();
    let wanted = json!({"kind": "build", "name": "recalld", "content_sha256": ONE});
    let first = issue(&desk, wanted.clone());
    assert_eq!((&first["created"], &first["artifact"]["state"]), (&json!(true), &json!("issued")));
    assert!(id(&first).starts_with("art_"));
    let again = issue(&desk, wanted);
    assert_eq!((&again["created"], &again["artifact"]), (&json!(false), &first["artifact"]));
    for other in [
        json!({"kind": "build", "name": "recalld", "content_sha256": TWO}),
        json!({"kind": "build", "name": "recalld"}),
        json!({"kind": "buildr", "name": "ecalld", "content_sha256": ONE}),
    ] {
        let answer = issue(&desk, other.clone());
        assert_eq!(answer["created"], true, "{other}");
        assert_ne!(id(&answer), id(&first), "{other}");
    }
    let found = desk.call("retrieval_arbitrate_tool", json!({"query": "build recalld"}));
    assert!(found["items"].to_string().contains("build recalld"), "{found}");
}

#[test]
fn of_many_that_issue_the_same_all_get_one_id() {
    let desk = Desk::new();
    let wanted = json!({"kind": "report", "name": "weekly"});
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| desk.try_call(&operator(), "issue_artifact_id_tool", wanted.clone()))
            })
            .collect();
        askers.into_iter().map(|asker| asker.join().unwrap().unwrap().structured).collect()
    });
    assert!(answers.iter().all(|answer| id(answer) == id(&answers[0])), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer["created"] == true).count(), 1);
    let list = desk.call("list_artifact_ids_tool", json!({}));
    assert_eq!(list["artifacts"].as_array().unwrap().len(), 1);
}

#[test]
fn a_bundle_is_issued_whole_or_not_at_all() {
    let desk = Desk::new();
    let known = issue(&desk, json!({"kind": "log", "name": "old"}));
    let bundle = json!({"artifacts": [
        {"kind": "build", "name": "a"}, {"kind": "log", "name": "old"}, {"kind": "build", "name": "a"},
    ], "idempotency_key": "k"});
    let answer = desk.call("issue_artifact_id_bundle_tool", bundle.clone());
    assert_eq!(texts(&answer, "artifacts", "name"), ["a", "old", "a"]);
    let ids = texts(&answer, "artifacts", "artifact_id");
    assert_eq!((ids[0], ids[1]), (ids[2], id(&known).as_str()));
    assert_eq!(answer["created"], 1);
    let repeat = desk.call("issue_artifact_id_bundle_tool", bundle);
    assert_eq!((&repeat["artifacts"], &repeat["created"]), (&answer["artifacts"], &json!(1)));
    let before = desk.started().parts.local.get().store.snapshot().seq();
    let outside = json!({"kind": "build", "name": "c", "path": "/etc/passwd"});
    let faulty = json!({"artifacts": [{"kind": "build", "name": "b"}, outside]});
    let why = desk.refusal("issue_artifact_id_bundle_tool", faulty);
    assert!(why.starts_with("artifacts: member 1, path: outside the folders"), "{why}");
    let faulty = json!({"artifacts": [{"kind": "build"}]});
    let why = desk.refusal("issue_artifact_id_bundle_tool", faulty);
    assert!(why.starts_with("artifacts: member 0 has a wrong field: name"), "{why}");
    assert!(
        desk.refusal("issue_artifact_id_bundle_tool", json!({"artifacts": []}))
            .starts_with("artifacts: has 0")
    );
    assert_eq!(
        desk.started().parts.local.get().store.snapshot().seq(),
        before,
        "nothing was written"
    );
}

#[test]
fn a_file_that_changes_goes_and_returns_is_seen_to() {
    let desk = Desk::new();
    let file = desk.files().join("report.txt");
    fs::write(&file, "first").unwrap();
    let issued = issue(&desk, json!({"kind": "report", "name": "r", "path": "report.txt"}));
    let first_hash = issued["artifact"]["content_sha256"].clone();
    assert_eq!(first_hash.as_str().unwrap().len(), 64);
    let artifact = id(&issued);
    let compare = || {
        let wanted = json!({"artifact_id": artifact, "path": "report.txt"});
        let answer = desk.call("reconcile_artifact_id_tool", wanted);
        assert_eq!(answer["artifact"]["artifact_id"], artifact.as_str(), "the id stays");
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        [word(&answer["result"]), word(&answer["artifact"]["state"])]
    };
    let versions =
        || desk.started().parts.local.get().store.snapshot().row_counts().unwrap().superseded;
    assert_eq!(compare(), ["match", "issued"]);
    assert_eq!(versions(), 0, "a match writes nothing");
    fs::write(&file, "second").unwrap();
    assert_eq!(compare(), ["changed", "changed"]);
    assert_eq!(compare(), ["changed", "changed"]);
    assert_eq!(versions(), 1, "the same change is recorded once");
    fs::remove_file(&file).unwrap();
    assert_eq!(compare(), ["missing", "missing"]);
    let missing = desk.call("list_artifact_ids_tool", json!({"status": "missing"}));
    assert_eq!(texts(&missing, "artifacts", "artifact_id"), [&artifact]);
    fs::write(&file, "first").unwrap();
    assert_eq!(compare(), ["match", "issued"]);
    assert_eq!(versions(), 3);
    let again = issue(&desk, json!({"kind": "report", "name": "r", "content_sha256": first_hash}));
    assert_eq!(id(&again), artifact, "it is the same thing still");
}

#[test]
fn an_artifact_without_a_hash_is_unknown_until_there_is_one() {
    let desk = Desk::new();
    let artifact = id(&issue(&desk, json!({"kind": "note", "name": "n"})));
    let compare = |sha256: &str| {
        let wanted = json!({"artifact_id": artifact, "content_sha256": sha256});
        desk.call("reconcile_artifact_id_tool", wanted)["result"].clone()
    };
    assert_eq!([compare(ONE), compare(ONE), compare(TWO)], ["unknown", "match", "changed"]);
}

#[test]
fn paths_lead_nowhere_but_beneath_the_roots() {
    let desk = Desk::new();
    let outside = desk.files().parent().unwrap().join("outside.txt");
    fs::write(&outside, "secret").unwrap();
    std::os::unix::fs::symlink(&outside, desk.files().join("link.txt")).unwrap();
    let artifact = id(&issue(&desk, json!({"kind": "note", "name": "n"})));
    for (path, told) in [
        ("../outside.txt", "`..` is not followed"),
        ("link.txt", "symbolic links are not followed"),
        (outside.to_str().unwrap(), "outside the folders"),
        ("", "has 0 characters"),
        (".", "is a folder"),
    ] {
        let wanted = json!({"artifact_id": artifact, "path": path});
        let why = desk.refusal("reconcile_artifact_id_tool", wanted);
        assert!(why.starts_with("path: ") && why.contains(told), "{path}: {why}");
    }
    let neither = desk.refusal("reconcile_artifact_id_tool", json!({"artifact_id": artifact}));
    assert!(neither.starts_with("content_sha256: give content_sha256 or path"), "{neither}");
}

#[test]
fn artifacts_are_listed_as_policy_lets_them_be() {
    let desk = Desk::new();
    for n in 0..25 {
        issue(
            &desk,
            json!({"kind": if n % 5 == 0 { "log" } else { "build" }, "name": format!("n{n}")}),
        );
    }
    let first = desk.call("list_artifact_ids_tool", json!({"kind": "build"}));
    assert_eq!(
        (first["artifacts"].as_array().unwrap().len(), &first["truncated"]),
        (20, &json!(false))
    );
    assert_eq!(first["artifacts"][0]["name"], "n24");
    let all = desk.call("list_artifact_ids_tool", json!({}));
    assert_eq!((all["artifacts"].as_array().unwrap().len(), &all["truncated"]), (20, &json!(true)));
    let rest = desk.call("list_artifact_ids_tool", json!({"cursor": all["next_cursor"]}));
    assert_eq!(rest["artifacts"].as_array().unwrap().len(), 5);
    let secret = id(&issue(&desk, json!({"kind": "secret", "name": "s"})));
    desk.revise(&secret, |item| item.sensitivity = Sensitivity::Restricted);
    let seen = desk.call_as(&member(), "list_artifact_ids_tool", json!({"kind": "secret"}));
    assert_eq!(seen["artifacts"], json!([]));
    let wanted = json!({"artifact_id": secret, "content_sha256": ONE});
    let why = desk.refusal_as(&member(), "reconcile_artifact_id_tool", wanted);
    assert_eq!(why, "artifact_id: there is no such item");
}
