//! A plain MCP client: JSON-RPC over POST, with JSON responses.

use serde_json::{Value, json};

use crate::schema::assert_conforms;
use crate::service::Service;
use crate::wire::{Answer, Ask, Client};

/// The usual `Accept` header.
pub const ACCEPT: &str = "application/json, text/event-stream";

/// A connection to `/mcp` of the local listener.
pub struct McpClient {
    client: Client,
    id: u64,
}

impl McpClient {
    /// Connects; the service needs no session.
    pub fn open(service: &Service) -> Self {
        Self { client: service.connect(), id: 0 }
    }

    /// Sends a message unchanged, and returns the response unchanged.
    pub fn send(&mut self, message: &Value) -> Answer {
        self.client.send(&ask(message))
    }

    /// Sends a request and returns the whole JSON-RPC response.
    ///
    /// # Panics
    /// The response does not have status 200 and the same id.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.id;
        self.id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = self.send(&message);
        assert_eq!(answer.status, 200, "{message}: {}", answer.text());
        let answer = answer.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{answer}");
        answer
    }

    /// Returns a tool's result, which may be a tool error.
    ///
    /// # Panics
    /// The response is a protocol error.
    pub fn result(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let mut answer = self.request("tools/call", &params);
        assert!(answer["result"].is_object(), "{tool} {arguments}: {answer}");
        answer["result"].take()
    }

    /// Returns a tool's structured result, which its output schema describes.
    ///
    /// # Panics
    /// The tool returns an error, or another form of result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut result = self.result(tool, arguments);
        assert_eq!(result["isError"], json!(false), "{tool} {arguments}: {result}");
        assert_conforms(tool, &result["structuredContent"]);
        result["structuredContent"].take()
    }

    /// Returns the text of a tool error.
    ///
    /// # Panics
    /// The tool succeeds.
    pub fn refusal(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.result(tool, arguments);
        assert_eq!(result["isError"], json!(true), "{tool} {arguments}: {result}");
        let receipt = &result["_meta"]["recalld/receipt"]["receipt_id"];
        assert!(receipt.is_string(), "a refusal has its entry in the ledger too: {result}");
        result["content"][0]["text"].as_str().expect("a refusal is told in words").to_owned()
    }
}

/// Makes an HTTP request of a message.
pub fn ask(message: &Value) -> Ask {
    Ask::post("/mcp", message).header("Accept", ACCEPT)
}
