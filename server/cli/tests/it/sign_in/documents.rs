//! Clients identified by the URL of their metadata document.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use recalld_oauth::{FetchFault, Fetched};
use serde_json::{Value, json};

use support_wire::wire::Ask;

use super::house::{House, Person, REDIRECT, Sent, encoded, problem};

const CLIENT: &str = "https://notebook.example/client.json";

fn served(document: &Value) -> Fetched {
    Fetched {
        content_type: "application/json".to_owned(),
        max_age_seconds: None,
        body: document.to_string().into_bytes(),
    }
}

fn document() -> Value {
    json!({
        "client_id": CLIENT, "client_name": "Notebook of the web", "redirect_uris": [REDIRECT],
        "token_endpoint_auth_method": "none", "grant_types": ["authorization_code"],
    })
}

#[test]
fn a_client_that_is_a_document_signs_people_in() {
    let house = House::new();
    house.web.put(CLIENT, Ok(served(&document())));
    let mut person = Person::new(&house);
    let query = house.query(&[("client_id", CLIENT)]);
    let page = person.visit(&query);
    assert_eq!(page.status, 200, "{}", page.text());
    for part in ["Let <bdi>Notebook of the web</bdi>", "known by its address, notebook.example"] {
        assert!(page.text().contains(part), "{part}: {}", page.text());
    }
    let fields = super::house::Fields::of(&page);
    let sent = Sent::of(&person.send(&fields.allowing("acme", &house.once())));
    let redeemed = house.redeem(CLIENT, sent.get("code").unwrap()).ok().unwrap();
    assert_eq!(redeemed.grant.client, CLIENT);
    // The document was fetched once for the whole sign-in.
    assert_eq!(house.web.asked.load(Ordering::SeqCst), 1);
    // A blocked client's document is not fetched.
    house.parts.control.revoke_client(CLIENT).unwrap();
    assert_eq!(problem(&person.visit(&query)).1, "This application is not known here");
    assert_eq!(house.web.asked.load(Ordering::SeqCst), 1);
}

#[test]
fn a_document_that_cannot_be_had_or_does_not_fit_is_told_to_people() {
    let house = House::new();
    let with = |name: &str, value: Value| {
        let mut document = document();
        document[name] = value;
        Ok(served(&document))
    };
    let text = Fetched { content_type: "text/html".to_owned(), ..served(&document()) };
    let broken = Fetched { body: b"{".to_vec(), ..served(&document()) };
    let answers = [
        Err(FetchFault::Status(404)),
        Err(FetchFault::Status(302)),
        Err(FetchFault::TooLong),
        Ok(text),
        Ok(broken),
        with("client_id", json!("https://evil.example/client.json")),
        with("client_id", json!(format!("{CLIENT}/"))),
        with("client_secret", json!("s")),
        with("token_endpoint_auth_method", json!("client_secret_basic")),
        with("redirect_uris", json!([])),
        with("redirect_uris", json!(["http://evil.example/cb"])),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        // Each has its own URL, because failures are cached.
        let url = format!("https://notebook.example/{number}");
        let told = format!("{answer:?}");
        let answer = answer.map(|mut fetched| {
            let text = String::from_utf8(fetched.body).unwrap();
            let own = text.replace(&format!("\"{CLIENT}\""), &format!("\"{url}\""));
            fetched.body = own.into_bytes();
            fetched
        });
        house.web.put(&url, answer);
        let page = Person::new(&house).visit(&house.query(&[("client_id", &url)]));
        let wanted = (400, "This application's description cannot be read".to_owned());
        assert_eq!(problem(&page), wanted, "{told}");
    }
}

