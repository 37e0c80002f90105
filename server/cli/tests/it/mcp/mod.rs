//! MCP of the program without sessions. This module has the shared helpers; the tests are in its submodules.

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
/// Former names of [`RECALL`].
const RECALL_NAMES: [&str; 4] =
    ["brain_recall", "semantic_recall_tool", "keyword_recall_tool", "graph_recall_tool"];

/// Tool names, in the order of the catalog.
fn tools() -> Vec<&'static str> {
    rows().map(|row| row.name).collect()
}

struct Shared {
    service: Service,
    folder: std::path::PathBuf,
}

/// A shared service with the documents ingested.
fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| begin(|_| ()))
}

/// A shared service with the sample data imported as well, for tests that call every example and thus write.
fn sampled() -> &'static Shared {
    static SAMPLED: OnceLock<Shared> = OnceLock::new();
    SAMPLED.get_or_init(|| begin(sample_catalog::import_into))
}

/// Lock for tests that call every example: concurrent writes with one idempotency key yield one answer and one
/// conflict.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a service after `prepare` has changed its data directory.
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

/// A repeatable call of each tool. The examples of the catalog work here, because `README.md` is ingested and the
/// sample data is imported.
fn examples() -> Vec<(&'static str, Value)> {
    let folder = sampled().folder.to_str().unwrap();
    let example = |row: &'static Tool| match row.name {
        // Many files, for many progress notifications.
        INGEST => (INGEST, json!({"paths": [folder], "dry_run": true})),
        // A dry run, because tombstoning would remove the document from concurrent tests.
        TOMBSTONE => {
            (TOMBSTONE, json!({"paths": ["README.md"], "reason": "it moved", "dry_run": true}))
        }
        name => {
            let mut arguments: Value = serde_json::from_str(row.example).unwrap();
            let fields = arguments.as_object_mut().unwrap();
            // Write tools get an idempotency key, so that a repeat gets the first answer. Keys are bound to the
            // arguments' spelling.
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
