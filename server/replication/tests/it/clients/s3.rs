//! The S3 client, against a scripted S3.

use std::net::TcpListener;
use std::sync::Arc;

use recalld_replication::core::Verdict;
use recalld_replication::{
    Counts, DataKey, Key, Nonce, ObjectChain, Objects, Op, S3, S3Settings, Tenant, Tried, probe,
};

use super::suite;
use super::tiny::Tiny;
use super::wire::Fate;

const SECRET: &str = "tiny-secret-that-nobody-may-see";

fn client_at(endpoint: &str, bucket: &str) -> (Arc<dyn Objects>, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    let settings = S3Settings { endpoint: Some(endpoint.into()), ..S3Settings::default() };
    let environment = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some("tiny".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(SECRET.to_owned()),
        _ => None,
    };
    let s3 = S3::open(bucket, "team/", &settings, &environment, Arc::clone(&counts)).unwrap();
    assert!(!format!("{s3:?}").contains(SECRET));
    (Arc::new(s3), counts)
}

fn client(tiny: &Tiny) -> (Arc<dyn Objects>, Arc<Counts>) {
    client_at(&tiny.endpoint(), "memories")
}

fn record(number: u64) -> Key {
    Key::Chain(Tenant::new("local").unwrap(), number)
}

fn why(tried: Tried) -> String {
    match tried {
        Tried::Made => panic!("it was made"),
        Tried::Unsure(why) | Tried::Refused(why) => why,
    }
}

#[test]
fn an_s3_passes_the_suite() {
    let tiny = Tiny::start();
    let (one, _) = client(&tiny);
    suite::objects(&one);
    let (other, _) = client(&tiny);
    suite::chain(&ObjectChain::new(one), &ObjectChain::new(other));
    assert!(tiny.seen().iter().all(|seen| seen.query("X-Amz-Signature").is_some()));
}

#[test]
fn an_s3_is_honest() {
    let tiny = Tiny::start();
    assert_eq!(probe(&client(&tiny).0, true), Verdict::Honest);
}

#[test]
fn one_creation_is_one_request_however_it_ends() {
    let tiny = Tiny::start();
    let (objects, counts) = client(&tiny);
    let refused = [400, 401, 403, 411, 413, 501];
    let unsure = [301, 404, 408, 409, 412, 429, 500, 502, 503, 504];
    for (number, status) in (1..).zip(refused.into_iter().chain(unsure)) {
        tiny.will("PUT", &[Fate::Says(status, "Told")]);
        let tried = objects.put_new(&record(number), b"x");
        let is_refused = matches!(tried, Tried::Refused(_));
        assert_eq!(is_refused, refused.contains(&status), "{status}: {tried:?}");
        assert_eq!(tiny.methods(), ["PUT"], "{status}");
    }
    let fates =
        [Fate::Resets, Fate::DoneAndResets, Fate::Cut, Fate::DoneAndSays(500, "InternalError")];
    for (number, fate) in (30..).zip(fates) {
        tiny.will("PUT", std::slice::from_ref(&fate));
        let tried = objects.put_new(&record(number), b"x");
        assert!(matches!(tried, Tried::Unsure(_)), "{fate:?}: {tried:?}");
        assert_eq!(tiny.methods(), ["PUT"], "{fate:?}");
    }
    assert_eq!(counts.of(Op::Create), 20);
}

#[test]
fn a_refusal_that_passes_by_itself_is_none() {
    let tiny = Tiny::start();
    let (objects, _) = client(&tiny);
    tiny.will("PUT", &[Fate::Says(400, "RequestTimeout"), Fate::Says(400, "ExpiredToken")]);
    for _ in 0..2 {
        assert!(matches!(objects.put_new(&record(1), b"x"), Tried::Unsure(_)));
    }
}

