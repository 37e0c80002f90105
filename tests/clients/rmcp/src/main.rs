//! The Rust client (package `rmcp`): `client-rmcp URL ERA WORD`, with ERA `handshake`, `per-request`
//! or `auto`. Does what every client here does, and prints its account as one line of JSON
//! (../README.md).

use std::error::Error;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, ClientConfig, ProtocolVersion};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};

type Failure = Box<dyn Error + Send + Sync>;
type Client = RunningService<RoleClient, ClientConfig>;

/// Longest that the whole account may take: a server that hangs is a finding, not a wait.
const ACCOUNT_TIME_MAX: Duration = Duration::from_secs(60);

fn lifecycle(era: &str) -> Result<ClientLifecycleMode, Failure> {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    let legacy_version = Some(ProtocolVersion::V_2025_11_25);
    match era {
        "handshake" => Ok(ClientLifecycleMode::Initialize),
        "per-request" => Ok(ClientLifecycleMode::Discover { preferred_versions }),
        "auto" => Ok(ClientLifecycleMode::Auto { preferred_versions, legacy_version }),
        other => Err(format!("ERA is {other}; handshake, per-request or auto is wanted").into()),
    }
}

async fn connected(url: &str, era: &str) -> Result<Client, Failure> {
    let transport = StreamableHttpClientTransport::from_uri(url);
    Ok(ClientConfig::default().serve_with_lifecycle(transport, lifecycle(era)?).await?)
}

fn request(tool: &str, arguments: Value) -> CallToolRequestParams {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

/// What a tool answers, in the form of the account.
async fn call(client: &Client, tool: &str, arguments: Value) -> Result<Value, Failure> {
    let result: CallToolResult = client.call_tool(request(tool, arguments)).await?;
    let result = serde_json::to_value(result)?;
    Ok(json!({
        "error": result["isError"] == true, "text": result["content"][0]["text"],
        "structured": result["structuredContent"],
    }))
}

async fn refusal(client: &Client, tool: &str) -> Result<Value, Failure> {
    match client.call_tool(request(tool, json!({}))).await {
        Err(ServiceError::McpError(error)) => {
            Ok(json!({"code": error.code.0, "message": error.message}))
        }
        Err(other) => Err(other.into()),
        Ok(_) => Ok(Value::Null),
    }
}

async fn account(url: &str, era: &str, word: &str) -> Result<Value, Failure> {
    let client = connected(&format!("{url}/mcp"), era).await?;
    let peer = client.peer_info().ok_or("the server did not introduce itself")?;
    let peer = serde_json::to_value(&*peer)?;
    let recall = "retrieval_arbitrate_tool";
    let nest = json!({
        "text": format!("The {word} nests on the gallery rail."),
        "tags": json!([word, "birds"]).to_string(),
    });
    let has = |name: &str| peer["capabilities"][name].is_object();
    let mut told = json!({
        "protocol": peer["protocolVersion"], "server": peer["serverInfo"]["name"],
        "instructions": peer["instructions"],
        "tools": client.list_all_tools().await?,
        "recall": call(&client, recall, json!({"query": "what does the lamp burn?"})).await?,
        "remember": call(&client, "brain_remember", nest).await?,
        "again": call(&client, recall, json!({"query": format!("where does the {word} nest?")}))
            .await?,
        "misspelt": call(&client, recall, json!({"quary": "lamp"})).await?,
        "unknown": refusal(&client, "brain_rember").await?,
        "resources": null, "prompts": null,
    });
    if has("resources") {
        told["resources"] = client.list_all_resources().await?.len().into();
    }
    if has("prompts") {
        told["prompts"] = client.list_all_prompts().await?.len().into();
    }
    client.cancel().await?;
    let core = connected(&format!("{url}/mcp?profile=core"), era).await?;
    let names = core.list_all_tools().await?.into_iter().map(|tool| tool.name.into_owned());
    told["core"] = names.collect::<Vec<String>>().into();
    core.cancel().await?;
    told["ended"] = true.into();
    Ok(told)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, era, word] = arguments.as_slice() else {
        return Err("wanted: URL ERA WORD".into());
    };
    println!("{}", tokio::time::timeout(ACCOUNT_TIME_MAX, account(url, era, word)).await??);
    Ok(())
}
