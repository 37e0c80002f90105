//! `recalld connect`: what a client has to be told to find this service, and whether it would be answered.

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::remote::announced;
use super::tell::{tell, tell_line};
use super::{Common, Failure};

/// Where a service listens unless it is told otherwise.
const LOCAL_DEFAULT: &str = "http://127.0.0.1:8788";
/// The longest that one request of a test may take.
const TEST_TIME_MAX: Duration = Duration::from_secs(10);
/// The revision that the test speaks.
const REVISION: &str = "2025-06-18";
/// An answer that is longer is none of ours.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

#[derive(Debug, Args)]
pub(super) struct ConnectArgs {
    #[command(flatten)]
    common: Common,
    /// The client.
    client: Client,
    /// The MCP address, such as https://recall.example/mcp [default: that of the server that runs on
    /// these data, else http://127.0.0.1:8788/mcp].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The name under which the client will have it.
    #[arg(long, default_value = "recalld", value_parser = name)]
    name: String,
    /// Three tools alone (ask, read a document, remember): 4 KB of the 65 that a model has to read.
    #[arg(long)]
    core: bool,
    /// Ask there, as the client will, before anything is printed.
    #[arg(long)]
    test: bool,
}

/// A client of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
    Chatgpt,
}

/// What to do in a client: where, and what to put there.
struct Recipe {
    /// What to do with it.
    steps: Vec<String>,
    /// What to run or to write.
    what: String,
}

fn name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let fits = (1..=32).contains(&text.len()) && text.chars().all(is_plain);
    if fits {
        Ok(text.to_owned())
    } else {
        Err("1 to 32 letters, digits, - and _ are allowed".to_owned())
    }
}

pub(super) fn run(args: &ConnectArgs) -> Result<(), Failure> {
    let url = address(args)?;
    let is_public = url.starts_with("https://");
    if args.client == Client::Chatgpt && !is_public {
        return Err(Failure::Usage(format!(
            "ChatGPT asks from its own servers, which cannot reach {url}; serve with --hosted and TLS \
             (docs/hosting.md) and give its address: --url https://recall.example/mcp"
        )));
    }
    let found = if args.test { Some(test(&url)?) } else { None };
    let recipe = recipe(args.client, &args.name, &url);
    if args.common.json {
        let steps = recipe.steps;
        return tell_line(
            &json!({"url": url, "steps": steps, "config": recipe.what, "test": found}),
        );
    }
    let mut out = String::new();
    for step in &recipe.steps {
        out.push_str(&format!("# {step}\n"));
    }
    out.push_str(&format!("{}\n", recipe.what));
    if let Some(found) = found {
        out.push_str(&format!("# {found}\n"));
    }
    tell(&out)
}

/// Where the client is to ask.
fn address(args: &ConnectArgs) -> Result<String, Failure> {
    let mut url = match &args.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => format!(
            "{}/mcp",
            announced(&args.common.data()?).unwrap_or_else(|| LOCAL_DEFAULT.to_owned())
        ),
    };
    let parsed = url.parse::<ureq::http::Uri>().ok();
    let host = parsed.as_ref().and_then(ureq::http::Uri::host).unwrap_or_default().to_owned();
    let is_local = host == "localhost" || host == "[::1]" || host.starts_with("127.");
    let scheme = parsed.as_ref().and_then(ureq::http::Uri::scheme_str);
    if host.is_empty() || !(scheme == Some("https") || scheme == Some("http") && is_local) {
        return Err(Failure::Usage(format!(
            "--url {url}: https://HOST/mcp is wanted, or http:// on this machine"
        )));
    }
    if parsed.as_ref().is_some_and(|parsed| parsed.path().is_empty() || parsed.path() == "/") {
        url.push_str("/mcp");
    }
    if args.core {
        url.push_str("?profile=core");
    }
    Ok(url)
}

