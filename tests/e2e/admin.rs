//! Administration by the command line, with and without a running server: changes apply at once, are in the ledger, and
//! leave no secret in any file.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use support_wire::kept::assert_fails;
use support_wire::service::{Service, run, run_json, scratch};
use support_wire::wire::{self, Answer, Ask};

/// Sends one MCP message to the hosted listener with a bearer token, in a session if there is one.
fn post(service: &Service, bearer: &str, session: Option<&str>, message: &Value) -> Answer {
    let ask = Ask::post("/mcp", message)
        .header("Accept", "application/json, text/event-stream")
        .header("Authorization", &format!("Bearer {bearer}"));
    let ask = match session {
        Some(session) => ask.header("Mcp-Session-Id", session),
        None => ask,
    };
    wire::ask(service.hosted(), &ask)
}

/// Returns the response to the first message of a session.
fn begin(service: &Service, bearer: &str) -> Answer {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    post(service, bearer, None, &message)
}

fn status(service: &Service, bearer: &str) -> u16 {
    begin(service, bearer).status
}

/// Calls a tool that opens the workspace.
fn recall(service: &Service, bearer: &str) -> Answer {
    let begun = begin(service, bearer);
    let session = begun.header("mcp-session-id").unwrap();
    let call = json!({"name": "retrieval_arbitrate_tool", "arguments": {"query": "quincunx"}});
    let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call});
    post(service, bearer, Some(session), &message)
}

/// Outcomes of a tool's entries in the operator's ledger, oldest first.
fn outcomes(data: &Path, tool: &str) -> Vec<String> {
    let shown = run(data, &["ledger", "show", "--json", "--tool", tool]);
    let text = String::from_utf8(shown.stdout).unwrap();
    let entries = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    entries.map(|entry| entry["outcome"].as_str().unwrap().to_owned()).collect()
}

fn secret_of(issued: &Value) -> String {
    issued["secret"].as_str().unwrap().to_owned()
}

/// Asserts that no file below `folder` contains any of `secrets`.
fn assert_in_no_file(folder: &Path, secrets: &[String]) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_in_no_file(&path, secrets);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        for secret in secrets {
            let is_there = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!is_there, "a secret is in {}", path.display());
        }
    }
}

#[test]
fn what_is_administered_beside_a_server_counts_at_once() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let service = Service::start(&data, &["--hosted", "127.0.0.1:0"]);
    let made = run_json(&data, &["tenant", "create", "acme", "--plan", "team"]);
    assert_eq!((&made["state"], &made["plan"]), (&json!("active"), &json!("team")));
    let issue = ["key", "issue", "acme", "--kind", "bearer", "--name", "ada"];
    let issued = run_json(&data, &issue);
    let bearer = secret_of(&issued);
    assert_eq!(status(&service, &bearer), 200);
    // The scope to act for another identity must be named explicitly.
    let everyday = ["tenant:read", "brain:proxy", "memory:write", "ingest:write", "agent:state"];
    assert_eq!(issued["scopes"], json!(everyday));
    let named = ["--scopes", "brain:proxy,identity:assert"];
    let named = run_json(&data, &[&issue[..], &named].concat());
    assert_eq!(named["scopes"], json!(["brain:proxy", "identity:assert"]));

    run_json(&data, &["tenant", "suspend", "acme"]);
    assert_eq!(status(&service, &bearer), 403);
    run_json(&data, &["tenant", "resume", "acme"]);
    assert_eq!(status(&service, &bearer), 200);
    run_json(&data, &["key", "revoke", "acme", issued["id"].as_str().unwrap()]);
    assert_eq!(status(&service, &bearer), 401);

    let first = run_json(&data, &["key", "rotate", "acme"]);
    let second = run_json(&data, &["key", "rotate", "acme"]);
    assert_eq!(first["scopes"], second["scopes"]);
    let fewer = run_json(&data, &["key", "rotate", "acme", "--scopes", "tenant:read"]);
    assert_eq!(fewer["scopes"], json!(["tenant:read"]));
    let second = run_json(&data, &["key", "rotate", "acme"]);
    assert_eq!(fewer["scopes"], second["scopes"], "what the one before had");
    let keys = run_json(&data, &["key", "list", "acme"]);
    let state = |id: &Value| {
        let found = keys["keys"].as_array().unwrap().iter().find(|key| key["id"] == *id);
        found.unwrap()["state"].clone()
    };
    assert_eq!((state(&first["id"]), state(&second["id"])), (json!("revoked"), json!("active")));
    let published = || run_json(&data, &["key", "rotate-signing"])["published"].clone();
    assert_eq!([published(), published()], [1, 2], "the one before stays until its tokens expired");

    let other = secret_of(&run_json(&data, &issue));
    let recalled = recall(&service, &other);
    assert_eq!(recalled.status, 200, "{}", recalled.text());
    assert!(data.join("tenants/acme/store").is_dir());
    assert_fails(
        &run(&data, &["tenant", "delete", "acme", "--confirm", "acm"]),
        2,
        &["`confirm`", "say the name again"],
    );
    run_json(&data, &["tenant", "delete", "acme", "--confirm", "acme"]);
    assert_eq!(status(&service, &other), 401);
    assert!(!data.join("tenants/acme/store").exists());
    assert!(data.join("tenants/acme/ledger").is_dir(), "its ledger stays");
    assert_fails(&run(&data, &["tenant", "create", "acme"]), 2, &["`slug`", "take another"]);

    assert_eq!(outcomes(&data, "recalld tenant suspend"), ["done"]);
    assert_eq!(outcomes(&data, "recalld key rotate"), ["done"; 4]);
    // A rejected call is recorded as refused, not as done.
    assert_eq!(outcomes(&data, "recalld tenant delete"), ["refused", "done"]);
    assert_eq!(outcomes(&data, "recalld tenant create"), ["done", "refused"]);
    assert_eq!(outcomes(&data, "recalld tenant create: begun"), ["done", "done"]);
    assert!(outcomes(&data, "recalld key list: begun").is_empty(), "looking begins nothing");
    assert!(service.terminate().success());
    assert_in_no_file(&data, &[bearer, other, secret_of(&first), secret_of(&second)]);
}

