//! Forged access tokens: each is rejected at `/mcp` and by the HTTP API, always with the same response.
//!
//! `server/auth/src/token/tests.rs` tests the format byte by byte; these tests cover the effect over the network. An
//! address is throttled after ten wrong credentials, so each test has its own server.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use engine::os::clock::{Clock, Random, SystemClock, SystemRandom};
use recalld_auth::token::{Claims, TOKEN_BYTES_MAX, mint};
use recalld_auth::{Signer, TokenKey, open_or_create_signing_key};
use recalld_metastore::Kind;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support_server::house::{House, SCOPES, api, entries, mcp};
use support_wire::mcp_client;
use support_wire::service::Service;
use support_wire::wire::{self, Answer, Ask};

use crate::tokens::desk::{ISSUER, RESOURCE};

/// Wrong credentials per address before throttling (GOV-04).
const GUESSES_MAX: usize = 10;

/// A data directory with the workspaces `acme` and `globex`, and the server's token key to sign arbitrary tokens.
struct Forge {
    house: House,
    signer: Signer,
    key: TokenKey,
    /// Id of the credential of `acme` that tokens depend on.
    hold: String,
    /// Id of a credential of `globex`.
    other_hold: String,
    now: u64,
}

impl Forge {
    fn new() -> Self {
        let house = House::quick();
        let hold = |slug: &str| {
            house.tenant(slug, "open");
            house.issue(slug, Kind::Workspace, None, &SCOPES);
            let listed = house.control.credentials(slug, None, 100).unwrap();
            listed.into_iter().find(|one| one.kind == Kind::Workspace).unwrap().id
        };
        let (hold, other_hold) = (hold("acme"), hold("globex"));
        let keys = house.control.token_keys().unwrap();
        let seed = keys[0].seed.expose();
        let (signer, key) = (Signer::from_seed(seed), TokenKey::from_seed(seed));
        let now = u64::try_from(SystemClock.now().0 / 1_000_000).unwrap();
        Self { house, signer, key, hold, other_hold, now }
    }

    /// Claims of a valid token of `acme`.
    fn claims(&self) -> Claims {
        Claims {
            audience: RESOURCE.to_owned(),
            client: "acme".to_owned(),
            expires_at: self.now + 3_600,
            issued_at: self.now,
            issuer: ISSUER.to_owned(),
            id: "forged".to_owned(),
            scope: SCOPES.join(" "),
            hangs_on: self.hold.clone(),
            subject: "workspace".to_owned(),
            workspace: "acme".to_owned(),
        }
    }

    fn minted(&self, change: impl FnOnce(&mut Claims)) -> String {
        let mut claims = self.claims();
        change(&mut claims);
        mint(&self.key, &claims)
    }

    /// The valid payload under another header, signed with the server's key.
    fn under(&self, header: &str) -> String {
        let good = self.minted(|_| {});
        self.signed(&format!("{}.{}", encoded(header.as_bytes()), part(&good, 1)))
    }

    fn signed(&self, message: &str) -> String {
        format!("{message}.{}", encoded(&self.signer.sign(message.as_bytes())))
    }

    fn serve(self) -> Gate {
        let good = self.minted(|claims| claims.id = "good".to_owned());
        let (service, scratch) = self.house.serve(&["--public-url", ISSUER]);
        let gate = Gate { service, _scratch: scratch };
        // The valid token is accepted, so a token that differs in one property is rejected for that property.
        assert_eq!(gate.list(&good).status, 200);
        gate
    }
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn part(token: &str, at: usize) -> &str {
    token.split('.').nth(at).unwrap()
}

/// HMAC (RFC 2104) with SHA-256 and a key of at most one block.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    const BLOCK_BYTES: usize = 64;
    let padded = |with: u8| -> Vec<u8> {
        let byte = |at: usize| key.get(at).copied().unwrap_or(0) ^ with;
        (0..BLOCK_BYTES).map(byte).collect()
    };
    assert!(key.len() <= BLOCK_BYTES);
    let inner = Sha256::digest([padded(0x36), message.to_vec()].concat());
    Sha256::digest([padded(0x5c), inner.to_vec()].concat()).to_vec()
}

