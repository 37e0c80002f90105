//! Confirmation of email addresses, by the link in a mail or by the operator. An unconfirmed workspace cannot write.

use serde_json::{Value, json};
use support_server::house::{call, entries, given};
use support_wire::kept::assert_fails;
use support_wire::mail_sink::MailSink;
use support_wire::service::{Service, run, run_json, scratch};
use support_wire::wire::{self, Answer, Ask};

/// Extracts the token of the confirmation link, which must point to this server.
fn token_in(letter: &str, service: &Service) -> String {
    let start = format!("http://{}/confirm?token=", service.hosted());
    let link = letter.lines().find_map(|line| line.strip_prefix(&start));
    link.unwrap_or_else(|| panic!("{letter}")).to_owned()
}

fn follow(service: &Service, token: &str) -> Answer {
    wire::ask(service.hosted(), &Ask::get(&format!("/confirm?token={token}")))
}

fn press(service: &Service, token: &str) -> Answer {
    let ask = Ask::new("POST", "/confirm")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("token={token}").into_bytes());
    wire::ask(service.hosted(), &ask)
}

fn write(service: &Service, bearer: &str) -> Value {
    call(service, bearer, "brain_remember", &json!({"text": "A note."})).json()["result"].take()
}

fn verified_at(service: &Service) -> Value {
    run_json(service.data(), &["tenant", "show", "acme"])["email_verified_at"].clone()
}

#[test]
fn a_letter_confirms_the_address_it_went_to() {
    let sink = MailSink::open();
    let scratch = scratch();
    let data = scratch.path().join("data");
    let settings = scratch.path().join("settings.toml");
    std::fs::write(&settings, sink.settings()).unwrap();
    let settings = settings.to_str().unwrap();
    let service = Service::start(&data, &["--hosted", "127.0.0.1:0", "--config", settings]);
    let made = run_json(&data, &["tenant", "create", "acme", "--email", "ada@example.org"]);
    assert_eq!((&made["mail"], &made["email"]), (&json!("queued"), &json!("ada@example.org")));
    assert!(made["email_verified_at"].is_null() && made.get("token").is_none(), "{made}");
    let issued = run_json(&data, &["key", "issue", "acme", "--kind", "user", "--name", "ada"]);
    let bearer = issued["secret"].as_str().unwrap().to_owned();
    let letter = sink.letter();
    for line in ["From: \"Memory\" <no-reply@recall.example>", "To: ada@example.org"] {
        assert!(letter.lines().any(|other| other == line), "{line}: {letter}");
    }
    assert!(letter.contains("the workspace acme\n"), "{letter}");
    let first = token_in(&letter, &service);

    // Another confirmation mail invalidates the previous link.
    let again = run_json(&data, &["tenant", "email", "acme"]);
    assert_eq!((&again["mail"], &again["email"]), (&json!("queued"), &json!("ada@example.org")));
    let token = token_in(&sink.letter(), &service);
    assert_ne!(first, token);
    for over in [follow(&service, &first), press(&service, &first), follow(&service, "")] {
        assert_eq!(over.status, 410, "{}", over.text());
        assert!(!over.text().contains("acme"), "{}", over.text());
    }
    assert_eq!(write(&service, &bearer)["_meta"]["recalld/reason"], "email_not_verified");

    // Following the link changes nothing, however often.
    for _ in 0..2 {
        let page = follow(&service, &token);
        let text = page.text();
        assert_eq!(page.status, 200, "{text}");
        assert!(text.contains("ada@example.org") && text.contains("acme"), "{text}");
        assert!(page.header("content-security-policy").unwrap().contains("form-action 'self'"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("access-control-allow-origin"), None);
    }
    let head = wire::ask(service.local(), &Ask::get("/confirm?token=x"));
    assert_eq!(head.status, 404, "the local listener has no such page");
    assert!(verified_at(&service).is_null());
    assert_eq!(press(&service, &token).status, 200);
    assert!(verified_at(&service).is_string());
    assert_eq!(press(&service, &token).status, 410, "a link is used once");
    given(&service, &bearer, "brain_remember", &json!({"text": "A note."}));

    // Every action is in a ledger; the address is in none.
    for (workspace, tool, count) in [
        ("local", "recalld tenant create", 1),
        ("local", "recalld tenant email", 1),
        ("acme", "confirm", 1),
    ] {
        let entries = entries(&data, workspace, tool);
        assert_eq!(entries.len(), count, "{tool}: {entries:?}");
        assert!(entries.iter().all(|entry| entry["outcome"] == "done"), "{entries:?}");
        assert!(!json!(entries).to_string().contains("example.org"), "{entries:?}");
    }
    // A new address must be confirmed again. An invalid address is rejected before any change.
    assert_fails(&run(&data, &["tenant", "email", "acme", "nobody"]), 2, &["`email`"]);
    assert!(verified_at(&service).is_string());
    run_json(&data, &["tenant", "email", "acme", "eve@example.org"]);
    let letter = sink.letter();
    assert!(letter.contains("To: eve@example.org\n"));
    assert!(verified_at(&service).is_null());
    assert!(!sink.has_another());
    assert_eq!(write(&service, &bearer)["_meta"]["recalld/reason"], "email_not_verified");
    // If the operator verifies the address, the link becomes invalid.
    run_json(&data, &["tenant", "verify", "acme"]);
    assert_eq!(press(&service, &token_in(&letter, &service)).status, 410);
}

#[test]
fn a_form_that_is_none_of_the_page_changes_nothing() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let service = Service::start(&data, &["--hosted", "127.0.0.1:0"]);
    let form = "application/x-www-form-urlencoded";
    for (kind, body) in [
        (form, String::new()),
        (form, "token=".to_owned()),
        (form, "token=a&token=b".to_owned()),
        (form, "token=%ff".to_owned()),
        (form, format!("token={}", "x".repeat(9_000))),
        ("application/json", "{\"token\": \"a\"}".to_owned()),
    ] {
        let ask = Ask::new("POST", "/confirm").header("Content-Type", kind);
        let answer = wire::ask(service.hosted(), &ask.body(body.clone().into_bytes()));
        assert!([410, 413].contains(&answer.status), "{body}: {}", answer.text());
    }
    assert_eq!(follow(&service, "a&token=b").status, 410);
    assert_eq!(wire::ask(service.hosted(), &Ask::new("PUT", "/confirm")).status, 405);
}

