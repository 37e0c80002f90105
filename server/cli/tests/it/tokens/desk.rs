//! A server with a workspace, clients and codes, and the requests of a client.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use recalld_auth::Prefix;
use recalld_metastore::{CodeRequest, Kind, NewClient};
use serde_json::{Value, json};
use support_server::house::{House, SCOPES, entries, mcp};
use support_wire::service::Service;
use support_wire::wire::{self, Answer, Ask};
use tempfile::TempDir;

/// The example of RFC 7636, appendix B.
pub(super) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub(super) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
pub(super) const REDIRECT: &str = "https://notebook.example/callback";
pub(super) const ISSUER: &str = "https://recall.example";
pub(super) const RESOURCE: &str = "https://recall.example/mcp";

/// The data directory before the server opens it.
pub(super) struct Room {
    pub(super) house: House,
}

/// A registered client.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) id: String,
    pub(super) secret: Option<String>,
}

impl Room {
    /// Creates the workspace `acme`.
    pub(super) fn new() -> Self {
        // Codes expire after a minute, so the program is built first.
        support_wire::service::binary();
        let house = House::new();
        house.tenant("acme", "team");
        Self { house }
    }

    pub(super) fn client(&self, auth_method: &str) -> Client {
        let redirect_uris = [REDIRECT.to_owned()];
        let new = NewClient { name: "Notebook", redirect_uris: &redirect_uris, auth_method };
        let (client, secret) =
            self.house.control.register_client(&new, &Prefix::default()).unwrap();
        Client { id: client.id, secret: secret.map(|secret| secret.expose().to_owned()) }
    }

    /// A code for a client, by a new one-time key.
    pub(super) fn code(&self, client: &Client) -> String {
        self.code_of("acme", client)
    }

    pub(super) fn code_of(&self, tenant: &str, client: &Client) -> String {
        self.code_by(tenant, &self.house.issue(tenant, Kind::Once, Some("ada"), &SCOPES), client)
    }

    /// A code for a client, by this key.
    pub(super) fn code_by(&self, tenant: &str, key: &str, client: &Client) -> String {
        let request = CodeRequest {
            tenant,
            key: key.as_bytes(),
            client: &client.id,
            redirect_uri: REDIRECT,
            challenge: CHALLENGE,
            scopes: &SCOPES.map(str::to_owned),
            resource: RESOURCE,
        };
        let code = self.house.control.put_code(&request, &Prefix::default()).unwrap();
        code.expose().to_owned()
    }

    pub(super) fn serve(self) -> Desk {
        self.serve_with(&[])
    }

    pub(super) fn serve_with(self, arguments: &[&str]) -> Desk {
        let (service, scratch) = self.house.serve(&[&["--public-url", ISSUER], arguments].concat());
        Desk { service, _scratch: scratch }
    }

    /// Serves on a disk that a test can fill.
    pub(super) fn serve_on_a_small_disk(self) -> Desk {
        let served = self.house.serve_on_a_small_disk(&["--public-url", ISSUER]);
        let (service, scratch) = served.into_parts();
        Desk { service, _scratch: scratch }
    }
}

pub(super) struct Desk {
    pub(super) service: Service,
    _scratch: TempDir,
}

impl Desk {
    /// Restarts the server on the same data.
    pub(super) fn again(self) -> Self {
        let data = self.service.data().to_owned();
        assert!(self.service.terminate().success());
        let arguments = ["--hosted", "127.0.0.1:0", "--public-url", ISSUER];
        Self { service: Service::start(&data, &arguments), _scratch: self._scratch }
    }

    pub(super) fn post(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Answer {
        let body = form(fields);
        let ask = Ask::new("POST", path)
            .header("Content-Type", "application/x-www-form-urlencoded")
            .headers(headers)
            .body(body.into_bytes());
        wire::ask(self.service.hosted(), &ask)
    }

    pub(super) fn token(&self, fields: &[(&str, &str)]) -> Answer {
        self.post("/token", fields, &[])
    }

    /// Redeems a code as its client does.
    pub(super) fn redeem(&self, client: &Client, code: &str) -> Answer {
        self.token(&redemption(client, code))
    }

    pub(super) fn refresh(&self, client: &Client, token: &str, more: &[(&str, &str)]) -> Answer {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        self.token(&[&fields, &*shown(client), more].concat())
    }

    /// The status of `/mcp` with a bearer.
    pub(super) fn opens(&self, bearer: &str) -> u16 {
        wire::ask(self.service.hosted(), &mcp(bearer, "tools/list", &json!({}))).status
    }

    /// Outcomes of an operation in the ledger of `acme`.
    pub(super) fn outcomes(&self, tool: &str) -> Vec<String> {
        let entries = entries(self.service.data(), "acme", tool);
        entries.iter().map(|entry| entry["outcome"].as_str().unwrap().to_owned()).collect()
    }
}

/// The client's credentials as form fields.
pub(super) fn shown(client: &Client) -> Vec<(&str, &str)> {
    let secret = client.secret.as_deref().map(|secret| ("client_secret", secret));
    [("client_id", &*client.id)].into_iter().chain(secret).collect()
}

pub(super) fn redemption<'a>(client: &'a Client, code: &'a str) -> Vec<(&'a str, &'a str)> {
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", REDIRECT),
        ("code_verifier", VERIFIER),
    ];
    [&fields, &*shown(client)].concat()
}

/// Replaces one field.
pub(super) fn with<'a>(
    fields: &[(&'a str, &'a str)],
    name: &'a str,
    value: &'a str,
) -> Vec<(&'a str, &'a str)> {
    let kept = fields.iter().copied().filter(|(other, _)| *other != name);
    kept.chain([(name, value)]).collect()
}

pub(super) fn basic(id: &str, secret: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")))
}

pub(super) fn form(fields: &[(&str, &str)]) -> String {
    let encoded =
        |text: &str| -> String {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            let bytes = text.bytes();
            bytes
                .map(|byte| {
                    if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
                })
                .collect()
        };
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Access and refresh token of a successful response.
pub(super) fn tokens(answer: &Answer) -> (String, String) {
    let body = given(answer);
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (text("access_token"), text("refresh_token"))
}

/// The body of a successful response, which must not be cacheable.
pub(super) fn given(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    untold(answer);
    answer.json()
}

/// Status and code of an error response.
pub(super) fn refusal(answer: &Answer) -> (u16, String) {
    untold(answer);
    let body = answer.json();
    assert!(body["error_description"].is_string(), "{body}");
    (answer.status, body["error"].as_str().unwrap_or_default().to_owned())
}

fn untold(answer: &Answer) {
    assert_eq!(answer.header("Cache-Control"), Some("no-store"), "{}", answer.text());
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
}

/// An error with status 400 and this code.
pub(super) fn bad(code: &str) -> (u16, String) {
    (400, code.to_owned())
}