/// The server under attack.
struct Gate {
    service: Service,
    _scratch: tempfile::TempDir,
}

impl Gate {
    fn list(&self, bearer: &str) -> Answer {
        wire::ask(self.service.hosted(), &mcp(bearer, "tools/list", &json!({})))
    }

    /// Checks that each token is rejected at `/mcp` with the response of RFC 6750, and that no ledger records the call.
    fn refuses(&self, forged: &[(&str, String)]) {
        assert!(forged.len() <= GUESSES_MAX, "{} would be told to wait", forged.len());
        let challenge = self.challenge(true);
        for (what, token) in forged {
            let answer = self.list(token);
            assert_eq!(answer.status, 401, "{what}: {}", answer.text());
            assert_eq!(answer.json(), json!({"detail": "Not authenticated"}), "{what}");
            assert_eq!(answer.header("WWW-Authenticate"), Some(&*challenge), "{what}");
        }
        for workspace in ["acme", "globex"] {
            let entries = entries(self.service.data(), workspace, "tools/list");
            assert_eq!(entries, Vec::<Value>::new(), "{workspace}");
        }
    }

    /// The expected challenge; with `was_sent`, including the error of the presented token.
    fn challenge(&self, was_sent: bool) -> String {
        let at = "/.well-known/oauth-protected-resource/mcp";
        let document = wire::ask(self.service.hosted(), &Ask::get(at)).json();
        let scopes = document["scopes_supported"].as_array().unwrap();
        let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str().unwrap()).collect();
        let wrong = "error=\"invalid_token\", error_description=\"the access token is not good, or not good any more\", ";
        let wrong = if was_sent { wrong } else { "" };
        let scopes = scopes.join(" ");
        format!("Bearer {wrong}resource_metadata=\"{ISSUER}{at}\", scope=\"{scopes}\"")
    }
}