#[test]
fn the_same_is_done_where_no_server_runs() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    assert!(Service::start(&data, &[]).terminate().success());
    run_json(&data, &["tenant", "create", "acme", "--title", "Acme", "--email", "a@example.org"]);
    let shown = run_json(&data, &["tenant", "show", "acme"]);
    assert_eq!((&shown["plan"], &shown["title"]), (&json!("free"), &json!("Acme")));
    // A repeated create completes a creation that was interrupted between record and folders.
    let folder = data.join("tenants/acme");
    fs::remove_dir_all(&folder).unwrap();
    assert_fails(&run(&data, &["tenant", "create", "acme", "--plan", "team"]), 2, &["`plan`"]);
    assert_fails(&run(&data, &["tenant", "create", "acme", "--title", "A"]), 2, &["`title`"]);
    run_json(&data, &["tenant", "create", "acme"]);
    assert!(folder.join("store").is_dir());
    // A lost store is not recreated: a disk may be missing.
    fs::remove_dir(folder.join("store")).unwrap();
    fs::create_dir(folder.join("ledger")).unwrap();
    assert!(!run(&data, &["tenant", "create", "acme"]).status.success());
    assert!(!folder.join("store").exists());
    fs::remove_dir(folder.join("ledger")).unwrap();
    run_json(&data, &["tenant", "create", "acme"]);

    for (arguments, code, word) in [
        (&["tenant", "show", "nobody"][..], 1, "no workspace"),
        (&["key", "revoke", "acme", "k0"], 1, "no such credential"),
        (&["client", "revoke", "nobody"], 1, "no such client"),
        (&["plan", "show", "gold"], 1, "no plan"),
        (&["plan", "set", "acme", "gold"], 2, "`plan`"),
        (&["tenant", "create", "A"], 2, "`slug`"),
        (&["tenant", "create", "local"], 2, "the operator's"),
        (&["tenant", "create", "bolt", "--email", "nobody"], 2, "`email`"),
        (&["key", "issue", "acme", "--kind", "user", "--scopes", "bench:run"], 2, "`scopes`"),
        (&["key", "issue", "acme", "--kind", "user", "--expires", "soon"], 2, "`expires`"),
    ] {
        assert_fails(&run(&data, arguments), code, &[word]);
        let tool = format!("recalld {} {}", arguments[0], arguments[1]);
        assert_eq!(outcomes(&data, &tool).last().unwrap(), "refused", "{arguments:?}");
    }

    let quota = |arguments: &[&str]| run_json(&data, &[&["quota"], arguments].concat());
    let before = quota(&["show", "acme"]);
    let said = ["quota", "used", "left"].map(|name| before[name].as_u64());
    assert_eq!(said, [Some(1000), Some(0), Some(1000)]);
    quota(&["set", "acme", "5"]);
    assert_eq!(quota(&["show", "acme"])["left"], 5);
    quota(&["set", "acme", "plan"]);
    assert_eq!(quota(&["show", "acme"])["left"], 1000);
    run_json(&data, &["plan", "set", "acme", "team"]);
    assert_eq!(quota(&["show", "acme"])["left"], Value::Null);
    let plans = run_json(&data, &["plan", "list"]);
    assert_eq!(plans["plans"].as_array().unwrap().len(), 3);

    // Standard output has only the secret; the note that it is not shown again goes to standard error.
    let printed = run(&data, &["key", "issue", "acme", "--kind", "once"]);
    let secret = String::from_utf8(printed.stdout).unwrap().trim_end().to_owned();
    assert!(secret.starts_with("recalld_once_") && !secret.contains(char::is_whitespace));
    assert!(String::from_utf8_lossy(&printed.stderr).contains("not shown again"));
    assert_eq!(run_json(&data, &["tenant", "list"])["tenants"].as_array().unwrap().len(), 1);
    run_json(&data, &["tenant", "delete", "acme", "--confirm", "acme"]);
    let again = run(&data, &["tenant", "delete", "acme", "--confirm", "acme"]);
    assert_fails(&again, 1, &["deleted already"]);
    assert_in_no_file(&data, &[secret]);
}
