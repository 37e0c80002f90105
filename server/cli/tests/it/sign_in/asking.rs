//! `GET /authorize`: requests that show a page, errors redirected to the client, and errors shown to the person.

use recalld_oauth::FORM_BYTES_MAX;
use support_wire::wire::Ask;

use super::house::{
    CHALLENGE, Fields, House, Person, REDIRECT, Sent, VERIFIER, check_page, encoded, problem,
};

const UNKNOWN_CLIENT: &str = "This application is not known here";
const UNKNOWN_REDIRECT: &str = "This application asks for its answer at a place it never named";
const BAD: &str = "This sign-in cannot be read";

#[test]
fn nobody_is_redirected_for_a_client_or_an_address_that_is_not_good() {
    let house = House::new();
    let kept_out = house.register("Kept out", &[REDIRECT]);
    house.parts.control.revoke_client(&kept_out).unwrap();
    let two = house.register("Two", &[REDIRECT, "https://notebook.example/other"]);
    let good = house.query(&[]);
    let with = |name: &str, value: &str| house.query(&[(name, value)]);
    let long = "c".repeat(600);
    for (query, heading) in [
        (with("client_id", "c00000000000000000000000000000000"), UNKNOWN_CLIENT),
        (with("client_id", &kept_out), UNKNOWN_CLIENT),
        (with("client_id", "acme"), UNKNOWN_CLIENT),
        (with("client_id", &house.client.to_uppercase()), UNKNOWN_CLIENT),
        (with("client_id", &format!("{} ", house.client)), UNKNOWN_CLIENT),
        (with("client_id", &long), UNKNOWN_CLIENT),
        (with("client_id", "http://app.example/client"), UNKNOWN_CLIENT),
        (with("client_id", "https://127.0.0.1/client"), UNKNOWN_CLIENT),
        (with("client_id", "\u{e9}<script>"), UNKNOWN_CLIENT),
        (with("client_id", ""), BAD),
        (String::new(), BAD),
        (format!("{good}&client_id={}", house.client), BAD),
        (format!("{good}&redirect_uri={REDIRECT}"), BAD),
        // A client with two redirect URIs must name one.
        (house.query(&[("client_id", &two), ("redirect_uri", "")]), BAD),
        ("client_id=%zz".to_owned(), BAD),
        (format!("{good}&x={}", "y".repeat(FORM_BYTES_MAX)), BAD),
        (format!("{good}{}", "&a".repeat(64)), BAD),
    ] {
        let answer = Person::new(&house).visit(&query);
        assert_eq!(problem(&answer), (400, heading.to_owned()), "{query}");
        // The page does not repeat the request's parameters.
        assert!(!answer.text().contains("script"), "{query}");
    }
}

#[test]
fn an_answer_goes_where_the_client_said_to_the_letter() {
    let house = House::new();
    for trick in [
        "https://notebook.example/callback/",
        "https://notebook.example/callback/..",
        "https://notebook.example/callback/../callback",
        "https://notebook.example/other",
        "https://notebook.example/CALLBACK",
        "https://notebook.example/callbac%6B",
        "https://notebook.example/callback%2F..%2Fother",
        "https://notebook.example/callback?next=https://evil.example",
        "https://notebook.example/callback#",
        "https://notebook.example/callback#x",
        "https://notebook.example/callback\\..\\other",
        "https://notebook.example\\@evil.example/callback",
        "https://notebook.example:443/callback",
        "https://notebook.example:8443/callback",
        "https://notebook.example.evil.example/callback",
        "https://notebook.example@evil.example/callback",
        "https://evil.example/notebook.example/callback",
        "https://evil.example/?https://notebook.example/callback",
        "https://Notebook.Example/callback",
        "HTTPS://notebook.example/callback",
        "http://notebook.example/callback",
        "https://notebook.example\t/callback",
        " https://notebook.example/callback",
        "https://notebook.example/callback ",
        "https://notebook.example/callback\r\nSet-Cookie: a=b",
        "//notebook.example/callback",
        "//evil.example/callback",
        "///evil.example",
        "/callback",
        "callback",
        "https:/notebook.example/callback",
        "https:notebook.example/callback",
        "javascript:alert(1)",
        "data:text/html,x",
        "https://*.example/callback",
        "https://xn--notebook.example/callback",
        "https://n\u{f6}tebook.example/callback",
    ] {
        let answer = Person::new(&house).visit(&house.query(&[("redirect_uri", trick)]));
        assert_eq!(problem(&answer), (400, UNKNOWN_REDIRECT.to_owned()), "{trick}");
        assert!(!answer.text().contains("evil"), "{trick}");
    }
    // A single registered redirect URI may be omitted.
    let page = Person::new(&house).visit(&house.query(&[("redirect_uri", "")]));
    assert_eq!(page.status, 200, "{}", page.text());
}

