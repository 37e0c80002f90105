//! The Rust client (package `rmcp`): `client-rmcp URL ERA WORD`, with ERA `handshake`, `per-request` or `auto`. Runs
//! the scenario of every client here, and prints its report as one line of JSON (../README.md).

#![expect(
    deprecated,
    reason = "the level of logs and following are so since 2026-07-28, and served"
)]

use std::error::Error;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, GetPromptRequestParams,
    LoggingLevel, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
    ResourceUpdatedNotificationParam, ServerNotification, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

type Failure = Box<dyn Error + Send + Sync>;
type Client = RunningService<RoleClient, Ears>;

const BRIEF: &str = "memory://brief/today";

/// Notifications of the server.
enum Heard {
    Progress,
    Updated(String),
}

/// Forwards the notifications of the server.
struct Ears(UnboundedSender<Heard>);

impl ClientHandler for Ears {
    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _nobody_listens = self.0.send(Heard::Progress);
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _nobody_listens = self.0.send(Heard::Updated(params.uri));
    }
}

/// Most time of the whole report: a server that hangs is a finding.
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

async fn connected(url: &str, era: &str) -> Result<(Client, UnboundedReceiver<Heard>), Failure> {
    let transport = StreamableHttpClientTransport::from_uri(url);
    let (tell, heard) = unbounded_channel();
    Ok((Ears(tell).serve_with_lifecycle(transport, lifecycle(era)?).await?, heard))
}

fn request(tool: &str, arguments: Value) -> CallToolRequestParams {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

/// Calls a tool and returns its result in the form of the report.
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

/// Subscribes to the brief, writes an item, and returns the URI of the update notification.
async fn updated(
    client: &Client,
    heard: &mut UnboundedReceiver<Heard>,
    by_request: bool,
    word: &str,
) -> Result<String, Failure> {
    let note = json!({"text": format!("A {word} was seen at noon.")});
    if by_request {
        let filter = SubscriptionFilter::builder().resource_subscription(BRIEF).build();
        let mut followed = client.listen(filter).await?;
        call(client, "brain_remember", note).await?;
        let told = followed.next().await?;
        followed.cancel().await?;
        return match told {
            Some(ServerNotification::ResourceUpdatedNotification(it)) => Ok(it.params.uri),
            other => Err(format!("no update but {other:?}").into()),
        };
    }
    client.subscribe(SubscribeRequestParams::new(BRIEF)).await?;
    loop {
        // The notification stream may not be open yet at the first write.
        call(client, "brain_remember", note.clone()).await?;
        match tokio::time::timeout(Duration::from_secs(1), heard.recv()).await {
            Ok(Some(Heard::Updated(uri))) => return Ok(uri),
            Ok(None) => return Err("the client has ended".into()),
            Ok(Some(Heard::Progress)) | Err(_) => {}
        }
    }
}

/// Cancels a long job after its first progress notification, and returns the remaining work.
async fn called_off(
    client: &Client,
    heard: &mut UnboundedReceiver<Heard>,
    word: &str,
) -> Result<Value, Failure> {
    let params = request("ingest_paths_tool", json!({"paths": [word]}));
    let job = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let job = client.send_cancellable_request(job, PeerRequestOptions::no_options()).await?;
    while !matches!(heard.recv().await.ok_or("the client has ended")?, Heard::Progress) {}
    job.cancel(None).await?;
    let again = json!({"paths": [word], "dry_run": true});
    Ok(json!({"ended": true, "again": call(client, "ingest_paths_tool", again).await?}))
}

/// Resources, prompts, completions, and notifications during a call.
async fn beyond_tools(
    client: &Client,
    heard: &mut UnboundedReceiver<Heard>,
    by_request: bool,
    word: &str,
    item: &str,
) -> Result<Value, Failure> {
    let read = async |uri: &str| {
        let read = client.read_resource(ReadResourceRequestParams::new(uri)).await?;
        Ok::<_, Failure>(serde_json::to_value(read)?["contents"][0]["text"].take())
    };
    let arguments = json!({"question": format!("where is the {word}?")});
    let prompt = GetPromptRequestParams::new("consult-memory-first")
        .with_arguments(arguments.as_object().cloned().unwrap_or_default());
    let prompt = serde_json::to_value(client.get_prompt(prompt).await?)?;
    let templates = client.list_all_resource_templates().await?.into_iter();
    let templates: Vec<String> = templates.map(|it| it.uri_template.clone()).collect();
    let mut told = json!({
        "resource": read(BRIEF).await?, "templates": templates,
        "template": read(&format!("memory://item/{item}")).await?,
        "prompt": prompt["messages"][0]["content"]["text"],
        "completed": client.complete_prompt_simple("record-a-decision", "tag", word).await?,
        "updated": updated(client, heard, by_request, word).await?,
        "called_off": called_off(client, heard, word).await?,
    });
    if !by_request {
        client.set_level(SetLevelRequestParams::new(LoggingLevel::Debug)).await?;
        told["logging"] = true.into();
    }
    Ok(told)
}

async fn account(url: &str, era: &str, word: &str) -> Result<Value, Failure> {
    let (client, mut heard) = connected(&format!("{url}/mcp"), era).await?;
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
    let item = told["remember"]["structured"]["item"]["id"].as_str().unwrap_or_default().to_owned();
    let by_request = told["protocol"] == "2026-07-28";
    let more = beyond_tools(&client, &mut heard, by_request, word, &item).await?;
    told.as_object_mut()
        .ok_or("an account is an object")?
        .extend(more.as_object().cloned().unwrap_or_default());
    client.cancel().await?;
    let (core, _) = connected(&format!("{url}/mcp?profile=core"), era).await?;
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
