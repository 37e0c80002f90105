//! Forged forms: from other browsers, other sites, or too late.

use std::time::Duration;

use support_wire::wire::Ask;

use super::house::{Fields, House, Person, Sent, problem};

const FORGED: &str = "This form is not one of ours";
const OTHER: &str = "This sign-in belongs to another browser";
const BAD: &str = "This sign-in cannot be read";

fn is(answer: &support_wire::wire::Answer, heading: &str) -> bool {
    problem(answer) == (400, heading.to_owned())
}

#[test]
fn a_form_of_another_site_is_not_taken() {
    let house = House::new();
    let mut person = Person::new(&house);
    let fields = person.form(&[]).allowing("acme", &house.once());
    let ask = person.posting(&fields);
    let port = house.at.split(':').next_back().unwrap();
    for origin in [
        "https://evil.example".to_owned(),
        format!("https://{}", house.at),
        format!("{}/", house.issuer),
        format!("{}.evil.example", house.issuer),
        format!("http://localhost:{port}"),
        "http://127.0.0.1".to_owned(),
        String::new(),
    ] {
        let answer = house.ask(&ask.clone().header("Origin", &origin));
        assert!(is(&answer, FORGED), "{origin}");
        let both = ask.clone().header("Origin", &house.issuer).header("Origin", &origin);
        assert!(is(&house.ask(&both), FORGED), "{origin}");
    }
    for site in ["cross-site", "same-site", "none", "", "x"] {
        let answer = house.ask(&ask.clone().header("Sec-Fetch-Site", site));
        assert!(is(&answer, FORGED), "{site}");
        // Rejected even with a valid origin.
        let ask = ask.clone().header("Origin", "null").header("Sec-Fetch-Site", site);
        assert!(is(&house.ask(&ask), FORGED), "{site}");
    }
    // The key is still unused. Without these headers, the cookie and the token suffice.
    assert!(Sent::of(&house.ask(&ask)).get("code").is_some());
    let fields = person.form(&[]).allowing("acme", &house.once());
    let ask = person.posting(&fields).header("Origin", &house.issuer);
    assert!(Sent::of(&house.ask(&ask)).get("code").is_some());
}

#[test]
fn a_form_is_good_in_the_browser_that_it_was_shown_to() {
    let house = House::new();
    let mut person = Person::new(&house);
    let fields = person.form(&[]).allowing("acme", &house.once());
    let mut other = Person::new(&house);
    assert!(is(&other.send(&fields), OTHER), "no cookie");
    let theirs = other.form(&[]);
    assert!(is(&other.send(&fields), OTHER), "another cookie");
    // An attacker's own form and cookie are planted beside the person's.
    let [mine, planted] = [&person, &other].map(|one| one.cookie.clone().unwrap());
    for cookies in [format!("{mine}; {planted}"), format!("{planted}; {mine}")] {
        let twice = Person { house: &house, cookie: Some(cookies) };
        let heading = "The cookie for this sign-in is there twice";
        assert!(is(&twice.send(&fields), heading));
        let ask = Ask::get(&format!("/authorize?{}", house.query(&[])));
        let ask = ask.header("Cookie", &twice.cookie.clone().unwrap());
        assert!(is(&house.ask(&ask), heading));
    }
    for cookie in ["recalld-signin=", "recalld-signin=AAAA", "x=y"] {
        let odd = Person { house: &house, cookie: Some(cookie.to_owned()) };
        assert!(is(&odd.send(&fields), OTHER), "{cookie}");
    }
    // Fields of one form in another.
    let (request, csrf) = (theirs.value("request").to_owned(), theirs.value("csrf").to_owned());
    let again = person.form(&[]);
    for (what, mixed, heading) in [
        ("their request", fields.clone().with("request", &request), OTHER),
        ("their token", fields.clone().with("csrf", &csrf), FORGED),
        ("both", fields.clone().with("request", &request).with("csrf", &csrf), OTHER),
        ("a token of another form", fields.clone().with("csrf", again.value("csrf")), FORGED),
        ("no token", fields.clone().with("csrf", ""), FORGED),
        ("no request", fields.clone().with("request", ""), FORGED),
        ("neither", Fields(Vec::new()).allowing("acme", "k"), FORGED),
    ] {
        assert!(is(&person.send(&mixed), heading), "{what}");
    }
    assert!(Sent::of(&person.send(&fields)).get("code").is_some());
}

