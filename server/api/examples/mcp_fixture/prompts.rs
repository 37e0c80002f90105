use recalld_mcp_protocol::{Client, Fault, NeedsInput, Outcome};
use serde_json::{Map, Value, json};

use super::asking::question;
use super::plain::PNG;

const ASKING: &str = "test_input_required_result_prompt";
const KEY: &str = "user_context";

pub(super) fn listed(has_another: bool) -> Vec<Value> {
    let argument = |name: &str| json!({"name": name, "description": name, "required": true});
    let one = |name: &str, arguments: &[&str]| {
        let arguments: Vec<Value> = arguments.iter().map(|name| argument(name)).collect();
        json!({"name": name, "description": "A prompt for tests.", "arguments": arguments})
    };
    let mut listed = vec![
        one("test_simple_prompt", &[]),
        one("test_prompt_with_arguments", &["arg1", "arg2"]),
        one("test_prompt_with_embedded_resource", &["resourceUri"]),
        one("test_prompt_with_image", &[]),
        one(ASKING, &[]),
    ];
    if has_another {
        listed.push(one("test_coming_and_going", &[]));
    }
    listed
}

pub(super) fn get(
    name: &str,
    arguments: &Map<String, Value>,
    client: &Client<'_>,
) -> Result<Outcome, Fault> {
    let given = |name: &str| {
        let text = arguments.get(name).and_then(Value::as_str);
        text.ok_or_else(|| Fault::invalid_params(format!("arguments.{name} is missing")))
    };
    let text = |text: String| json!({"type": "text", "text": text});
    let contents = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.".to_owned())],
        "test_prompt_with_arguments" => {
            let (first, second) = (given("arg1")?, given("arg2")?);
            let said = format!("Prompt with arguments: arg1='{first}', arg2='{second}'");
            vec![text(said)]
        }
        "test_prompt_with_embedded_resource" => vec![
            json!({"type": "resource", "resource": {
                "uri": given("resourceUri")?, "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            text("Please process the embedded resource above.".to_owned()),
        ],
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
            text("Please analyze the image above.".to_owned()),
        ],
        ASKING => match client.input().responses.get(KEY) {
            Some(answer) => {
                let context = answer["content"]["context"].as_str().unwrap_or("none");
                vec![text(format!("The context is {context}."))]
            }
            None => {
                let asks = question("What context should the prompt use?", "context", "string");
                let requests = [(KEY.to_owned(), asks)].into_iter().collect();
                return Ok(Outcome::NeedsInput(NeedsInput { requests, state: None }));
            }
        },
        _ => return Err(Fault::invalid_params(format!("Unknown prompt: {name}"))),
    };
    let message = |content: Value| json!({"role": "user", "content": content});
    let messages: Vec<Value> = contents.into_iter().map(message).collect();
    Ok(Outcome::Done(json!({"description": "A prompt for tests.", "messages": messages})))
}