#[test]
fn a_program_of_this_machine_takes_what_port_is_free_and_nothing_else() {
    let house = House::new();
    let local = house.register("Editor", &["http://127.0.0.1:3000/cb", "http://localhost/cb"]);
    let ask = |redirect: &str| {
        let query = house.query(&[("client_id", &local), ("redirect_uri", redirect)]);
        Person::new(&house).visit(&query)
    };
    for good in [
        "http://127.0.0.1:3000/cb",
        "http://127.0.0.1:49152/cb",
        "http://127.0.0.1/cb",
        "http://localhost:1/cb",
    ] {
        let answer = ask(good);
        assert_eq!(answer.status, 200, "{good}");
        assert!(answer.text().contains("Did you start this?"), "{good}");
    }
    for bad in [
        "http://127.0.0.1:3000/cb2",
        "http://127.0.0.1:3000/cb/",
        "http://127.0.0.1:3000/cb?x=1",
        "http://127.0.0.1:70000/cb",
        "http://127.0.0.1:03000/cb",
        "http://127.0.0.2:3000/cb",
        "http://127.1:3000/cb",
        "http://2130706433:3000/cb",
        "http://0x7f.0.0.1:3000/cb",
        "http://[::1]:3000/cb",
        "https://127.0.0.1:3000/cb",
        "http://localhost.evil.example:3000/cb",
        "http://127.0.0.1:3000@evil.example/cb",
        "http://127.0.0.1:x@evil.example/cb",
        "http://evil.example:3000/cb",
        "http://0.0.0.0:3000/cb",
    ] {
        assert_eq!(problem(&ask(bad)), (400, UNKNOWN_REDIRECT.to_owned()), "{bad}");
    }
    let mut person = Person::new(&house);
    let at = "http://127.0.0.1:49152/cb";
    let fields = person.form(&[("client_id", &local), ("redirect_uri", at)]);
    let sent = Sent::of(&person.send(&fields.allowing("acme", &house.once())));
    assert_eq!(sent.to, at);
}

/// Completes a sign-in, so that the client is known to a person.
fn signed_in_by(house: &House) {
    let mut person = Person::new(house);
    let fields = person.form(&[]);
    let sent = Sent::of(&person.send(&fields.allowing("acme", &house.once())));
    assert!(sent.get("code").is_some());
}

