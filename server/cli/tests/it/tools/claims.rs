//! Claim checks against stored items: support, contradiction, and invalid grounding tokens.

use engine::Sensitivity;
use recalld_audit::{mint, tenant_hash};
use recalld_common::cancel::CancellationToken;
use recalld_policy::Caller;
use recalld_tool_framework::{ServiceError, ToolContext};
use recalld_tools::CATALOG;
use serde_json::{Value, json};
use support_server::desk::{Desk, VEILED, member, operator};

const TOOL: &str = "brain_verify_claims_tool";

fn verify_as(desk: &Desk, caller: &Caller, claim: &str, tokens: &[&str]) -> Value {
    let claims = json!({"claims": [{"claim": claim, "grounding_tokens": tokens}]});
    desk.call_as(caller, TOOL, claims)["claims"][0].clone()
}

fn verify(desk: &Desk, claim: &str) -> Value {
    verify_as(desk, &operator(), claim, &[])
}

/// The grounding token in recall's answer for this id.
fn token(desk: &Desk, caller: &Caller, query: &str, id: &str) -> String {
    let found = desk.call_as(caller, "retrieval_arbitrate_tool", json!({"query": query}));
    let items = found["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["id"] == id).unwrap();
    item["grounding_token"].as_str().unwrap().to_owned()
}

/// Mints a token for an item whose text has this hash.
fn minted(desk: &Desk, id: &str, content: &str) -> String {
    let id = recalld_common::names::parse_item(id).unwrap().0.to_le_bytes();
    let byte = |at: usize| u8::from_str_radix(&content[2 * at..2 * at + 2], 16).unwrap();
    let content: [u8; 32] = std::array::from_fn(byte);
    mint(
        &desk.started().parts.local.get().signer,
        &tenant_hash("local"),
        &id,
        &content,
        1_800_000_000,
    )
}

fn supersede(desk: &Desk, id: &str, text: &str) -> String {
    let wanted = json!({"item_id": id, "text": text, "reason": "it moved"});
    let answer = desk.call("supersede_item_tool", wanted);
    answer["item"]["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn is(row: &Value, verdict: &str, said: &str) {
    assert_eq!(row["verdict"], verdict, "{row}");
    assert!(row["why"].as_str().unwrap().contains(said), "{row}");
}

#[test]
fn claims_are_supported_contradicted_or_neither() {
    let desk = Desk::new();
    let port = desk.remember("The gateway listens on port 8080.");
    let kept = desk.remember("Backups are kept for 30 days, then deleted.");
    desk.remember("Deploys on Friday are forbidden.");
    let row = verify(&desk, "The gateway listens on port 8080.");
    is(&row, "supported", &format!("{port} says so"));
    assert_eq!(row["evidence"][0]["id"], *port);
    assert_eq!(row["evidence"][0]["stance"], "supports");
    assert_eq!(row["evidence"][0]["says"], "The gateway listens on port 8080.");
    assert!(row["score"].as_f64().unwrap() > 0.9, "{row}");
    let row = verify(&desk, "We keep backups for two weeks.");
    is(&row, "contradicted", &format!("{kept} differs in a number: 30 days, not two weeks"));
    is(&verify(&desk, "Deploys on Friday are allowed."), "contradicted", "negation");
    let row = verify(&desk, "The mail server listens on port 8080.");
    is(&row, "unsupported", "nothing on record");
    assert_eq!(row["evidence"], json!([]));
    // The next call accepts a token from this answer.
    let given = verify(&desk, "The gateway listens on port 9090.");
    let token = given["evidence"][0]["grounding_token"].as_str().unwrap().to_owned();
    is(
        &verify_as(&desk, &operator(), "The gateway runs on port 8080.", &[&token]),
        "supported",
        "",
    );
}

#[test]
fn claims_are_answered_in_their_order_and_in_bounds() {
    let desk = Desk::new();
    desk.remember("The gateway listens on port 8080.");
    let claim = |port: usize| json!({"claim": format!("The gateway listens on port {port}.")});
    let claims: Vec<Value> = (8070..8090).map(claim).collect();
    let answer = desk.call(TOOL, json!({"claims": claims}));
    let rows = answer["claims"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    for (port, row) in (8070..8090).zip(rows) {
        let wanted = if port == 8080 { "supported" } else { "contradicted" };
        is(row, wanted, "");
    }
    assert_eq!(answer["truncated"], false);
    let why = desk.refusal(TOOL, json!({"claims": [{"claim": ""}]}));
    assert!(why.starts_with("claims: member 0"), "{why}");
    let many = vec![json!({"claim": "x".repeat(1024), "grounding_tokens": []}); 20];
    let answer = desk.call(TOOL, json!({"claims": many}));
    assert!(answer.to_string().len() < 64 << 10);
}

#[test]
fn items_that_disagree_leave_it_open() {
    let desk = Desk::new();
    desk.remember("The gateway listens on port 8080.");
    desk.remember("The gateway listens on port 9090.");
    let row = verify(&desk, "The gateway listens on port 9090.");
    is(&row, "unsupported", "what is on record disagrees");
    assert_eq!(row["evidence"].as_array().unwrap().len(), 2, "{row}");
}

#[test]
fn a_token_of_a_superseded_item_leads_to_what_stands_now() {
    let desk = Desk::new();
    let old = desk.remember("The gateway listens on port 8080.");
    let token = token(&desk, &operator(), "gateway port", &old);
    is(
        &verify_as(&desk, &operator(), "The gateway listens on port 8080.", &[&token]),
        "supported",
        "",
    );
    let new = supersede(&desk, &old, "The gateway listens on port 9090.");
    let row = verify_as(&desk, &operator(), "The gateway listens on port 8080.", &[&token]);
    is(
        &row,
        "superseded",
        &format!("{old} says so and is superseded; {new} differs in a number: 9090, not 8080"),
    );
    let shown: Vec<&str> =
        row["evidence"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(shown, [&*old, &*new], "{row}");
    assert_eq!(row["evidence"][0]["superseded_by"], *new);
    // Without the token, too: only a superseded item supports the claim.
    is(&verify(&desk, "The gateway listens on port 8080."), "superseded", &new);
    is(&verify(&desk, "The gateway listens on port 9090."), "supported", &new);
}

#[test]
fn tokens_that_are_forged_foreign_or_of_another_text_are_none() {
    let desk = Desk::new();
    let id = desk.remember("The gateway listens on port 8080.");
    let claim = "The gateway listens on port 8080.";
    let good = token(&desk, &operator(), "gateway port", &id);
    let mut forged = good.clone().into_bytes();
    forged[40] = if forged[40] == b'A' { b'B' } else { b'A' };
    let number = recalld_common::names::parse_item(&id).unwrap().0.to_le_bytes();
    let local = desk.started().parts.local.get();
    let signer = &local.signer;
    let minted = |tenant: &str, item: &[u8; 16], content: [u8; 32]| {
        mint(signer, &tenant_hash(tenant), item, &content, 1_800_000_000)
    };
    let snapshot = desk.started().parts.local.get().store.snapshot();
    let place = snapshot.find(recalld_common::names::parse_item(&id).unwrap()).unwrap().unwrap();
    let content = snapshot.item(place).unwrap().content_sha256;
    for (token, why) in [
        (String::from_utf8(forged).unwrap(), "signature"),
        ("nonsense".to_owned(), "152 characters"),
        (minted("other", &number, content), "belongs to another workspace"),
        (minted("local", &number, [7; 32]), "another text"),
        (minted("local", &[9; 16], content), "there is no such item"),
    ] {
        let row = verify_as(&desk, &operator(), claim, &[&good, &token]);
        is(&row, "invalid_token", why);
        assert!(row["why"].as_str().unwrap().starts_with("grounding_tokens[1]: "), "{row}");
        assert_eq!((&row["score"], &row["evidence"]), (&json!(0.0), &json!([])));
    }
    is(
        &verify_as(&desk, &operator(), claim, &[&minted("local", &number, content)]),
        "supported",
        "",
    );
    desk.call("forget_item_tool", json!({"item_id": id, "reason": "asked for"}));
    is(&verify_as(&desk, &operator(), claim, &[&good]), "invalid_token", "no such item");
}

#[test]
fn what_policy_keeps_back_neither_supports_nor_contradicts() {
    let desk = Desk::new();
    let veiled = desk.call(
        "brain_remember",
        json!({"text": "The vault listens on port 8080.", "gates": [VEILED]}),
    );
    let veiled = veiled["item"]["id"].as_str().unwrap().to_owned();
    desk.remember_as("The safe listens on port 7070.", Sensitivity::Restricted);
    for claim in [
        "The vault listens on port 8080.",
        "The vault listens on port 9090.",
        "The safe listens on port 7070.",
        "The safe listens on port 7071.",
    ] {
        let row = verify_as(&desk, &member(), claim, &[]);
        is(&row, "unsupported", "nothing on record");
        assert_eq!((&row["evidence"], &row["score"]), (&json!([]), &json!(0.0)), "{row}");
        assert_ne!(verify(&desk, claim)["verdict"], "unsupported");
    }
    // A token for the redacted item is valid for a caller who sees it redacted; another caller's token is for another
    // text.
    let seen = desk.call_as(&member(), "get_item_tool", json!({"item_id": veiled}));
    let theirs = minted(&desk, &veiled, seen["item"]["content_sha256"].as_str().unwrap());
    let row = verify_as(&desk, &member(), "The vault listens on port 8080.", &[&theirs]);
    is(&row, "unsupported", "nothing on record");
    let ours = token(&desk, &operator(), "vault port", &veiled);
    let row = verify_as(&desk, &member(), "The vault listens on port 8080.", &[&ours]);
    is(&row, "invalid_token", "another text");
}

#[test]
fn an_item_counts_as_verified_where_it_was_evidence() {
    let desk = Desk::new();
    let port = desk.remember("The gateway listens on port 8080.");
    let other = desk.remember("The gateway was painted green in spring.");
    verify(&desk, "The gateway listens on port 8080.");
    let verified = |id: &str| {
        let answer = desk.call("item_timeline_tool", json!({"item_id": id}));
        answer["events"].as_array().unwrap().iter().filter(|it| it["what"] == "verified").count()
    };
    assert_eq!((verified(&port), verified(&other)), (1, 0));
}

#[test]
fn who_calls_it_off_waits_for_no_further_claim() {
    let desk = Desk::new();
    desk.remember("The gateway listens on port 8080.");
    let raw = json!({"claims": [{"claim": "The gateway listens on port 8080."}]});
    let error = desk.with_context(&operator(), |context| {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let context = ToolContext { cancel: &cancel, ..*context };
        let tool = CATALOG.find(&operator(), TOOL).unwrap();
        tool.call(&context, raw.as_object().unwrap()).unwrap_err().error
    });
    assert!(matches!(error, ServiceError::Cancelled), "{error}");
}
