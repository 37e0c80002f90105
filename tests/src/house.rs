//! A data directory with tenants, made before a server has it, and what their clients ask of that server.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::os::clock::{SystemClock, SystemRandom};
use serde_json::{Value, json};
use server::auth::Prefix;
use server::control::{Control, Kind, NewCredential, NewTenant};
use tempfile::TempDir;

use crate::mcp_client;
use crate::service::{Service, scratch};
use crate::tiny_model::Tiny;
use crate::wire::{self, Answer, Ask};

/// What everyday credentials may do.
pub const SCOPES: [&str; 3] = ["tenant:read", "brain:proxy", "memory:write"];

const MODEL: &str = "model";
const CONFIG: &str = "settings.toml";
/// The plan `open`: everything but a bound for how often.
const SETTINGS: &str = "[plans.open]\nfamilies = [\"recall\", \"docstore\", \"items\", \"status\", \"ingest\"]\n\
    scopes = [\"tenant:read\", \"brain:proxy\", \"memory:write\", \"ingest:write\"]\n\
    rate_per_second = \"none\"\n";

/// A data directory with tenants, before a server has it; with a model that is quick.
pub struct House {
    /// Its control store.
    pub control: Control,
    scratch: TempDir,
}

impl House {
    /// One without tenants.
    ///
    /// # Panics
    /// When the system makes no folders.
    pub fn new() -> Self {
        let scratch = scratch();
        let data = scratch.path().join("data");
        make_private(&data);
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let control = Control::open(&data.join("control.redb"), clock, random);
        Tiny::new(1, 16).write(scratch.path(), MODEL);
        fs::write(scratch.path().join(CONFIG), SETTINGS).expect("settings are written");
        Self { control: control.expect("a control store is made"), scratch }
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// A file beside the data directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Makes a workspace, and gives a bearer of it.
    ///
    /// # Panics
    /// When there is one of that name.
    pub fn tenant(&self, slug: &str, plan: &str) -> String {
        let made = self.control.create_tenant(&NewTenant { slug, title: slug, plan });
        made.expect("a workspace of that name is new");
        make_private(&self.data().join("tenants").join(slug).join("store"));
        self.bearer(slug, Kind::Bearer, &SCOPES)
    }

    /// A credential of a workspace, with these scopes.
    ///
    /// # Panics
    /// When there is no such workspace.
    pub fn bearer(&self, slug: &str, kind: Kind, scopes: &[&str]) -> String {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let new = NewCredential { kind, name: Some("ada"), scopes: &scopes, expires_at: None };
        let issued = self.control.issue_credential(slug, &new, &Prefix::default());
        issued.expect("the workspace is there").secret.expose().to_owned()
    }

    /// Starts the server, which has the control store from then on.
    ///
    /// # Panics
    /// As [`Service::start`].
    pub fn serve(self, arguments: &[&str]) -> Served {
        self.serve_by(Service::start, arguments)
    }

    /// The same, by [`Service::start_on_a_small_disk`].
    ///
    /// # Panics
    /// As [`Service::start`].
    pub fn serve_on_a_small_disk(self, arguments: &[&str]) -> Served {
        self.serve_by(Service::start_on_a_small_disk, arguments)
    }

    fn serve_by(self, start: impl FnOnce(&Path, &[&str]) -> Service, arguments: &[&str]) -> Served {
        let data = self.data();
        drop(self.control);
        let service = started(start, &data, self.scratch.path(), arguments);
        Served { service, scratch: self.scratch }
    }
}

impl Default for House {
    fn default() -> Self {
        Self::new()
    }
}

/// The server of a house.
pub struct Served {
    /// It.
    pub service: Service,
    scratch: TempDir,
}

impl Served {
    /// Ends it as `end` does, and starts another one on the same data.
    ///
    /// # Panics
    /// As [`Service::start`].
    #[must_use]
    pub fn again(self, end: impl FnOnce(Service)) -> Self {
        let data = self.service.data().to_owned();
        self.moved_to(&data, |service, _| end(service))
    }

    /// The same, on the data that `end` leaves in another place.
    ///
    /// # Panics
    /// As [`Service::start`].
    #[must_use]
    pub fn moved_to(self, data: &Path, end: impl FnOnce(Service, &Path)) -> Self {
        end(self.service, data);
        let service = started(Service::start, data, self.scratch.path(), &[]);
        Self { service, ..self }
    }

    /// A file beside the data directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// One MCP request of a tenant, without a session.
    pub fn mcp(&self, bearer: &str, method: &str, params: &Value) -> Answer {
        wire::ask(self.service.hosted(), &mcp(bearer, method, params))
    }

    /// The call of a tool.
    pub fn call(&self, bearer: &str, tool: &str, arguments: &Value) -> Answer {
        self.mcp(bearer, "tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// What a tool gives.
    ///
    /// # Panics
    /// When it gives an error.
    pub fn given(&self, bearer: &str, tool: &str, arguments: &Value) -> Value {
        let answer = self.call(bearer, tool, arguments);
        let mut body = answer.json();
        let said = (answer.status, &body["result"]["isError"]);
        assert_eq!(said, (200, &json!(false)), "{tool}: {body}");
        body["result"]["structuredContent"].take()
    }

    /// A request with the gateway's token and this bearer, at one of the listeners.
    pub fn api(&self, at: &str, bearer: &str, ask: Ask) -> Answer {
        wire::ask(at, &signed(&self.service, bearer, ask))
    }
}

/// A server with a hosted listener on a data directory, and the model and settings that are in `scratch`.
fn started(
    start: impl FnOnce(&Path, &[&str]) -> Service,
    data: &Path,
    scratch: &Path,
    arguments: &[&str],
) -> Service {
    let [model, config] = [MODEL, CONFIG].map(|name| scratch.join(name));
    let plain = |path: &Path| path.to_str().expect("scratch folders have plain names").to_owned();
    let (model, config) = (plain(&model), plain(&config));
    let own = ["--hosted", "127.0.0.1:0", "--model", &model, "--config", &config];
    start(data, &[&own, arguments].concat())
}

/// One MCP request with a bearer.
pub fn mcp(bearer: &str, method: &str, params: &Value) -> Ask {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    mcp_client::ask(&message).header("Authorization", &format!("Bearer {bearer}"))
}

/// Adds the gateway's token and a bearer.
pub fn signed(service: &Service, bearer: &str, ask: Ask) -> Ask {
    let known = service.credentials();
    ask.header("x-gateway-client-id", &known.gateway_id)
        .header("x-gateway-client-secret", &known.gateway_secret)
        .header("Authorization", &format!("Bearer {bearer}"))
}

/// A folder that only its owner can get at.
fn make_private(folder: &Path) {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.expect("folders are made");
}