#[test]
fn what_may_be_done_twice_is_asked_again_a_few_times() {
    let tiny = Tiny::start();
    let (objects, counts) = client(&tiny);
    let fails = [Fate::Says(503, "SlowDown"), Fate::Resets, Fate::DoneAndSays(500, "")];
    tiny.will("PUT", &fails);
    objects.put(&record(1), b"whole").unwrap();
    assert_eq!(tiny.methods(), ["PUT"; 4]);
    tiny.will("GET", &[Fate::Cut, Fate::Says(500, ""), Fate::Resets]);
    assert_eq!(objects.get(&record(1), None, 99).unwrap().unwrap(), b"whole");
    tiny.will("GET", &[Fate::Cut]);
    assert_eq!(objects.list("t/", None, 9).unwrap().len(), 1);
    tiny.will("HEAD", &[Fate::Says(503, "")]);
    assert_eq!(objects.head(&record(1)).unwrap().unwrap().age_s, 90);
    tiny.will("DELETE", &[Fate::DoneAndResets]);
    objects.remove(&[record(1)]).unwrap();
    tiny.seen();
    tiny.will(
        "GET",
        &[Fate::Says(503, ""), Fate::Says(503, ""), Fate::Says(503, ""), Fate::Says(503, "")],
    );
    let away = objects.get(&record(1), None, 99).unwrap_err();
    assert!(away.may_pass && away.why.contains("503"), "{away:?}");
    assert_eq!(tiny.methods(), ["GET"; 4]);
    assert_eq!((counts.of(Op::Put), counts.of(Op::Head), counts.of(Op::Remove)), (4, 2, 2));
}

#[test]
fn what_is_refused_is_asked_once_and_says_what_to_do() {
    let tiny = Tiny::start();
    let (objects, _) = client(&tiny);
    let cases = [
        (Fate::Says(403, "SignatureDoesNotMatch"), "the secret from AWS_ACCESS_KEY_ID"),
        (Fate::Says(403, "InvalidAccessKeyId"), "is not known there"),
        (Fate::Says(403, "AccessDenied"), "may not do this in the bucket memories"),
        (Fate::With(403, "date", "Thu, 26 Nov 2020 06:00:00 GMT"), "set the clock right"),
        (Fate::With(301, "x-amz-bucket-region", "eu-2"), "in the region eu-2"),
        (Fate::Says(404, "NoSuchBucket"), "there is no bucket memories"),
    ];
    for (fate, wanted) in cases {
        tiny.will("GET", std::slice::from_ref(&fate));
        let away = objects.get(&record(1), None, 99).unwrap_err();
        assert!(!away.may_pass && away.why.contains(wanted), "{away:?}");
        tiny.will("PUT", &[fate]);
        let why = why(objects.put_new(&record(1), b"x"));
        assert!(why.contains(wanted) && !why.contains("X-Amz"), "{why}");
        assert_eq!(tiny.methods(), ["GET", "PUT"]);
    }
}

#[test]
fn a_bucket_that_is_not_there_is_no_empty_bucket() {
    let tiny = Tiny::start();
    let (objects, _) = client_at(&tiny.endpoint(), "elsewhere");
    for away in [
        objects.get(&record(1), None, 9).unwrap_err(),
        objects.list("t/", None, 9).unwrap_err(),
        objects.put(&record(1), b"x").unwrap_err(),
        objects.remove(&[record(1)]).unwrap_err(),
        objects.remove(&[record(1), record(2)]).unwrap_err(),
    ] {
        assert!(!away.may_pass && away.why.contains("no bucket elsewhere"), "{away:?}");
    }
}

#[test]
fn nobody_there_is_told_and_may_pass() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let (objects, counts) = client_at(&endpoint, "memories");
    let away = objects.get(&record(1), None, 9).unwrap_err();
    assert!(away.may_pass && away.why.contains("127.0.0.1:"), "{away:?}");
    assert_eq!(counts.of(Op::Get), 4);
    assert!(matches!(objects.put_new(&record(1), b"x"), Tried::Unsure(_)));
    assert_eq!(counts.of(Op::Create), 1);
}

#[test]
fn lists_go_on_over_pages_and_leave_out_what_is_nobodys() {
    let tiny = Tiny::start();
    let (objects, _) = client(&tiny);
    for number in 1..=9 {
        objects.put(&record(number), b"x").unwrap();
        tiny.put(&format!("team/t/local/chain/note {number}"), b"mine");
    }
    tiny.put("other/t/local/chain/00000000000000000001", b"not below the prefix");
    tiny.pages(2);
    tiny.seen();
    let listed = objects.list("t/local/chain/", Some(&record(2)), 5).unwrap();
    let keys: Vec<Key> = listed.into_iter().map(|about| about.key).collect();
    assert_eq!(keys, (3..=7).map(record).collect::<Vec<_>>());
    assert_eq!(tiny.methods().len(), 3);
    assert_eq!(objects.list("t/local/chain/", None, 100).unwrap().len(), 9);
}

