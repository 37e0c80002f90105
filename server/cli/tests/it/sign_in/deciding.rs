//! Invalid keys at sign-in, and guessing.

use std::time::Duration;

use engine::ledger::{Decision, Outcome};
use recalld_metastore::Kind;
use support_wire::wire::Answer;

use super::house::{Fields, House, Person, SCOPES, Sent, check_page, problem};

/// The page's text without the sealed request and the typed workspace.
fn said(answer: &Answer, fields: &Fields, workspace: &str) -> String {
    let typed = format!("value=\"{workspace}\"");
    answer.text().replace(fields.value("request"), "").replace(&typed, "")
}

#[test]
fn whatever_is_wrong_with_a_key_is_told_in_the_same_words() {
    let house = House::new();
    for slug in ["globex", "stopped", "gone"] {
        house.tenant(slug, "team");
    }
    let theirs = house.key("globex", Kind::Once, &SCOPES);
    let stopped = house.key("stopped", Kind::Once, &SCOPES);
    let gone = house.key("gone", Kind::User, &SCOPES);
    let bearer = house.key("acme", Kind::Bearer, &SCOPES);
    let workspace = house.key("acme", Kind::Workspace, &SCOPES);
    house.parts.control.suspend_tenant("stopped").unwrap();
    house.parts.control.delete_tenant("gone").unwrap();
    let revoked = house.once();
    let listed = house.parts.control.credentials("acme", None, 100).unwrap();
    let once = listed.iter().find(|one| one.kind == Kind::Once).unwrap();
    house.parts.control.revoke_credential("acme", &once.id).unwrap();
    let mut person = Person::new(&house);
    let fields = person.form(&[]);
    let answers: Vec<(&str, Answer)> = [
        ("acme", "recalld_once_wrong"),
        ("nobody", "recalld_once_wrong"),
        ("acme", &theirs),
        ("stopped", &stopped),
        ("gone", &gone),
        ("acme", &bearer),
        ("acme", &workspace),
        ("acme", &revoked),
    ]
    .map(|(slug, key)| {
        let answer = person.send(&fields.clone().allowing(slug, key));
        // A minute apart, because failures of one minute share a ledger entry.
        house.entries("acme");
        house.clock.by(Duration::from_secs(60));
        (slug, answer)
    })
    .into();
    let first = said(&answers[0].1, &fields, "acme");
    assert!(first.contains("wrong, expired or already used"), "{first}");
    for (slug, answer) in &answers {
        assert_eq!(answer.status, 403, "{slug}");
        check_page(answer);
        assert_eq!(said(answer, &fields, slug), first, "{slug}");
        assert_eq!(Fields::of(answer).value("workspace"), *slug);
        assert_eq!(Fields::of(answer).value("key"), "");
        assert!(answer.header("set-cookie").is_none() && answer.header("retry-after").is_none());
    }
    // Each failure is recorded if the workspace exists.
    for (slug, count) in [("acme", 5), ("stopped", 1), ("globex", 0)] {
        let entries = house.entries(slug);
        assert_eq!(entries.len(), count, "{slug}");
        for entry in entries {
            assert_eq!((&*entry.principal, &*entry.rule), ("nobody", "credential"));
            assert_eq!((entry.decision, entry.outcome), (Decision::Deny, Outcome::Refused));
        }
    }
    // The other workspace's key is still valid.
    let fields = person.form(&[]).allowing("globex", &theirs);
    assert!(Sent::of(&person.send(&fields)).get("code").is_some());
}

#[test]
fn an_empty_field_is_named_and_costs_no_guess() {
    let house = House::new();
    let mut person = Person::new(&house);
    let fields = person.form(&[]);
    for _ in 0..10 {
        for (workspace, key, word) in [
            ("", "", "#workspace\">workspace</a> and the <a href=\"#key\""),
            ("acme", "", "#key\">access key</a>."),
            ("  ", "k", "#workspace\">workspace</a>."),
        ] {
            let answer = person.send(&fields.clone().allowing(workspace, key));
            assert_eq!(answer.status, 400, "{workspace:?} {key:?}");
            assert!(answer.text().contains(word), "{word}: {}", answer.text());
        }
    }
    // Surrounding whitespace comes from pasting and is ignored.
    let answer = person.send(&fields.allowing(" acme\t", &format!(" {}\n", house.once())));
    assert!(Sent::of(&answer).get("code").is_some());
}

#[test]
fn who_guesses_waits_and_who_has_the_key_does_not() {
    let house = House::new();
    let key = house.key("acme", Kind::User, &SCOPES);
    let mut person = Person::new(&house);
    let fields = person.form(&[]);
    let wrong = fields.clone().allowing("acme", "recalld_user_wrong");
    let statuses: Vec<u16> = (0..10).map(|_| person.send(&wrong).status).collect();
    assert_eq!(statuses, [403; 10]);
    // A new attempt is allowed every six seconds; a hundred exceed that by far.
    let answers: Vec<Answer> = (0..100).map(|_| person.send(&wrong)).collect();
    let (slowed, looked_at): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 429);
    assert!(slowed.len() > 50, "{}", slowed.len());
    assert_eq!(problem(slowed[0]), (429, "Too many attempts".to_owned()));
    assert!(slowed[0].header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    assert!(looked_at.len() < 50);
    // A single entry covers all failures of a minute.
    assert!((1..=2).contains(&house.entries("acme").len()));
    // The form is still valid.
    let answer = person.send(&fields.allowing("acme", &key));
    assert!(Sent::of(&answer).get("code").is_some());
}

#[test]
fn a_key_signs_in_so_often_and_another_one_goes_on() {
    let house = House::new();
    let keys = [(); 2].map(|()| house.key("acme", Kind::User, &SCOPES));
    let mut person = Person::new(&house);
    let mut send = |key: &str| {
        let fields = person.form(&[]).allowing("acme", key);
        person.send(&fields)
    };
    // A burst of thirty, and one more every ten seconds.
    let statuses: Vec<u16> = (0..30).map(|_| send(&keys[0]).status).collect();
    assert_eq!(statuses, [303; 30]);
    let slowed = (0..30).map(|_| send(&keys[0])).find(|answer| answer.status == 429);
    let slowed = slowed.expect("thirty more take no five minutes");
    assert_eq!(problem(&slowed), (429, "Too many attempts".to_owned()));
    assert!(slowed.header("retry-after").is_some());
    assert_eq!(send(&keys[1]).status, 303);
}

#[test]
fn a_client_that_is_kept_out_meanwhile_gets_no_code() {
    let house = House::new();
    let key = house.once();
    let mut person = Person::new(&house);
    let fields = person.form(&[]).allowing("acme", &key);
    house.parts.control.revoke_client(&house.client).unwrap();
    let answer = person.send(&fields);
    assert_eq!(problem(&answer), (400, "This application is not known here".to_owned()));
    // The key is still unused.
    let other = house.register("Other", &[super::house::REDIRECT]);
    let fields = person.form(&[("client_id", &other)]).allowing("acme", &key);
    assert!(Sent::of(&person.send(&fields)).get("code").is_some());
}
