//! A multi-tenant data directory, its server, and client calls to the hosted listener.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::os::clock::{SystemClock, SystemRandom};
use recalld_auth::Prefix;
use recalld_metastore::{Control, Kind, NewCredential, NewTenant};
use serde_json::{Value, json};
use tempfile::TempDir;

use support_wire::mcp_client;
use support_wire::service::{Service, run, scratch};
use support_wire::tiny_model::Tiny;
use support_wire::wire::{self, Answer, Ask};

/// Scopes of ordinary keys.
pub const SCOPES: [&str; 3] = ["tenant:read", "brain:proxy", "memory:write"];

/// The plan `open` of fast test servers, which has no rate limit.
const SETTINGS: &str = "[plans.open]\nfamilies = [\"recall\", \"docstore\", \"items\", \"status\", \"ingest\"]\n\
    scopes = [\"tenant:read\", \"brain:proxy\", \"memory:write\", \"ingest:write\"]\n\
    rate_per_second = \"none\"\n";

/// A data directory with tenants, before a server opens it.
pub struct House {
    /// Temporary directory of all files.
    pub scratch: TempDir,
    /// The metastore, which the server opens once started.
    pub control: Control,
    /// Arguments of every server on this directory.
    own: Vec<String>,
}

impl House {
    /// Makes a directory without tenants.
    ///
    /// # Panics
    /// A system call fails.
    pub fn new() -> Self {
        let scratch = scratch();
        let data = scratch.path().join("data");
        make_private(&data);
        let (clock, random) = (Arc::new(SystemClock), Arc::new(SystemRandom));
        let control = Control::open(&data.join("control.redb"), clock, random);
        let control = control.expect("a control store is made");
        Self { scratch, control, own: ["--hosted", "127.0.0.1:0"].map(str::to_owned).to_vec() }
    }

    /// Makes a directory without tenants, with a fast model.
    ///
    /// # Panics
    /// As [`House::new`].
    pub fn quick() -> Self {
        let mut house = Self::new();
        let model = Tiny::new(1, 16).write(house.scratch.path(), "model");
        let config = house.beside("quick.toml");
        fs::write(&config, SETTINGS).expect("settings are written");
        for (name, path) in [("--model", model), ("--config", config)] {
            let path = path.to_str().expect("scratch folders have plain names").to_owned();
            house.own.extend([name.to_owned(), path]);
        }
        house
    }

    /// Path of a file beside the data directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Path of the data directory.
    pub fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Creates a workspace, and returns a bearer token for it.
    ///
    /// # Panics
    /// The workspace cannot be created.
    pub fn tenant(&self, slug: &str, plan: &str) -> String {
        let new = NewTenant { slug, title: slug, plan };
        self.control.create_tenant(&new).expect("a workspace is made");
        make_private(&self.data().join("tenants").join(slug).join("store"));
        self.bearer(slug, Kind::Bearer, &SCOPES)
    }

    /// Issues a credential of a person, `ada`.
    ///
    /// # Panics
    /// The credential is not issued.
    pub fn bearer(&self, slug: &str, kind: Kind, scopes: &[&str]) -> String {
        self.issue(slug, kind, Some("ada"), scopes)
    }

    /// Issues a credential.
    ///
    /// # Panics
    /// The credential is not issued.
    pub fn issue(&self, slug: &str, kind: Kind, name: Option<&str>, scopes: &[&str]) -> String {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let new = NewCredential { kind, name, scopes: &scopes, expires_at: None };
        let issued = self.control.issue_credential(slug, &new, &Prefix::default());
        let issued = issued.expect("a credential is issued");
        issued.secret.expose().to_owned()
    }

    /// Starts the server, which opens the metastore from then on.
    ///
    /// # Panics
    /// As [`Service::start`].
    pub fn serve(self, arguments: &[&str]) -> (Service, TempDir) {
        let Served { service, scratch, .. } = self.run(arguments);
        (service, scratch)
    }

    /// Starts a server that can be restarted later.
    ///
    /// # Panics
    /// As [`Service::start`].
    pub fn run(self, arguments: &[&str]) -> Served {
        self.run_by(Service::start, arguments)
    }

    /// Starts a restartable server by [`Service::start_on_a_small_disk`].
    ///
    /// # Panics
    /// As [`Service::start`].
    pub fn serve_on_a_small_disk(self, arguments: &[&str]) -> Served {
        self.run_by(Service::start_on_a_small_disk, arguments)
    }

    fn run_by(self, by: impl FnOnce(&Path, &[&str]) -> Service, arguments: &[&str]) -> Served {
        let data = self.data();
        drop(self.control);
        let service = started(by, &data, &self.own, arguments);
        Served { service, scratch: self.scratch, own: self.own }
    }

