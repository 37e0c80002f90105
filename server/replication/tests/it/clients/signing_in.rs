//! Sources of credentials other than static settings.

use std::sync::Arc;

use recalld_replication::{Counts, Key, Objects, Op, S3, S3Settings};

use super::tiny::Tiny;
use super::wire::Fate;

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// A client that fetches its credentials from `tiny`, which is also the store.
fn client(tiny: &Tiny, pairs: Pairs<'_>, is_aws: bool) -> (S3, Arc<Counts>) {
    let counts = Arc::<Counts>::default();
    let endpoint = (!is_aws).then(|| tiny.endpoint());
    let settings = S3Settings { endpoint, region: Some("eu-1".into()), ..S3Settings::default() };
    let environment = |name: &str| {
        let pair = pairs.iter().find(|(key, _)| *key == name);
        pair.map(|(_, value)| (*value).to_owned())
    };
    let s3 = S3::open("memories", "", &settings, &environment, Arc::clone(&counts)).unwrap();
    (s3, counts)
}

const FETCHED: &str = "{\"AccessKeyId\":\"fetched\",\"SecretAccessKey\":\"s\",\"Token\":\"told\",\"Expiration\":\"2999-01-01T00:00:00Z\"}";
const ENDING: &str = "{\"AccessKeyId\":\"ending\",\"SecretAccessKey\":\"s\",\"Token\":\"told\",\"Expiration\":\"2001-01-01T00:00:00Z\"}";

fn signers(tiny: &Tiny) -> Vec<String> {
    let seen = tiny.seen();
    let credential = |seen: &super::wire::Seen| seen.query("X-Amz-Credential");
    let key = |text: String| text.split('/').next().unwrap().to_owned();
    seen.iter().filter_map(credential).map(key).collect()
}

#[test]
fn an_agent_of_a_container_is_asked_once_and_again_at_the_end() {
    let tiny = Tiny::start();
    let agent = format!("{}/agent", tiny.endpoint());
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "the token\n").unwrap();
    let token = token.display().to_string();
    let pairs = [
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.as_str()),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.as_str()),
    ];
    let (s3, counts) = client(&tiny, &pairs, false);
    tiny.will("GET", &[Fate::Body(ENDING)]);
    s3.put(&Key::About, b"x").unwrap();
    let seen = tiny.seen();
    assert_eq!(seen[0].headers["authorization"], "the token");
    // The first credentials expired at once; new ones are fetched and cached.
    tiny.will("GET", &[Fate::Body(FETCHED)]);
    s3.put(&Key::About, b"x").unwrap();
    s3.put(&Key::About, b"x").unwrap();
    assert_eq!(signers(&tiny), ["fetched", "fetched"]);
    assert_eq!(counts.of(Op::SignIn), 2);
}

#[test]
fn credentials_that_the_store_ended_are_fetched_anew() {
    let tiny = Tiny::start();
    let agent = format!("{}/agent", tiny.endpoint());
    let pairs = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", agent.as_str())];
    let (s3, counts) = client(&tiny, &pairs, false);
    tiny.will("GET", &[Fate::Body(FETCHED), Fate::Body(FETCHED)]);
    tiny.will("PUT", &[Fate::Says(400, "ExpiredToken")]);
    s3.put(&Key::About, b"x").unwrap();
    assert_eq!(counts.of(Op::SignIn), 2);
    let seen = tiny.seen();
    let put = seen.iter().find(|seen| seen.method == "PUT").unwrap();
    assert_eq!(put.query("X-Amz-Security-Token").unwrap(), "told");
}

#[test]
fn a_web_identity_is_exchanged() {
    let tiny = Tiny::start();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "jwt&more").unwrap();
    let token = token.display().to_string();
    let endpoint = tiny.endpoint();
    let pairs = [
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.as_str()),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ("AWS_ENDPOINT_URL_STS", endpoint.as_str()),
    ];
    let (s3, _) = client(&tiny, &pairs, false);
    tiny.will("POST", &[Fate::Body(
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>assumed</AccessKeyId>\
         <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>\
         </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
    )]);
    s3.put(&Key::About, b"x").unwrap();
    let seen = tiny.seen();
    assert_eq!(seen[0].query("WebIdentityToken").unwrap(), "jwt&more");
    assert_eq!(seen[0].query("RoleArn").unwrap(), "arn:aws:iam::1:role/r");
    assert!(seen[1].query("X-Amz-Credential").unwrap().starts_with("assumed/"));
}

#[test]
fn a_machine_is_asked_for_a_token_its_role_and_the_credentials() {
    let tiny = Tiny::start();
    let endpoint = tiny.endpoint();
    let pairs = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint.as_str())];
    // The store is AWS's own and is never reached, as the role is rejected.
    let (s3, counts) = client(&tiny, &pairs, true);
    tiny.will("PUT", &[Fate::Body("tok")]);
    tiny.will("GET", &[Fate::Body("../role")]);
    let tried = s3.put_new(&Key::About, b"x");
    let recalld_replication::Tried::Unsure(why) = tried else { panic!("{tried:?}") };
    assert!(why.contains("the machine has no role"), "{why}");
    let seen = tiny.seen();
    assert_eq!(seen[1].headers["x-aws-ec2-metadata-token"], "tok");
    assert_eq!((counts.of(Op::SignIn), counts.of(Op::Create)), (2, 0));
}