#[test]
fn a_sealed_request_that_was_changed_is_not_ours() {
    let house = House::new();
    let mut person = Person::new(&house);
    let fields = person.form(&[]).allowing("acme", &house.once());
    let sealed = fields.value("request").to_owned();
    let step = sealed.len() / 40;
    for at in (0..sealed.len()).step_by(step.max(1)) {
        let mut changed = sealed.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        // The part with the browser's identity is checked only if the seal is valid.
        let (status, heading) = problem(&person.send(&fields.clone().with("request", &changed)));
        assert!(status == 400 && [FORGED, OTHER].contains(&&*heading), "{at}: {heading}");
    }
    for odd in [&sealed[1..], &sealed[..sealed.len() - 1], &format!("{sealed}="), "!", "%00"] {
        assert!(is(&person.send(&fields.clone().with("request", odd)), FORGED), "{odd}");
    }
    assert!(Sent::of(&person.send(&fields)).get("code").is_some());
}

#[test]
fn a_form_is_good_for_ten_minutes_however_often_it_is_sent() {
    let house = House::new();
    let mut person = Person::new(&house);
    let fields = person.form(&[]);
    house.clock.by(Duration::from_secs(9 * 60 + 50));
    let answer = person.send(&fields.clone().allowing("acme", "recalld_once_wrong"));
    assert_eq!(answer.status, 403);
    // The error page does not extend the deadline.
    let again = Fields::of(&answer);
    assert_eq!(again.value("request"), fields.value("request"));
    house.clock.by(Duration::from_secs(10));
    let good = again.allowing("acme", &house.once());
    assert_eq!(problem(&person.send(&good)), (400, "This sign-in took too long".to_owned()));
    // Each new page renews the cookie's lifetime.
    let page = person.visit(&house.query(&[]));
    assert!(page.header("set-cookie").is_some_and(|set| set.contains("Max-Age=3600")));
}

#[test]
fn a_form_in_another_shape_is_not_read() {
    let house = House::new();
    let mut person = Person::new(&house);
    let fields = person.form(&[]).allowing("acme", &house.once());
    let cookie = person.cookie.clone().unwrap();
    let send = |types: &[&str], body: Vec<u8>| {
        let mut ask = Ask::new("POST", "/authorize").header("Cookie", &cookie).body(body);
        for one in types {
            ask = ask.header("Content-Type", one);
        }
        house.ask(&ask)
    };
    const FORM: &str = "application/x-www-form-urlencoded";
    let good = person.posting(&fields);
    let body = good.bytes("x");
    let at = body.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let body = body[at..].to_vec();
    let with = |more: &str| [&body, more.as_bytes()].concat();
    for (what, answer) in [
        ("no type", send(&[], body.clone())),
        ("json", send(&["application/json"], body.clone())),
        ("parts", send(&["multipart/form-data; boundary=x"], body.clone())),
        ("plain", send(&["text/plain"], body.clone())),
        ("two types", send(&[FORM, FORM], body.clone())),
        ("twice", send(&[FORM], with("&decision=allow"))),
        ("unknown twice", send(&[FORM], with("&x=1&x=2"))),
        ("no UTF-8", send(&[FORM], with("&x=%ff"))),
        ("NUL", send(&[FORM], with("&x=%00"))),
        ("many", send(&[FORM], with(&"&a".repeat(70)))),
        ("another decision", person.send(&fields.clone().with("decision", "Allow"))),
        ("no decision", person.send(&fields.clone().with("decision", ""))),
    ] {
        assert!(is(&answer, BAD), "{what}");
    }
    let long = send(&[FORM], with(&format!("&x={}", "y".repeat(40_000))));
    assert_eq!(long.status, 413);
    // A query beside the form is ignored.
    let ask = good.to("/authorize?decision=refuse&client_id=x&workspace=globex");
    assert!(Sent::of(&house.ask(&ask)).get("code").is_some());
}