#[test]
fn nobody_is_sent_to_a_strangers_address_before_a_person_decides() {
    let house = House::new();
    let stranger = house.register("Phisher", &["https://evil.example/?a=1", "com.evil.app:/cb"]);
    let ask = |redirect: &str| {
        let query = house.query(&[
            ("client_id", &stranger),
            ("redirect_uri", redirect),
            ("scope", "<b>call +1 555</b>"),
        ]);
        Person::new(&house).visit(&query)
    };
    for (redirect, place) in
        [("https://evil.example/?a=1", "evil.example"), ("com.evil.app:/cb", "com.evil.app")]
    {
        let answer = ask(redirect);
        let text = answer.text();
        assert_eq!((answer.status, answer.header("location")), (400, None), "{text}");
        check_page(&answer);
        let heading = "<h1>This application asked in a way that is not taken</h1>";
        assert!(text.contains(heading) && text.contains("<code>invalid_scope</code>"), "{text}");
        assert!(text.contains(&format!(">Return to {place}</a>")), "{text}");
        assert!(!text.contains("555") || !text.contains("<b>"), "{text}");
        assert!(answer.header("set-cookie").is_none());
        // The link carries all parameters of the error response.
        let href = text.split("href=\"").nth(2).unwrap().split('"').next().unwrap();
        let href = href.replace("&amp;", "&");
        let (to, told) = href.split_once("error=invalid_scope").unwrap();
        assert!(to.starts_with(redirect), "{href}");
        assert!(told.contains("state=of+the+client") && told.contains("iss=http"), "{href}");
    }
    // After the person's decision, even a refusal, the browser is redirected.
    let mut person = Person::new(&house);
    let to = [("client_id", &*stranger), ("redirect_uri", "https://evil.example/?a=1")];
    let fields = person.form(&to);
    let answer = person.send(&fields.with("decision", "refuse"));
    assert_eq!(answer.status, 303, "{}", answer.text());
    // A loopback redirect URI, and a client with a completed sign-in, get the error directly.
    let local = house.register("Editor", &["http://127.0.0.1:3000/cb"]);
    let at = [("client_id", &*local), ("redirect_uri", "http://127.0.0.1:49152/cb")];
    let query = format!("{}&scope=root", house.query(&at));
    assert_eq!(Sent::of(&person.visit(&query)).get("error"), Some("invalid_scope"));
    assert_eq!(person.visit(&house.query(&[("scope", "root")])).status, 400);
    signed_in_by(&house);
    let answer = person.visit(&house.query(&[("scope", "root")]));
    assert_eq!(Sent::error(&answer, &house), "invalid_scope");
}

#[test]
fn all_else_that_is_wrong_is_told_to_the_client() {
    let house = House::new();
    signed_in_by(&house);
    let with = |name: &str, value: &str| house.query(&[(name, value)]);
    let twice = |name: &str| format!("{}&{name}=a&{name}=b", house.query(&[(name, "")]));
    let other = format!("{}/other", house.issuer);
    for (query, error) in [
        (with("response_type", ""), "invalid_request"),
        (with("response_type", "token"), "unsupported_response_type"),
        (with("response_type", "code token"), "unsupported_response_type"),
        (with("response_type", "Code"), "unsupported_response_type"),
        (with("response_mode", "fragment"), "invalid_request"),
        (with("response_mode", "form_post"), "invalid_request"),
        (with("request", "eyJ"), "request_not_supported"),
        (with("request_uri", "https://app.example/r"), "request_uri_not_supported"),
        // Weaker proofs than S256 are rejected, in whatever form.
        (with("code_challenge", ""), "invalid_request"),
        (with("code_challenge_method", ""), "invalid_request"),
        (with("code_challenge_method", "plain"), "invalid_request"),
        (with("code_challenge_method", "s256"), "invalid_request"),
        (with("code_challenge_method", "S512"), "invalid_request"),
        (with("code_challenge", &CHALLENGE[1..]), "invalid_request"),
        (with("code_challenge", &format!("{CHALLENGE}=")), "invalid_request"),
        (with("code_challenge", &format!("{CHALLENGE}{CHALLENGE}")), "invalid_request"),
        (with("code_challenge", &"!".repeat(43)), "invalid_request"),
        (
            house.query(&[("code_challenge", VERIFIER), ("code_challenge_method", "plain")]),
            "invalid_request",
        ),
        (with("resource", "https://else.example/mcp"), "invalid_target"),
        (with("resource", &other), "invalid_target"),
        (with("resource", &house.issuer), "invalid_target"),
        (with("resource", "not an address"), "invalid_target"),
        (with("scope", "root"), "invalid_scope"),
        (with("scope", "brain:proxy  memory:write"), "invalid_scope"),
        (with("scope", "brain:proxy\nmemory:write"), "invalid_scope"),
        (with("scope", &"brain:proxy ".repeat(60)), "invalid_scope"),
        (twice("response_type"), "invalid_request"),
        (twice("code_challenge"), "invalid_request"),
        (twice("scope"), "invalid_request"),
        (twice("resource"), "invalid_target"),
        (twice("unknown"), "invalid_request"),
    ] {
        let answer = Person::new(&house).visit(&query);
        assert_eq!(Sent::error(&answer, &house), error, "{query}");
        assert!(answer.header("set-cookie").is_none());
    }
    // With two `state` parameters, the client's own is unknown, so none is returned.
    let sent = Sent::of(&Person::new(&house).visit(&twice("state")));
    assert_eq!((sent.get("error"), sent.get("state")), (Some("invalid_request"), None));
}

