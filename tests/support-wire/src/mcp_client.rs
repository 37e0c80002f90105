//! A plain MCP client: JSON-RPC over POST, answered with JSON.

use serde_json::{Value, json};

use crate::schema::assert_conforms;
use crate::service::Service;
use crate::wire::{Answer, Ask, Client};

/// What polite clients send.
pub const ACCEPT: &str = "application/json, text/event-stream";

/// One connection to `/mcp` of the local listener.
pub struct McpClient {
    client: Client,
    id: u64,
}

impl McpClient {
    /// Connects; the service needs no session.
    pub fn open(service: &Service) -> Self {
        Self { client: service.connect(), id: 0 }
    }

    /// A message as it is, with the answer as it is.
    pub fn send(&mut self, message: &Value) -> Answer {
        self.client.send(&ask(message))
    }

    /// A request's whole answer.
    ///
    /// # Panics
    /// When it is not answered with 200 and the same id.
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

    /// A tool's result, be it good or an error that the caller can mend.
    ///
    /// # Panics
    /// When the protocol refuses the call.
    pub fn result(&mut self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let mut answer = self.request("tools/call", &params);
        assert!(answer["result"].is_object(), "{tool} {arguments}: {answer}");
        answer["result"].take()
    }

    /// What a tool gives, which its output schema describes.
    ///
    /// # Panics
    /// When it refuses, or gives something else.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let mut result = self.result(tool, arguments);
        assert_eq!(result["isError"], json!(false), "{tool} {arguments}: {result}");
        assert_conforms(tool, &result["structuredContent"]);
        result["structuredContent"].take()
    }

    /// Why a tool refuses.
    ///
    /// # Panics
    /// When it does not.
    pub fn refusal(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.result(tool, arguments);
        assert_eq!(result["isError"], json!(true), "{tool} {arguments}: {result}");
        let receipt = &result["_meta"]["recalld/receipt"]["receipt_id"];
        assert!(receipt.is_string(), "a refusal has its entry in the ledger too: {result}");
        result["content"][0]["text"].as_str().expect("a refusal is told in words").to_owned()
    }
}

/// A message as a request.
pub fn ask(message: &Value) -> Ask {
    Ask::post("/mcp", message).header("Accept", ACCEPT)
}