#[test]
fn answers_that_cannot_be_are_not_believed() {
    let tiny = Tiny::start();
    let (objects, _) = client(&tiny);
    objects.put(&record(1), b"0123456789").unwrap();
    let unsorted = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Contents><Key>b</Key></Contents>\
        <Contents><Key>a</Key></Contents><IsTruncated>false</IsTruncated></ListBucketResult>";
    for body in ["", "<html>", unsorted] {
        tiny.will("GET", &[Fate::Body(body)]);
        let away = objects.list("t/", None, 9).unwrap_err();
        assert!(!away.may_pass, "{body}: {away:?}");
    }
    // The whole object in response to a range request.
    tiny.will("GET", &[Fate::Body("0123456789")]);
    assert!(!objects.get(&record(1), Some(2..5), 9).unwrap_err().may_pass);
    tiny.will("GET", &[Fate::Body("234")]);
    assert!(!objects.get(&record(1), Some(2..5), 9).unwrap_err().may_pass);
    // A part with another offset.
    tiny.will("GET", &[Fate::With(206, "content-range", "bytes 0-497/999")]);
    assert!(!objects.get(&record(1), Some(2..500), 999).unwrap_err().may_pass);
    tiny.will("GET", &[Fate::Body("01234")]);
    assert_eq!(objects.get(&record(1), Some(0..5), 9).unwrap().unwrap(), b"01234");
}

#[test]
fn many_are_removed_in_one_request_or_one_by_one() {
    let tiny = Tiny::start();
    let (objects, _) = client(&tiny);
    let tenant = Tenant::new("local").unwrap();
    let part = |part| Key::Data(tenant.clone(), DataKey { epoch: 1, nonce: Nonce::NONE }, part);
    let keys: Vec<Key> = (0..1500).map(part).collect();
    for key in &keys[..5] {
        objects.put(key, b"x").unwrap();
    }
    tiny.seen();
    objects.remove(&keys).unwrap();
    assert_eq!(tiny.methods(), ["POST", "POST"]);
    assert_eq!(objects.list("", None, 9).unwrap(), []);
    tiny.knows_no_bulk();
    objects.put(&keys[0], b"x").unwrap();
    tiny.seen();
    objects.remove(&keys[..3]).unwrap();
    assert_eq!(tiny.methods(), ["POST", "DELETE", "DELETE", "DELETE"]);
    objects.remove(&keys[..2]).unwrap();
    assert_eq!(tiny.methods(), ["DELETE", "DELETE"]);
}

#[test]
fn what_stays_though_it_was_to_go_is_told() {
    let tiny = Tiny::start();
    let (objects, _) = client(&tiny);
    let body = "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Error><Key>k</Key>\
        <Code>AccessDenied</Code><Message>locked</Message></Error></DeleteResult>";
    tiny.will("POST", &[Fate::Body(body)]);
    let away = objects.remove(&[record(1), record(2)]).unwrap_err();
    assert!(!away.may_pass && away.why.contains("AccessDenied, locked"), "{away:?}");
    assert_eq!(tiny.methods(), ["POST"]);
}

#[test]
fn settings_that_cannot_be_are_told() {
    let keys = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some(SECRET.to_owned()),
        _ => None,
    };
    let open = |settings: S3Settings, environment: &dyn Fn(&str) -> Option<String>| {
        let s3 = S3::open("memories", "", &settings, environment, Arc::default());
        let why = s3.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(!why.contains(SECRET), "{why}");
        why
    };
    let at =
        |endpoint: &str| S3Settings { endpoint: Some(endpoint.into()), ..S3Settings::default() };
    assert!(open(S3Settings::default(), &keys).contains("AWS_REGION"));
    assert!(open(at("http://10.0.0.1:1"), &keys).contains("remote.allow_http"));
    assert_eq!(open(S3Settings { allow_http: true, ..at("http://10.0.0.1:1") }, &keys), "");
    assert_eq!(open(at("https://10.0.0.1:1"), &keys), "");
    for wrong in ["10.0.0.1:1", "ftp://h", "http://h/?x=1"] {
        assert!(open(at(wrong), &keys).contains("is not http(s)://HOST"), "{wrong}");
    }
    assert!(open(at("https://h"), &|_| None).contains("set AWS_ACCESS_KEY_ID"));
    let half = |name: &str| (name == "AWS_ACCESS_KEY_ID").then(|| "k".to_owned());
    assert!(open(at("https://h"), &half).contains("not whole"));
    let no_file = S3Settings { ca_file: Some("/nowhere".into()), ..at("https://h") };
    assert!(open(no_file, &keys).contains("/nowhere"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, "no certificate").unwrap();
    let wrong = S3Settings { ca_file: Some(file), ..at("https://h") };
    assert!(open(wrong, &keys).contains("no certificate"));
}