#[test]
fn without_a_mail_server_the_operator_says_that_an_address_is_read() {
    let scratch = scratch();
    let data = scratch.path().join("data");
    let service = Service::start(&data, &["--hosted", "127.0.0.1:0"]);
    let create = ["tenant", "create", "acme", "--email", "ada@example.org"];
    let made = run(&data, &create);
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    assert!(said.contains("no [mail]") && said.contains("recalld tenant verify acme"), "{said}");
    let issued = run_json(&data, &["key", "issue", "acme", "--kind", "user"]);
    let bearer = issued["secret"].as_str().unwrap();
    assert_eq!(write(&service, bearer)["_meta"]["recalld/reason"], "email_not_verified");
    let verified = run_json(&data, &["tenant", "verify", "acme"]);
    assert!(verified["email_verified_at"].is_string(), "{verified}");
    assert_eq!(write(&service, bearer)["isError"], false);
    let entries = entries(&data, "local", "recalld tenant verify");
    assert_eq!((entries.len(), &entries[0]["outcome"]), (1, &json!("done")));
    // A workspace without an address cannot be verified.
    run_json(&data, &["tenant", "create", "globex"]);
    for arguments in [&["tenant", "verify", "globex"][..], &["tenant", "email", "globex"]] {
        assert_fails(&run(&data, arguments), 2, &["`email`", "no address"]);
    }
    assert_fails(&run(&data, &["tenant", "verify", "nobody"]), 1, &["no workspace"]);
    // Without a running server the mail is not sent, because its link would be dead.
    assert!(service.terminate().success());
    let alone = run_json(&data, &["tenant", "email", "globex", "eve@example.org"]);
    assert_eq!(alone["mail"], "not_sent", "{alone}");
    assert!(alone["mail_about"].as_str().unwrap().contains("no server runs"), "{alone}");
}