    /// Starts the server with settings.
    ///
    /// # Panics
    /// The settings cannot be written.
    pub fn serve_with(self, settings: &str) -> (Service, TempDir) {
        let file = self.scratch.path().join("settings.toml");
        fs::write(&file, settings).expect("settings are written");
        let file = file.to_str().expect("scratch folders have plain names").to_owned();
        self.serve(&["--config", &file])
    }
}

/// The running server of a [`House`].
pub struct Served {
    /// The server process.
    pub service: Service,
    scratch: TempDir,
    own: Vec<String>,
}

impl Served {
    /// Ends the server by `end`, and starts another one on the same data.
    ///
    /// # Panics
    /// As [`Service::start`].
    #[must_use]
    pub fn again(self, end: impl FnOnce(Service)) -> Self {
        let data = self.service.data().to_owned();
        self.moved_to(&data, |service, _| end(service))
    }

    /// Ends the server by `end`, which moves the data, and starts another one on the new place.
    ///
    /// # Panics
    /// As [`Service::start`].
    #[must_use]
    pub fn moved_to(self, data: &Path, end: impl FnOnce(Service, &Path)) -> Self {
        end(self.service, data);
        let service = started(Service::start, data, &self.own, &[]);
        Self { service, ..self }
    }

    /// Path of a file beside the data directory.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Returns the server, and the folder of all files.
    pub fn into_parts(self) -> (Service, TempDir) {
        (self.service, self.scratch)
    }

    /// Sends one MCP request of a tenant, without a session.
    pub fn mcp(&self, bearer: &str, method: &str, params: &Value) -> Answer {
        wire::ask(self.service.hosted(), &mcp(bearer, method, params))
    }

    /// Calls a tool.
    pub fn call(&self, bearer: &str, tool: &str, arguments: &Value) -> Answer {
        call(&self.service, bearer, tool, arguments)
    }

    /// Calls a tool and returns its structured result.
    ///
    /// # Panics
    /// The tool returns an error.
    pub fn given(&self, bearer: &str, tool: &str, arguments: &Value) -> Value {
        given(&self.service, bearer, tool, arguments)
    }

    /// Sends a request with the gateway's credentials and this bearer token to one of the listeners.
    pub fn api(&self, at: &str, bearer: &str, ask: Ask) -> Answer {
        api(&self.service, at, bearer, ask)
    }
}

/// Starts a server on a data directory.
fn started(
    by: impl FnOnce(&Path, &[&str]) -> Service,
    data: &Path,
    own: &[String],
    arguments: &[&str],
) -> Service {
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    by(data, &[&own, arguments].concat())
}

/// Ledger entries of a tool in a workspace, oldest first.
///
/// # Panics
/// The entries are unreadable.
pub fn entries(data: &Path, workspace: &str, tool: &str) -> Vec<Value> {
    let arguments =
        ["ledger", "show", "--workspace", workspace, "--json", "--last", "1000", "--tool", tool];
    let shown = String::from_utf8(run(data, &arguments).stdout).expect("JSON is text");
    shown.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// Creates a folder, and its missing parents, for the owner only.
///
/// # Panics
/// A system call fails.
pub fn make_private(folder: &Path) {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.expect("folders are made");
}

/// Makes a request to `/mcp`.
pub fn mcp(bearer: &str, method: &str, params: &Value) -> Ask {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    mcp_client::ask(&message).header("Authorization", &format!("Bearer {bearer}"))
}

/// Calls a tool on the hosted listener.
pub fn call(service: &Service, bearer: &str, tool: &str, arguments: &Value) -> Answer {
    let params = json!({"name": tool, "arguments": arguments});
    wire::ask(service.hosted(), &mcp(bearer, "tools/call", &params))
}

/// Calls a tool and returns its structured result.
///
/// # Panics
/// The tool returns an error.
pub fn given(service: &Service, bearer: &str, tool: &str, arguments: &Value) -> Value {
    let answer = call(service, bearer, tool, arguments);
    let mut body = answer.json();
    assert_eq!((answer.status, &body["result"]["isError"]), (200, &json!(false)), "{tool}: {body}");
    body["result"]["structuredContent"].take()
}

/// Names of the tools that a caller sees.
///
/// # Panics
/// There is no list of tools.
pub fn tools(service: &Service, bearer: &str) -> Vec<String> {
    let listed = wire::ask(service.hosted(), &mcp(bearer, "tools/list", &json!({}))).json();
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}")).clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Sends an HTTP API request with the gateway's credentials and this bearer token.
pub fn api(service: &Service, at: &str, bearer: &str, ask: Ask) -> Answer {
    wire::ask(at, &signed(service, bearer, ask))
}

/// Adds the gateway's credentials and a bearer token.
pub fn signed(service: &Service, bearer: &str, ask: Ask) -> Ask {
    let known = service.credentials();
    ask.header("x-gateway-client-id", &known.gateway_id)
        .header("x-gateway-client-secret", &known.gateway_secret)
        .header("Authorization", &format!("Bearer {bearer}"))
}

impl Default for House {
    fn default() -> Self {
        Self::new()
    }
}
