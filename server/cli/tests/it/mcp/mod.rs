//! MCP of the real program without sessions. Here is what all tests share; what is held to it stands beside.

mod answers;
mod catalog;
mod files;
mod memories;
mod recall;
mod transport;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use recalld_tool_framework::Tool;
use serde_json::{Value, json};
use support_server::sample_catalog;
use support_server::schema::rows;
use support_wire::documents;
use support_wire::mcp_client::McpClient;
use support_wire::service::{Service, scratch, write};

const RECALL: &str = "retrieval_arbitrate_tool";
const REMEMBER: &str = "brain_remember";
const INGEST: &str = "ingest_paths_tool";
const DOCUMENT: &str = "docstore_get_document_tool";
const TOMBSTONE: &str = "tombstone_paths_tool";
const STATS: &str = "recall_stats";
/// Older names of [`RECALL`].
const RECALL_NAMES: [&str; 4] =
    ["brain_recall", "semantic_recall_tool", "keyword_recall_tool", "graph_recall_tool"];

/// The names of the catalog, in its order.
fn tools() -> Vec<&'static str> {
    rows().map(|row| row.name).collect()
}

struct Shared {
    service: Service,
    folder: std::path::PathBuf,
}

/// A service with the documents ingested.
fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| begin(|_| ()))
}

/// The same with the sample of the catalog: one for those who call every example, which writes many things.
fn sampled() -> &'static Shared {
    static SAMPLED: OnceLock<Shared> = OnceLock::new();
    SAMPLED.get_or_init(|| begin(sample_catalog::import_into))
}

/// Held by who calls every example there: two writes of one key at a time are no two answers, but one and a conflict.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts one, after something was done to its data directory.
fn begin(prepare: impl FnOnce(&Path)) -> Shared {
    let scratch = scratch();
    let folder = scratch.path().canonicalize().unwrap().join("documents");
    documents::write_all(&folder);
    write(&folder, "codes.txt", documents::code_book());
    prepare(&scratch.path().join("data"));
    let service = Service::start_shared(scratch, &["--ingest", folder.to_str().unwrap()]);
    Shared { service, folder }
}

fn client() -> McpClient {
    McpClient::open(&shared().service)
}

fn sampled_client() -> McpClient {
    McpClient::open(&sampled().service)
}

fn request(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn tool_call(tool: &str, arguments: &Value) -> Value {
    request("tools/call", &json!({"name": tool, "arguments": arguments}))
}

fn listed() -> Vec<Value> {
    client().request("tools/list", &json!({}))["result"]["tools"].as_array().unwrap().clone()
}

/// A call of each tool, that can be made again and again. What a row gives as its example works here, where `README.md`
/// was ingested and the sample imported.
fn examples() -> Vec<(&'static str, Value)> {
    let folder = sampled().folder.to_str().unwrap();
    let example = |row: &'static Tool| match row.name {
        // Many files, for many notes of progress.
        INGEST => (INGEST, json!({"paths": [folder], "dry_run": true})),
        // Done for good, it would take the document from whoever calls at the same time.
        TOMBSTONE => {
            (TOMBSTONE, json!({"paths": ["README.md"], "reason": "it moved", "dry_run": true}))
        }
        name => {
            let mut arguments: Value = serde_json::from_str(row.example).unwrap();
            let fields = arguments.as_object_mut().unwrap();
            // What can be done once is told again by its key; keys are held to arguments as they are spelt.
            let takes_key = (row.shape)().iter().any(|field| field.name == "idempotency_key");
            if takes_key && fields.values().all(Value::is_string) {
                fields.insert("idempotency_key".to_owned(), json!("example"));
            }
            (name, arguments)
        }
    };
    rows().map(example).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