#[test]
fn nothing_is_said_of_what_was_found_on_the_way_to_a_document() {
    let house = House::new();
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut told = Vec::new();
    for (number, fault) in [
        FetchFault::Busy,
        FetchFault::TooSlow,
        FetchFault::NotPublic(here),
        FetchFault::Unreachable("connection to 10.0.0.1 refused".to_owned()),
        FetchFault::Status(500),
        FetchFault::Status(429),
    ]
    .into_iter()
    .enumerate()
    {
        let url = format!("https://notebook{number}.example/client");
        house.web.put(&url, Err(fault.clone()));
        let page = Person::new(&house).visit(&house.query(&[("client_id", &url)]));
        assert_eq!(problem(&page), (503, "Not available now".to_owned()), "{fault}");
        assert!(page.header("retry-after").is_some());
        told.push(page.text());
        if fault == FetchFault::Busy {
            continue;
        }
        let fields = [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", &url)];
        let answer = house.ask(&form("/token", &fields));
        let body = answer.json();
        assert_eq!(
            (answer.status, &body["error"]),
            (503, &json!("temporarily_unavailable")),
            "{fault}"
        );
        assert_eq!(body["error_description"], "the client's document cannot be had", "{fault}");
    }
    assert!(told.iter().all(|page| *page == told[0]));
}

#[test]
fn who_asks_for_documents_that_cannot_be_had_is_guessing() {
    let house = House::new();
    let asked = |path: &str, number: usize| {
        let url = format!("https://n{number}.internal.example/client");
        house.web.put(&url, Err(FetchFault::Unreachable("no such host".to_owned())));
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", "x"),
            ("token", "x"),
            ("client_id", &*url),
        ];
        house.ask(&form(path, &fields)).status
    };
    let paths = ["/token", "/revoke"];
    let statuses: Vec<u16> = (0..20).map(|number| asked(paths[number % 2], number)).collect();
    assert_eq!(statuses[..10], [503; 10]);
    assert!(statuses.contains(&429), "{statuses:?}");
}

#[test]
fn a_client_whose_site_is_down_refreshes_all_the_same() {
    let house = House::new();
    house.web.put(CLIENT, Ok(served(&document())));
    let mut person = Person::new(&house);
    let query = house.query(&[("client_id", CLIENT)]);
    assert_eq!(person.visit(&query).status, 200);
    house.web.put(CLIENT, Err(FetchFault::Status(502)));
    house.clock.by(Duration::from_secs(2 * 3_600));
    assert_eq!(person.visit(&query).status, 200);
    let fields = [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", CLIENT)];
    let answer = house.ask(&form("/token", &fields));
    // The client is known; its token is invalid.
    assert_eq!((answer.status, &answer.json()["error"]), (400, &json!("invalid_grant")));
    house.web.put(CLIENT, Err(FetchFault::Status(410)));
    house.clock.by(Duration::from_secs(60));
    assert_eq!(house.ask(&form("/token", &fields)).status, 401);
}

fn form(path: &str, fields: &[(&str, &str)]) -> Ask {
    Ask::new("POST", path)
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(encoded(fields).into_bytes())
}

#[test]
fn addresses_that_lead_inside_are_not_even_asked() {
    let house = House::new();
    for id in [
        "http://notebook.example/client.json",
        "https://127.0.0.1/client.json",
        "https://[::1]/client.json",
        "https://169.254.169.254/latest/meta-data",
        "https://2130706433/client.json",
        "https://0x7f000001/client.json",
        "https://notebook.example:8443/client.json",
        "https://user@notebook.example/client.json",
        "https://user:password@notebook.example/client.json",
        "https://notebook.example/client.json#x",
        "https://notebook.example/../client.json",
        "https://notebook.example/%2e%2e/client.json",
        "https://notebook.example",
        "https://notebook.example/",
        "https://NOTEBOOK.example/client.json",
        "file:///etc/passwd",
        "gopher://notebook.example/x",
        "ftp://notebook.example/x",
    ] {
        let page = Person::new(&house).visit(&house.query(&[("client_id", id)]));
        let wanted = (400, "This application is not known here".to_owned());
        assert_eq!(problem(&page), wanted, "{id}");
    }
    assert_eq!(house.web.asked.load(Ordering::SeqCst), 0);
}

#[test]
fn a_client_that_is_a_document_cannot_take_another_ones_address() {
    let house = House::new();
    let evil = "https://evil.example/client.json";
    let theirs = json!({
        "client_id": evil, "client_name": "Notebook", "redirect_uris": ["https://evil.example/cb"],
    });
    house.web.put(evil, Ok(served(&theirs)));
    let page = Person::new(&house).visit(&house.query(&[("client_id", evil)]));
    let wanted = "This application asks for its answer at a place it never named";
    assert_eq!(problem(&page), (400, wanted.to_owned()));
    // The client may use its own redirect URI, and the page names its host.
    let query = house.query(&[("client_id", evil), ("redirect_uri", "https://evil.example/cb")]);
    let text = Person::new(&house).visit(&query).text();
    assert!(text.contains("known by its address, evil.example"), "{text}");
    assert!(text.contains("<dd>evil.example<"), "{text}");
}
