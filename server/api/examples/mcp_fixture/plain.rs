//! Tools that answer without input from their client.

use std::thread::sleep;
use std::time::Duration;

use recalld_mcp_protocol::{Fault, Level, List, Outcome};
use serde_json::{Value, json};

use super::{Tool, nothing, said};

/// A red pixel, as PNG in Base64.
pub(super) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAE\
                              hQGAhKmMIQAAAABJRU5ErkJggg==";
/// An empty sound, as WAV in Base64.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
/// Time between two messages of a call.
const STEP: Duration = Duration::from_millis(50);

pub(super) static TOOLS: &[Tool] = &[
    Tool {
        name: "test_simple_text",
        about: "Answers with a text.",
        schema: nothing,
        waits: false,
        run: |_, _, _| Ok(said("This is a simple text response for testing.")),
    },
    Tool {
        name: "test_image_content",
        about: "Answers with an image.",
        schema: nothing,
        waits: false,
        run: |_, _, _| Ok(content(json!([image()]))),
    },
    Tool {
        name: "test_audio_content",
        about: "Answers with a sound.",
        schema: nothing,
        waits: false,
        run: |_, _, _| {
            Ok(content(json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}])))
        },
    },
    Tool {
        name: "test_embedded_resource",
        about: "Answers with a resource.",
        schema: nothing,
        waits: false,
        run: |_, _, _| {
            let text = "This is an embedded resource content.";
            Ok(content(json!([{"type": "resource", "resource": {
                "uri": "test://embedded-resource", "mimeType": "text/plain", "text": text,
            }}])))
        },
    },
    Tool {
        name: "test_multiple_content_types",
        about: "Answers with a text, an image and a resource.",
        schema: nothing,
        waits: false,
        run: |_, _, _| {
            let text = "{\"test\":\"data\",\"value\":123}";
            Ok(content(json!([
                {"type": "text", "text": "Multiple content types test:"},
                image(),
                {"type": "resource", "resource": {
                    "uri": "test://mixed-content-resource", "mimeType": "application/json",
                    "text": text,
                }},
            ])))
        },
    },
    Tool {
        name: "test_error_handling",
        about: "Fails.",
        schema: nothing,
        waits: false,
        run: |_, _, _| {
            let text = "This tool intentionally returns an error for testing";
            Ok(Outcome::Done(json!({
                "content": [{"type": "text", "text": text}], "isError": true,
            })))
        },
    },
    Tool {
        name: "test_tool_with_progress",
        about: "Says how far it has come.",
        schema: nothing,
        waits: true,
        run: |_, _, client| {
            client.progress(0, 100, "");
            sleep(STEP);
            client.progress(50, 100, "");
            sleep(STEP);
            client.progress(100, 100, "");
            Ok(said("Done, in three steps."))
        },
    },
    Tool {
        name: "test_tool_with_logging",
        about: "Logs while it works.",
        schema: nothing,
        waits: true,
        run: |_, _, client| {
            let log = |text: &str| client.log(Level::Info, "fixture", json!(text));
            log("Tool execution started");
            sleep(STEP);
            log("Tool processing data");
            sleep(STEP);
            log("Tool execution completed");
            Ok(said("Done, and logged."))
        },
    },
    Tool {
        name: "test_logging_tool",
        about: "Logs where that is asked for.",
        schema: nothing,
        waits: false,
        run: |_, _, client| {
            client.log(Level::Info, "fixture", json!("A message for those who asked for it"));
            Ok(said("Done."))
        },
    },
    Tool {
        name: "test_reconnection",
        about: "Closes its stream half way; the client comes again for the answer.",
        schema: nothing,
        waits: true,
        run: |_, _, client| {
            client.pause();
            sleep(2 * STEP);
            Ok(said("Reconnection test completed successfully."))
        },
    },
    Tool {
        name: "test_missing_capability",
        about: "Works only with clients that can sample.",
        schema: nothing,
        waits: false,
        run: |_, _, client| match client.has("sampling") {
            true => Ok(said("The client can sample.")),
            false => Err(Fault::missing_capability("sampling")),
        },
    },
    Tool {
        name: "test_trigger_tool_change",
        about: "Changes the list of tools.",
        schema: nothing,
        waits: false,
        run: |fixture, _, _| {
            fixture.toggle(List::Tools);
            Ok(said("The list of tools has changed."))
        },
    },
    Tool {
        name: "test_trigger_prompt_change",
        about: "Changes the list of prompts.",
        schema: nothing,
        waits: false,
        run: |fixture, _, _| {
            fixture.toggle(List::Prompts);
            Ok(said("The list of prompts has changed."))
        },
    },
    Tool {
        name: "test_x_mcp_header",
        about: "Wants an argument in a header as well.",
        schema: || {
            json!({"type": "object", "properties": {
                "region": {"type": "string", "description": "Where.", "x-mcp-header": "Region"},
            }})
        },
        waits: false,
        run: |_, arguments, _| {
            let region = arguments.get("region").and_then(Value::as_str).unwrap_or("nowhere");
            Ok(said(format!("The region is {region}.")))
        },
    },
    Tool {
        name: "json_schema_2020_12_tool",
        about: "Tool with JSON Schema 2020-12 features",
        schema: schema_2020_12,
        waits: false,
        run: |_, arguments, _| {
            Ok(said(format!("JSON Schema 2020-12 tool called with: {}", json!(arguments))))
        },
    },
];

fn content(content: Value) -> Outcome {
    Outcome::Done(json!({"content": content}))
}

fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

/// The schema that the suite expects back, keyword for keyword.
fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef", "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {
            "properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"],
        },
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}
