//! Input of the authorization server's clients: forms, client credentials, redirect URIs, scopes, registrations and
//! client metadata URLs. Nothing panics, and accepted input reads back the same.

use recalld_oauth::{
    Challenge, ClientMetadata, ClientUrl, Form, Redirect, Registered, Scopes, ShownClient,
};
use serde_json::Value;

/// Runs one input; the first byte selects its kind.
pub fn run(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    match kind % 4 {
        0 => form(rest),
        1 => registration(rest),
        2 => uris(rest),
        _ => header(rest),
    }
}

fn form(bytes: &[u8]) {
    let Ok(form) = Form::of_body(["application/x-www-form-urlencoded"], bytes) else { return };
    assert!(form.each_once().is_ok(), "a body has each parameter once");
    let text = std::str::from_utf8(bytes).ok();
    if let Some(query) = text.and_then(|text| Form::of_query(Some(text)).ok()) {
        assert_eq!(query.get("scope"), form.get("scope"));
    }
    if let Ok(challenge) = Challenge::of_request(&form) {
        assert_eq!(Some(challenge.text().as_str()), form.get("code_challenge"));
        assert_eq!(Challenge::of_text(&challenge.text()), Some(challenge));
    }
    if let Ok(scopes) = Scopes::parse(form.get("scope").unwrap_or_default()) {
        assert_eq!(Scopes::parse(&scopes.to_string()).expect("it was written"), scopes);
    }
    if let Ok(shown) = ShownClient::read([], &form) {
        assert_eq!(Some(shown.id.as_str()), form.get("client_id"));
    }
}

fn registration(bytes: &[u8]) {
    let Ok(metadata) = ClientMetadata::of_registration(["application/json"], bytes) else { return };
    let registered = Registered { id: "c", secret: None, issued_at: 0, metadata: &metadata };
    let told = registered.response().body;
    let again = ClientMetadata::of_registration(["application/json"], &told);
    assert_eq!(again.as_ref(), Ok(&metadata), "what is told back reads the same");
    assert!(serde_json::from_slice::<Value>(&told).is_ok());
}

fn uris(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (text, other) = text.split_once(' ').unwrap_or((text, text));
    if let Ok(redirect) = Redirect::parse(text) {
        assert!(redirect.is_met_by(text));
        let answer = redirect.with_code("a b&c", Some("\u{e9}#"), "https://i.example");
        let (place, query) = answer.split_once('?').expect("it has a query");
        assert!(text.starts_with(place) && !answer.contains(['#', ' ', '\r', '\n']), "{answer}");
        // The URI's own query may be no UTF-8, which forms require; then only the end of the query is checked.
        assert!(
            query.ends_with("code=a+b%26c&state=%C3%A9%23&iss=https%3A%2F%2Fi.example"),
            "{answer}"
        );
        if let Ok(form) = Form::of_query(Some(query)) {
            assert_eq!(form.once("code").expect("there is one"), Some("a b&c"), "{answer}");
        }
        if redirect.is_met_by(other) {
            let other = Redirect::parse(other).expect("only a good one is met");
            assert_eq!(redirect.is_loopback(), other.is_loopback());
        }
    }
    if let Ok(url) = ClientUrl::parse(text) {
        assert!(url.text() == text && text.starts_with(&format!("https://{}/", url.host())));
    }
}

fn header(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let form = Form::of_query(None).expect("nothing is a query");
    if let Ok(shown) = ShownClient::read([text], &form) {
        assert!(shown.by_basic && !shown.id.is_empty());
    }
}