fn recipe(client: Client, name: &str, url: &str) -> Recipe {
    let is_public = url.starts_with("https://");
    let mut steps = Vec::new();
    let mut add = |step: &str| steps.push(step.to_owned());
    let pretty = |value: Value| format!("{value:#}");
    let what = match client {
        Client::ClaudeCode => {
            add("In a shell; --scope user has it in every project:");
            format!("claude mcp add --scope user --transport http {name} '{url}'")
        }
        Client::ClaudeDesktop if is_public => {
            add("In Claude: Settings, Connectors, Add custom connector. Name, then URL:");
            format!("{name}\n{url}")
        }
        Client::ClaudeDesktop => {
            add(
                "Claude Desktop starts programs and asks no address of this machine itself; mcp-remote, which needs",
            );
            add(
                "Node, stands between. Merge this into claude_desktop_config.json (Settings, Developer, Edit Config),",
            );
            add("and start Claude again:");
            let through = json!({"command": "npx", "args": ["-y", "mcp-remote", url]});
            pretty(json!({"mcpServers": {name: through}}))
        }
        Client::Cursor => {
            add("Merge this into ~/.cursor/mcp.json, or into .cursor/mcp.json of a project:");
            pretty(json!({"mcpServers": {name: {"url": url}}}))
        }
        Client::Vscode => {
            add(
                "Merge this into .vscode/mcp.json of a project, or open the user's by `MCP: Open User Configuration`:",
            );
            pretty(json!({"servers": {name: {"type": "http", "url": url}}}))
        }
        Client::Codex => {
            add(&format!(
                "Append this to ~/.codex/config.toml, once; or run: codex mcp add {name} --url '{url}'"
            ));
            format!("[mcp_servers.{name}]\nurl = \"{url}\"")
        }
        Client::Chatgpt => {
            add(
                "In ChatGPT: Settings, Apps and connectors, Advanced, Developer mode on; then Create. Name, then MCP",
            );
            add("server URL; authentication OAuth:");
            format!("{name}\n{url}")
        }
    };
    if is_public && matches!(client, Client::ClaudeCode | Client::Codex) {
        let program = if client == Client::Codex {
            format!("codex mcp login {name}")
        } else {
            "/mcp in a session".to_owned()
        };
        add(&format!("To sign in afterwards: {program}"));
    }
    Recipe { steps, what }
}

/// Asks as a client does. A service that wants people to sign in says so, which is all that can be seen from here.
fn test(url: &str) -> Result<String, Failure> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(TEST_TIME_MAX))
        .http_status_as_error(false)
        .build()
        .into();
    let unreachable = |why: String| {
        Failure::Could(format!(
            "{url}: {why}; is the service running (recalld serve), and is the address right?"
        ))
    };
    let begin = json!({
        "protocolVersion": REVISION, "capabilities": {},
        "clientInfo": {"name": "recalld-connect", "version": env!("CARGO_PKG_VERSION")},
    });
    let ask = |session: Option<&str>, body: &Value| {
        let mut request = agent
            .post(url)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request =
                request.header("Mcp-Session-Id", session).header("MCP-Protocol-Version", REVISION);
        }
        request.send(body.to_string()).map_err(|error| unreachable(error.to_string()))
    };
    let mut answer =
        ask(None, &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin}))?;
    if answer.status().as_u16() == 401 {
        let challenge =
            answer.headers().get("WWW-Authenticate").and_then(|value| value.to_str().ok());
        let has_metadata =
            challenge.is_some_and(|challenge| challenge.contains("resource_metadata"));
        return if has_metadata {
            Ok("It is there, and will ask you to sign in.".to_owned())
        } else {
            Err(unreachable("it wants credentials and does not say where to get them".to_owned()))
        };
    }
    let session = answer.headers().get("Mcp-Session-Id").and_then(|value| value.to_str().ok());
    let session = session.map(str::to_owned);
    let said = message(&mut answer).map_err(&unreachable)?;
    let server = said["result"]["serverInfo"]["name"].as_str();
    let Some(server) = server else {
        return Err(unreachable("what answers there does not speak MCP".to_owned()));
    };
    let mut listed =
        ask(session.as_deref(), &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))?;
    let listed = message(&mut listed).map_err(&unreachable)?;
    let tools = listed["result"]["tools"].as_array().map_or(0, Vec::len);
    let more = if listed["result"]["nextCursor"].is_string() { " and more" } else { "" };
    Ok(format!("{server} answers, with {tools} tools{more}."))
}

/// The JSON-RPC message of an answer, be it JSON or an event stream.
fn message(answer: &mut ureq::http::Response<ureq::Body>) -> Result<Value, String> {
    let status = answer.status().as_u16();
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    let body = body.map_err(|error| error.to_string())?;
    if status != 200 {
        return Err(format!("it answered {status}"));
    }
    let whole = serde_json::from_str(&body).ok();
    let event = || {
        body.lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .find_map(|data| serde_json::from_str(data.trim()).ok())
    };
    whole.or_else(event).ok_or_else(|| "its answer is no JSON".to_owned())
}
