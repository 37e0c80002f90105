//! `recalld connect`: the client configuration for this service, and a test of the service as that client.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::common::Common;
use super::failure::Failure;
use super::remote::announced;
use super::tell::{tell, tell_line};
use super::tried::Tried;

/// The default local listener.
const LOCAL_DEFAULT: &str = "http://127.0.0.1:8788";
/// The launcher in Claude Desktop's configuration for a local service.
const LAUNCHER: &str = "npx";

#[derive(Debug, Args)]
pub(super) struct ConnectArgs {
    #[command(flatten)]
    common: Common,
    /// The client to configure.
    client: Client,
    /// The MCP URL, such as https://recall.example/mcp [default: that of the server that runs on this data directory,
    /// else http://127.0.0.1:8788/mcp].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The service's name in the client.
    #[arg(long, default_value = "recalld", value_parser = name)]
    name: String,
    /// Offer only three tools (ask, read a document, remember): the model reads 4 KB instead of 65.
    #[arg(long)]
    core: bool,
    /// Test the service first, as the client: begin a session, list the tools, recall something.
    #[arg(long)]
    test: bool,
    /// Test with the bearer in this environment variable, as a client with a configured bearer. Without a bearer, a
    /// service with sign-in is tested only up to the sign-in.
    #[arg(long, value_name = "NAME", requires = "test")]
    bearer_env: Option<String>,
}

/// An MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
    Chatgpt,
}

/// Setup instructions for a client.
struct Recipe {
    /// Steps for the user.
    steps: Vec<String>,
    /// The command to run, or the configuration to write.
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
    let found = if args.test { Some(tested(args, &url)?) } else { None };
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

/// Probes the service as the client would. The result names what the probe cannot cover.
fn tested(args: &ConnectArgs, url: &str) -> Result<String, Failure> {
    let bearer = args.bearer_env.as_deref().map(bearer).transpose()?;
    let announced = announced(&args.common.data()?);
    let tried = Tried::new(url, bearer.as_deref(), announced.as_deref());
    let mut found = tried.run().map_err(Failure::Could)?;
    match args.client {
        Client::Chatgpt => {
            found.push_str(" ChatGPT asks from its own servers, which this did not.")
        }
        Client::ClaudeDesktop if !url.starts_with("https://") && !is_program(LAUNCHER) => {
            found.push_str(
                " But npx is not found on this PATH: Claude Desktop needs Node (https://nodejs.org) to ask.",
            );
        }
        _ => {}
    }
    Ok(found)
}

fn bearer(name: &str) -> Result<String, Failure> {
    let value = std::env::var(name).unwrap_or_default().trim().to_owned();
    let fits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        return Ok(value);
    }
    Err(Failure::Usage(format!(
        "--bearer-env {name}: that variable holds no bearer; set it, and give its name, not the bearer"
    )))
}

/// Returns true if a program of this name is on `PATH`.
fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// The MCP URL for the client.
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
    let bare = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    let is_local = host == "localhost" || bare.is_ok_and(|address| address.is_loopback());
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
        url.push_str(if parsed.is_some_and(|parsed| parsed.query().is_some()) { "&" } else { "?" });
        url.push_str("profile=core");
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
            let through = json!({"command": LAUNCHER, "args": ["-y", "mcp-remote", url]});
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