#[test]
fn no_header_but_ours_is_taken_whoever_signed_what_is_beneath() {
    let forge = Forge::new();
    let (kid, x) = (forge.key.id().to_owned(), encoded(&forge.key.public()));
    let payload = part(&forge.minted(|_| {}), 1).to_owned();
    let unsigned = |header: &str| format!("{}.{payload}.", encoded(header.as_bytes()));
    let confused = |key: &[u8]| {
        let header = format!(r#"{{"alg":"HS256","kid":"{kid}","typ":"at+jwt"}}"#);
        let message = format!("{}.{payload}", encoded(header.as_bytes()));
        format!("{message}.{}", encoded(&hmac(key, message.as_bytes())))
    };
    let ours = |more: &str, typ: &str| {
        forge.under(&format!(r#"{{"alg":"EdDSA",{more}"kid":"{kid}","typ":"{typ}"}}"#))
    };
    let forged = [
        ("alg none", unsigned(r#"{"alg":"none","typ":"at+jwt"}"#)),
        ("alg nOnE", unsigned(&format!(r#"{{"alg":"nOnE","kid":"{kid}","typ":"at+jwt"}}"#))),
        ("ours, unsigned", unsigned(&format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"at+jwt"}}"#))),
        ("HS256 by the public key", confused(&forge.key.public())),
        ("HS256 by its text", confused(x.as_bytes())),
        ("another typ", ours("", "JWT")),
        ("crit", ours(r#""crit":["b64"],"b64":false,"#, "at+jwt")),
        ("jku", ours(r#""jku":"https://evil.example/keys","#, "at+jwt")),
        ("x5u", ours(r#""x5u":"https://evil.example/chain","#, "at+jwt")),
        ("jwk", ours(&format!(r#""jwk":{{"kty":"OKP","crv":"Ed25519","x":"{x}"}},"#), "at+jwt")),
    ];
    forge.serve().refuses(&forged);
}

#[test]
fn no_key_but_ours_signs_and_nothing_but_what_it_signed_is_read() {
    let forge = Forge::new();
    let stranger = TokenKey::from_seed(&[9; 32]);
    // The operator's ledger key is an Ed25519 key in the same data directory.
    let mut random = |bytes: &mut [u8]| SystemRandom.fill(bytes);
    let (ledgers, _) = open_or_create_signing_key(&forge.house.data(), &mut random).unwrap();
    let name = encoded(&Sha256::digest(format!(
        r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#,
        encoded(&ledgers.public())
    )));
    let good = forge.minted(|_| {});
    let under = |kid: &str, signer: &Signer| {
        let header = format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"at+jwt"}}"#);
        let message = format!("{}.{}", encoded(header.as_bytes()), part(&good, 1));
        format!("{message}.{}", encoded(&signer.sign(message.as_bytes())))
    };
    let other = Signer::from_seed(&[9; 32]);
    let richer = forge.minted(|claims| claims.scope = "brain:proxy memory:write audit:read".into());
    let globexs = forge.minted(|claims| claims.workspace = "globex".into());
    let swapped = |from: &str| [part(&good, 0), part(from, 1), part(&good, 2)].join(".");
    let forged = [
        ("an unknown key", mint(&stranger, &forge.claims())),
        ("the ledger's key by its own name", under(&name, &ledgers)),
        ("the ledger's key by our name", under(forge.key.id(), &ledgers)),
        ("another key by our name", under(forge.key.id(), &other)),
        ("our key by another name", under(stranger.id(), &forge.signer)),
        ("more scopes", swapped(&richer)),
        ("another workspace", swapped(&globexs)),
        ("a longer payload", format!("{}.{}AA.{}", part(&good, 0), part(&good, 1), part(&good, 2))),
    ];
    forge.serve().refuses(&forged);
}

#[test]
fn what_another_issuer_or_resource_is_named_in_opens_nothing_though_we_signed_it() {
    let forge = Forge::new();
    let audience = |text: &str| forge.minted(|claims| claims.audience = text.into());
    let issuer = |text: &str| forge.minted(|claims| claims.issuer = text.into());
    let forged = [
        ("another resource", audience("https://else.example/mcp")),
        ("the issuer as resource", audience(ISSUER)),
        ("a path beside it", audience("https://recall.example/mcp/")),
        ("a path of a workspace", audience("https://recall.example/acme/mcp")),
        ("no resource", audience("")),
        ("another issuer", issuer("https://else.example")),
        ("the issuer with a slash", issuer("https://recall.example/")),
        ("the resource as issuer", issuer(RESOURCE)),
    ];
    forge.serve().refuses(&forged);
}

#[test]
fn times_and_holds_are_looked_at_and_cost_no_guess() {
    let forge = Forge::new();
    let now = forge.now;
    let times = |issued_at: u64, expires_at: u64| {
        forge.minted(|claims| (claims.issued_at, claims.expires_at) = (issued_at, expires_at))
    };
    let ended = [
        ("expired", times(now - 3_600, now - 1)),
        ("expired just now", times(now - 10, now)),
        ("of tomorrow", times(now + 86_400, now + 90_000)),
        ("issued in ten minutes", times(now + 600, now + 700)),
        ("of another workspace's key", forge.minted(|it| it.hangs_on = forge.other_hold.clone())),
        ("of another workspace", forge.minted(|it| it.workspace = "globex".into())),
        ("of no workspace", forge.minted(|it| it.workspace = "nobody".into())),
        ("of the operator's", forge.minted(|it| it.workspace = "local".into())),
        ("of a path", forge.minted(|it| it.workspace = "../acme".into())),
        ("of nothing", forge.minted(|it| it.hangs_on = String::new())),
    ];
    // A token with a longer or a negative lifetime was never issued by this server.
    let never = [
        ("for two days", times(now, now + 2 * 86_400)),
        ("from 1970 on", times(0, now + 60)),
        ("over before it began", times(now, now - 1)),
    ];
    let gate = forge.serve();
    // Together, these exceed the guesses of one address: an expired or ended token is no guess.
    gate.refuses(&ended);
    gate.refuses(&ended);
    gate.refuses(&never);
}

#[test]
fn what_has_not_the_form_of_a_token_opens_nothing() {
    let forge = Forge::new();
    let good = forge.minted(|_| {});
    let [head, body, tail] = [0, 1, 2].map(|at| part(&good, at).to_owned());
    let huge = forge.minted(|claims| claims.id = "x".repeat(TOKEN_BYTES_MAX));
    let forged = [
        ("no signature", format!("{head}.{body}")),
        ("an empty signature", format!("{head}.{body}.")),
        ("four parts", format!("{good}.{tail}")),
        ("a padded part", format!("{good}=")),
        ("a cut signature", good[..good.len() - 2].to_owned()),
        ("nothing but dots", "..".to_owned()),
        ("no JSON", forge.signed(&format!("{head}.{}", encoded(b"no claims")))),
        ("deep JSON", forge.signed(&format!("{head}.{}", encoded("[".repeat(900).as_bytes())))),
        ("oversized", huge),
    ];
    forge.serve().refuses(&forged);
}

#[test]
fn a_token_comes_once_and_in_its_header_alone() {
    let forge = Forge::new();
    let good = forge.minted(|_| {});
    let gate = forge.serve();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let plain = mcp_client::ask(&message);
    let bearer = format!("Bearer {good}");
    let mut with_member = message.clone();
    with_member["access_token"] = json!(good);
    let form = Ask::new("POST", "/mcp")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("access_token={good}").into_bytes());
    let missing = gate.challenge(false);
    for (what, ask) in [
        ("none", plain.clone()),
        ("twice", plain.clone().header("Authorization", &bearer).header("Authorization", &bearer)),
        (
            "a good one and a wrong one",
            plain.clone().header("Authorization", &bearer).header("Authorization", "Bearer x"),
        ),
        (
            "two kinds",
            plain.clone().header("Authorization", "Basic YTpi").header("Authorization", &bearer),
        ),
        ("another kind", plain.clone().header("Authorization", &format!("Basic {good}"))),
        ("no kind", plain.clone().header("Authorization", &good)),
        ("in the address", plain.clone().with_query(&format!("access_token={good}"))),
        ("in the message", mcp_client::ask(&with_member)),
        ("in a form", form),
        ("in a cookie", plain.clone().header("Cookie", &format!("access_token={good}"))),
        ("in another header", plain.clone().header("X-Access-Token", &good)),
    ] {
        let answer = wire::ask(gate.service.hosted(), &ask);
        assert_eq!(answer.status, 401, "{what}: {}", answer.text());
        assert_eq!(answer.header("WWW-Authenticate"), Some(&*missing), "{what}");
    }
    // Beside a valid header, a token in the query is ignored.
    let ask = plain.header("Authorization", &bearer).with_query("access_token=x");
    assert_eq!(wire::ask(gate.service.hosted(), &ask).status, 200);
    let list = format!("Bearer {good}, Bearer {good}");
    gate.refuses(&[("two in one", list.trim_start_matches("Bearer ").to_owned())]);
}

#[test]
fn no_token_opens_the_http_api_good_or_forged() {
    let forge = Forge::new();
    let body = json!({"query": "anything?"});
    let good = forge.minted(|_| {});
    let expired =
        forge.minted(|it| (it.issued_at, it.expires_at) = (it.issued_at - 9, it.issued_at));
    let unsigned = format!("{}.{}.", encoded(br#"{"alg":"none"}"#), part(&good, 1));
    let gate = forge.serve();
    let operations =
        [Ask::get("/stats"), Ask::post("/recall", &body), Ask::post("/semantic-recall", &body)];
    for (at, operation) in
        [(gate.service.hosted(), 0), (gate.service.local(), 1), (gate.service.hosted(), 2)]
    {
        for token in [&good, &expired, &unsigned] {
            let answer = api(&gate.service, at, token, operations[operation].clone());
            let said = (answer.status, answer.json(), answer.header("WWW-Authenticate"));
            let wanted = json!({"detail": "Not authenticated"});
            assert_eq!(said, (401, wanted, Some("Bearer error=\"invalid_token\"")), "{at}");
        }
    }
    // The local listener requires no token at /mcp, so it checks none.
    let message = mcp(&unsigned, "tools/list", &json!({}));
    assert_eq!(wire::ask(gate.service.local(), &message).status, 200);
}