#[test]
fn what_is_not_known_is_ignored() {
    let house = House::new();
    let more = [("prompt", "none"), ("login_hint", "ada"), ("nonce", "1"), ("max_age", "0")];
    for (name, value) in more.into_iter().chain([("response_mode", "query"), ("display", "x")]) {
        let answer = Person::new(&house).visit(&house.query(&[(name, value)]));
        assert_eq!(answer.status, 200, "{name}");
    }
    let resource = format!("{}/mcp", house.issuer);
    let answer = Person::new(&house).visit(&house.query(&[("resource", &resource)]));
    assert_eq!(answer.status, 200);
}

#[test]
fn a_state_comes_back_to_the_letter_or_not_at_all() {
    let house = House::new();
    for state in [
        "plain",
        "a b+c%20d%2Be",
        "&code=stolen&iss=https://evil.example#f",
        "\"><script>alert(1)</script>'",
        "\r\nLocation: https://evil.example\r\n\r\n",
        "\u{e9}\u{1f980}\u{202e}",
        "{\"a\":[1,2]}",
        &"s".repeat(2_000),
    ] {
        let mut person = Person::new(&house);
        let query = house.query(&[("state", state)]);
        let page = person.visit(&query);
        assert_eq!(page.status, 200, "{state}");
        assert!(!page.text().contains("<script"), "{}", page.text());
        let fields = Fields::of(&page);
        let refused = Sent::of(&person.send(&fields.clone().with("decision", "refuse")));
        let given = Sent::of(&person.send(&fields.allowing("acme", &house.once())));
        let wrong = Sent::of(&person.visit(&format!("{query}&scope=root")));
        for sent in [refused, given, wrong] {
            assert_eq!((sent.to.as_str(), sent.get("state")), (REDIRECT, Some(state)));
            assert_eq!(sent.get("iss"), Some(&*house.issuer));
        }
    }
    let mut person = Person::new(&house);
    let fields = person.form(&[("state", "")]);
    let sent = Sent::of(&person.send(&fields.allowing("acme", &house.once())));
    assert!(sent.get("state").is_none() && sent.get("code").is_some());
}

#[test]
fn the_longest_request_that_is_shown_is_taken_back_too() {
    let house = House::new();
    let short = house.query(&[("state", "x")]);
    let query = house.query(&[("state", &"x".repeat(FORM_BYTES_MAX - short.len() + 1))]);
    assert_eq!(query.len(), FORM_BYTES_MAX);
    let mut person = Person::new(&house);
    let page = person.visit(&query);
    assert_eq!(page.status, 200, "{}", page.text());
    let fields = Fields::of(&page);
    assert_eq!(person.send(&fields.clone().allowing("acme", "recalld_once_wrong")).status, 403);
    let sent = Sent::of(&person.send(&fields.allowing("acme", &house.once())));
    assert!(sent.get("code").is_some());
    assert_eq!(problem(&person.visit(&format!("{query}y"))), (400, BAD.to_owned()));
}

#[test]
fn a_body_that_comes_with_a_get_changes_nothing() {
    let house = House::new();
    let ask = Ask::get(&format!("/authorize?{}", house.query(&[])));
    let body = encoded(&[("client_id", "other"), ("decision", "allow")]).into_bytes();
    assert_eq!(house.ask(&ask.clone().body(body)).status, 200);
    assert_eq!(house.ask(&ask.body(vec![b'x'; 20_000])).status, 413);
}
