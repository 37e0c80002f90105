//! The Rust client (package `rmcp`) signs in: `login-rmcp WALK URL WORKSPACE ONCE KEY BEARER`, with WALK the path of
//! `../logins/walk.py`. Prints the result of each sign-in flow as one line of JSON (`../logins/README.md`).

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::auth::{
    AuthClient, AuthorizationManager, AuthorizationRequest, ClientCredentialsConfig, OAuthState,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::ServiceExt;
use serde_json::{Value, json};

type Failure = Box<dyn Error + Send + Sync>;
type Client = RunningService<RoleClient, ()>;

const CALLBACK: &str = "http://127.0.0.1:8978/callback";
/// Most time of the whole run: a server that hangs is a finding.
const ACCOUNT_TIME_MAX: Duration = Duration::from_secs(60);

struct Login {
    walk: String,
    url: String,
    workspace: String,
    once: String,
    key: String,
    bearer: String,
}

async fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, Failure> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
    let result: CallToolResult = client.call_tool(params).await?;
    Ok(serde_json::to_value(result)?)
}

/// Returns the service's view of a client.
async fn told(client: Client, word: &str) -> Result<Value, Failure> {
    let mut tools: Vec<String> =
        client.list_all_tools().await?.into_iter().map(|tool| tool.name.into_owned()).collect();
    tools.sort();
    let text = format!("The {word} sails at dawn.");
    let wrote = call(&client, "brain_remember", json!({"text": text})).await?;
    let query = format!("when does the {word} sail?");
    let found = call(&client, "retrieval_arbitrate_tool", json!({"query": query})).await?;
    client.cancel().await?;
    Ok(json!({
        "tools": tools, "wrote": wrote["isError"] != true, "found": found["content"][0]["text"],
    }))
}

async fn with_tokens(login: &Login, manager: AuthorizationManager) -> Result<Client, Failure> {
    let http = AuthClient::new(reqwest::Client::default(), manager);
    let config = StreamableHttpClientTransportConfig::with_uri(format!("{}/mcp", login.url));
    Ok(().serve(StreamableHttpClientTransport::with_client(http, config)).await?)
}

/// Signs in by the browser page with only the service's address, and again by the refresh token.
async fn by_browser(login: &Login) -> Result<(Value, Value), Failure> {
    let mut state = OAuthState::new(format!("{}/mcp", login.url), None).await?;
    let request = AuthorizationRequest::new(CALLBACK)
        .with_initial_scope_selection()
        .with_client_name("Rust");
    state.start_authorization(request).await?;
    let page = state.get_authorization_url().await?;
    let walked = Command::new("python3")
        .args([&login.walk, &page, &login.workspace, &login.once])
        .output()?;
    if !walked.status.success() {
        return Err(String::from_utf8_lossy(&walked.stderr).into_owned().into());
    }
    state.handle_callback_url(String::from_utf8(walked.stdout)?.trim()).await?;
    let manager = state.into_authorization_manager().ok_or("nobody has signed in")?;
    let first = manager.get_access_token().await?;
    manager.refresh_token().await?;
    let second = manager.get_access_token().await?;
    let browser = told(with_bearer(login, &first).await?, "junk").await?;
    let mut refreshed = told(with_tokens(login, manager).await?, "dhow").await?;
    refreshed["rotated"] = (first != second).into();
    Ok((browser, refreshed))
}

async fn by_workspace_key(login: &Login) -> Result<Value, Failure> {
    let mut state = OAuthState::new(format!("{}/mcp", login.url), None).await?;
    let config = ClientCredentialsConfig::ClientSecret {
        client_id: login.workspace.clone(),
        client_secret: login.key.clone(),
        scopes: Vec::new(),
        resource: Some(format!("{}/mcp", login.url)),
    };
    state.authenticate_client_credentials(config).await?;
    let manager = state.into_authorization_manager().ok_or("nobody has signed in")?;
    told(with_tokens(login, manager).await?, "felucca").await
}

async fn with_bearer(login: &Login, bearer: &str) -> Result<Client, Failure> {
    let config = StreamableHttpClientTransportConfig::with_uri(format!("{}/mcp", login.url))
        .auth_header(bearer);
    let transport = StreamableHttpClientTransport::with_client(reqwest::Client::default(), config);
    Ok(().serve(transport).await?)
}

async fn account(login: Login) -> Result<Value, Failure> {
    let (browser, refreshed) = by_browser(&login).await?;
    Ok(json!({
        "browser": browser, "refreshed": refreshed,
        "workspace_key": by_workspace_key(&login).await?,
        "bearer": told(with_bearer(&login, &login.bearer).await?, "xebec").await?,
    }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: [String; 6] = std::env::args()
        .skip(1)
        .collect::<Vec<String>>()
        .try_into()
        .map_err(|_| "wanted: WALK URL WORKSPACE ONCE KEY BEARER")?;
    let [walk, url, workspace, once, key, bearer] = arguments;
    let login = Login { walk, url, workspace, once, key, bearer };
    println!("{}", tokio::time::timeout(ACCOUNT_TIME_MAX, account(login)).await??);
    Ok(())
}
