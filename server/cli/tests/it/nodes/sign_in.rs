//! Sign-in at a node that does not lead the metastore: the request is forwarded, and a code is valid once across all
//! nodes.

use std::thread;

use serde_json::{Value, json};
use support_server::house::mcp;
use support_wire::service::{Service, run_json};
use support_wire::wire::{self, Answer, Ask};

use crate::nodes::cluster::Cluster;
use crate::nodes::tenants::tenant;

/// RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const REDIRECT: &str = "https://notebook.example/callback";
const FORM: &str = "application/x-www-form-urlencoded";

fn encoded(fields: &[(&str, &str)]) -> String {
    let word = |text: &str| -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let one = |byte: u8| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        text.bytes().map(one).collect()
    };
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", word(name), word(value)));
    pairs.collect::<Vec<_>>().join("&")
}

fn post(node: &Service, path: &str, fields: &[(&str, &str)]) -> Answer {
    let ask = Ask::new("POST", path).header("Content-Type", FORM);
    wire::ask(node.hosted(), &ask.body(encoded(fields).into_bytes()))
}

/// Registers a client at this node and returns its id.
fn client(node: &Service) -> String {
    let said = json!({
        "client_name": "Notebook", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none",
    });
    let answer = wire::ask(node.hosted(), &Ask::post("/register", &said));
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["client_id"].as_str().unwrap().to_owned()
}

/// The value of a page's input.
fn input(page: &str, name: &str) -> String {
    let at = page.split("<input").find(|tag| tag.contains(&format!(" name=\"{name}\"")));
    let tag = at.unwrap_or_else(|| panic!("no {name}: {page}")).split('>').next().unwrap();
    let (_, rest) = tag.split_once(" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// Signs in to the workspace and returns the code. The first node shows the page, the second receives the form.
fn code((shows, takes): (&Service, &Service), client: &str, workspace: &str, key: &str) -> String {
    let query = encoded(&[
        ("response_type", "code"),
        ("client_id", client),
        ("redirect_uri", REDIRECT),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
        ("state", "s"),
    ]);
    let page = wire::ask(shows.hosted(), &Ask::get(&format!("/authorize?{query}")));
    assert_eq!(page.status, 200, "{}", page.text());
    let cookie = page.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let (request, csrf) = (input(&page.text(), "request"), input(&page.text(), "csrf"));
    let fields = [
        ("request", &*request),
        ("csrf", &*csrf),
        ("workspace", workspace),
        ("key", key),
        ("decision", "allow"),
    ];
    let sent = |origin: &str| {
        let ask = Ask::new("POST", "/authorize")
            .header("Content-Type", FORM)
            .header("Cookie", &cookie)
            .header("Origin", origin)
            .header("Sec-Fetch-Site", "same-origin");
        wire::ask(takes.hosted(), &ask.body(encoded(&fields).into_bytes()))
    };
    let forged = sent("https://elsewhere.example");
    assert!(
        forged.header("location").is_none(),
        "another page's form is refused: {}",
        forged.text()
    );
    let answer = sent("null");
    let location = answer.header("location").unwrap_or_else(|| panic!("{}", answer.text()));
    let (_, rest) = location.split_once("code=").unwrap();
    rest.split('&').next().unwrap().to_owned()
}

fn redeem(node: &Service, client: &str, code: &str) -> Answer {
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", REDIRECT),
        ("code_verifier", VERIFIER),
        ("client_id", client),
    ];
    post(node, "/token", &fields)
}

/// Issues a one-time key of the workspace.
fn once(node: &Service, workspace: &str) -> String {
    let issue = ["key", "issue", workspace, "--kind", "once", "--name", "ada"];
    run_json(node.data(), &issue)["secret"].as_str().unwrap().to_owned()
}

/// Signs in at that node and returns an access token for the workspace.
pub(crate) fn token(node: &Service, workspace: &str) -> String {
    let client = client(node);
    let code = code((node, node), &client, workspace, &once(node, workspace));
    let answer = redeem(node, &client, &code);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["access_token"].as_str().unwrap().to_owned()
}

fn opens(node: &Service, token: &str) -> u16 {
    wire::ask(node.hosted(), &mcp(token, "tools/list", &json!({}))).status
}

#[test]
fn a_code_is_redeemed_once_though_two_nodes_are_asked_and_its_tokens_are_good_on_all() {
    let cluster = Cluster::new(true);
    let (a, b) = (cluster.public("a", "--remote"), cluster.public("b", "--remote"));
    let c = cluster.public("c", "--replica-of");
    tenant(a.data(), "acme");
    let client = client(&b);
    let code = code((&b, &a), &client, "acme", &once(&a, "acme"));
    let answers: Vec<Answer> = thread::scope(|scope| {
        let asked = [&a, &b].map(|node| scope.spawn(|| redeem(node, &client, &code)));
        asked.map(|asked| asked.join().unwrap()).into()
    });
    let given: Vec<Value> =
        answers.iter().filter(|answer| answer.status == 200).map(Answer::json).collect();
    assert_eq!(given.len(), 1, "{:?}", answers.iter().map(Answer::text).collect::<Vec<_>>());
    let word = |name: &str| given[0][name].as_str().unwrap().to_owned();
    let (access, refresh) = (word("access_token"), word("refresh_token"));
    // A code redeemed twice may be stolen, so the tokens issued for it are revoked (RFC 6749, section 4.1.2).
    for node in [&a, &b] {
        assert_eq!(opens(node, &access), 401);
    }
    let fields =
        [("grant_type", "refresh_token"), ("refresh_token", &*refresh), ("client_id", &*client)];
    assert_eq!(post(&b, "/token", &fields).status, 400);
    // The token of a regular redemption is valid on every node at once.
    let code = self::code((&a, &b), &client, "acme", &once(&a, "acme"));
    let answer = redeem(&b, &client, &code);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let access = answer.json()["access_token"].as_str().unwrap().to_owned();
    for (name, node) in [("a", &a), ("b", &b), ("c", &c)] {
        assert_eq!(opens(node, &access), 200, "{name}");
    }
    // A replica does not forward the request, and names the leader.
    let refused = redeem(&c, &client, &code);
    assert_eq!(
        (refused.status, &refused.json()["writer"]),
        (421, &json!(format!("http://{}", a.hosted())))
    );
}
