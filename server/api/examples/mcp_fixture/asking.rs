//! Tools that require input from their client.

use recalld_mcp_protocol::{Client, Fault, NeedsInput, Outcome};
use serde_json::{Map, Value, json};

use super::{Tool, nothing, said};

pub(super) static TOOLS: &[Tool] = &[
    Tool {
        name: "test_sampling",
        about: "Has the client's model answer a prompt.",
        schema: || texts("prompt"),
        waits: true,
        run: |_, arguments, client| {
            let sampling = sampling(text(arguments, "prompt"), 100);
            let answer = asked(client, "answer", sampling)?;
            Ok(answer.map_or_else(
                |asks| asks,
                |answer| said(format!("LLM response: {}", sampled(&answer))),
            ))
        },
    },
    Tool {
        name: "test_elicitation",
        about: "Asks the client's user for a response.",
        schema: || texts("message"),
        waits: true,
        run: |_, arguments, client| {
            let schema = json!({
                "type": "object",
                "properties": {
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                },
                "required": ["username", "email"],
            });
            elicited(client, text(arguments, "message"), &schema, "User response")
        },
    },
    Tool {
        name: "test_elicitation_sep1034_defaults",
        about: "Asks with a default of each primitive type.",
        schema: nothing,
        waits: true,
        run: |_, _, client| {
            let schema = json!({"type": "object", "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {
                    "type": "string", "enum": ["active", "inactive", "pending"],
                    "default": "active",
                },
                "verified": {"type": "boolean", "default": true},
            }, "required": []});
            elicited(client, "Please review these.", &schema, "Elicitation completed")
        },
    },
    Tool {
        name: "test_elicitation_sep1330_enums",
        about: "Asks with enumerations of all five kinds.",
        schema: nothing,
        waits: true,
        run: |_, _, client| {
            elicited(client, "Please choose.", &enumerations(), "Elicitation completed")
        },
    },
    Tool {
        name: "test_streaming_elicitation",
        about: "Asks by its result, never by a request of its own.",
        schema: nothing,
        waits: true,
        run: |_, _, client| greeting(client),
    },
    Tool {
        name: "test_input_required_result_elicitation",
        about: "Asks for a name.",
        schema: nothing,
        waits: true,
        run: |_, _, client| greeting(client),
    },
    Tool {
        name: "test_input_required_result_sampling",
        about: "Has the client's model answer.",
        schema: nothing,
        waits: true,
        run: |_, _, client| {
            let sampling = sampling("What is the capital of France?", 100);
            let answer = asked(client, "capital_question", sampling)?;
            Ok(answer.map_or_else(|asks| asks, |answer| said(sampled(&answer))))
        },
    },
    Tool {
        name: "test_input_required_result_list_roots",
        about: "Asks for the client's roots.",
        schema: nothing,
        waits: true,
        run: |_, _, client| {
            let answer = asked(client, "client_roots", roots())?;
            Ok(answer.map_or_else(|asks| asks, |roots| said(format!("Roots: {}", roots["roots"]))))
        },
    },
    Tool {
        name: "test_input_required_result_request_state",
        about: "Wants its state back.",
        schema: nothing,
        waits: true,
        run: |_, _, client| confirmed(client),
    },
    Tool {
        name: "test_input_required_result_tampered_state",
        about: "Wants its state back as it was.",
        schema: nothing,
        waits: true,
        run: |_, _, client| confirmed(client),
    },
    Tool {
        name: "test_input_required_result_multiple_inputs",
        about: "Asks three things at a time.",
        schema: nothing,
        waits: true,
        run: |_, _, client| several(client),
    },
    Tool {
        name: "test_input_required_result_multi_round",
        about: "Asks twice.",
        schema: nothing,
        waits: true,
        run: |_, _, client| two_rounds(client),
    },
    Tool {
        name: "test_input_required_result_capabilities",
        about: "Asks only what the client can answer.",
        schema: nothing,
        waits: true,
        run: |_, _, client| capable(client),
    },
];

fn texts(name: &str) -> Value {
    let text = json!({"type": "string", "description": "What to ask."});
    json!({"type": "object", "properties": {name: text}, "required": [name]})
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the client's answer to one question, or the outcome that asks the question.
fn asked(client: &Client<'_>, key: &str, question: Value) -> Result<Result<Value, Outcome>, Fault> {
    Ok(match client.input().responses.get(key) {
        Some(answer) => Ok(answer.clone()),
        None => Err(asks(vec![(key, question)], None)),
    })
}

fn asks(questions: Vec<(&str, Value)>, state: Option<Value>) -> Outcome {
    let requests = questions.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Outcome::NeedsInput(NeedsInput { requests, state })
}

fn elicitation(message: &str, schema: &Value) -> Value {
    let params = json!({"message": message, "requestedSchema": schema});
    json!({"method": "elicitation/create", "params": params})
}

/// Builds a question for one value.
pub(super) fn question(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({
        "type": "object", "properties": {field: {"type": kind}}, "required": [field],
    });
    elicitation(message, &schema)
}

fn sampling(prompt: &str, tokens: u32) -> Value {
    let content = json!({"type": "text", "text": prompt});
    let params = json!({"messages": [{"role": "user", "content": content}], "maxTokens": tokens});
    json!({"method": "sampling/createMessage", "params": params})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn sampled(answer: &Value) -> String {
    answer["content"]["text"].as_str().unwrap_or("(no text)").to_owned()
}

fn elicited(
    client: &Client<'_>,
    message: &str,
    schema: &Value,
    begin: &str,
) -> Result<Outcome, Fault> {
    let answer = asked(client, "answer", elicitation(message, schema))?;
    Ok(answer.map_or_else(
        |asks| asks,
        |answer| {
            let action = answer["action"].as_str().unwrap_or_default();
            let content = answer.get("content").cloned().unwrap_or_else(|| json!({}));
            said(format!("{begin}: action={action}, content={content}"))
        },
    ))
}

fn greeting(client: &Client<'_>) -> Result<Outcome, Fault> {
    let answer = asked(client, "user_name", question("What is your name?", "name", "string"))?;
    Ok(answer.map_or_else(
        |asks| asks,
        |answer| {
            let name = answer["content"]["name"].as_str().unwrap_or("stranger");
            said(format!("Hello, {name}!"))
        },
    ))
}

fn confirmed(client: &Client<'_>) -> Result<Outcome, Fault> {
    let input = client.input();
    if input.responses.contains_key("confirm") && input.state.is_some() {
        return Ok(said("state-ok"));
    }
    let question = question("Please confirm", "ok", "boolean");
    Ok(asks(vec![("confirm", question)], Some(json!({"step": "confirm"}))))
}

fn several(client: &Client<'_>) -> Result<Outcome, Fault> {
    let questions = vec![
        ("user_name", question("What is your name?", "name", "string")),
        ("greeting", sampling("Generate a greeting", 50)),
        ("client_roots", roots()),
    ];
    let input = client.input();
    if questions.iter().all(|(key, _)| input.responses.contains_key(*key)) {
        return Ok(said(format!("All inputs: {}", json!(input.responses))));
    }
    Ok(asks(questions, Some(json!({"step": "all"}))))
}

fn two_rounds(client: &Client<'_>) -> Result<Outcome, Fault> {
    let input = client.input();
    let name = |state: &Value| state["name"].as_str().unwrap_or("stranger").to_owned();
    match (&input.state, input.responses.get("step1"), input.responses.get("step2")) {
        (Some(state), _, Some(answer)) => {
            let color = answer["content"]["color"].as_str().unwrap_or("no color");
            Ok(said(format!("{} likes {color}.", name(state))))
        }
        (Some(_), Some(answer), None) => {
            let question = question("Step 2: What is your favorite color?", "color", "string");
            let state = json!({"round": 2, "name": answer["content"]["name"]});
            Ok(asks(vec![("step2", question)], Some(state)))
        }
        _ => {
            let question = question("Step 1: What is your name?", "name", "string");
            Ok(asks(vec![("step1", question)], Some(json!({"round": 1}))))
        }
    }
}

fn capable(client: &Client<'_>) -> Result<Outcome, Fault> {
    let all = [
        ("sampling", "sample", sampling("Say something.", 50)),
        ("elicitation", "name", question("What is your name?", "name", "string")),
        ("roots", "roots", roots()),
    ];
    let able = all.into_iter().filter(|(capability, ..)| client.has(capability));
    let open: Vec<(&str, Value)> = able
        .map(|(_, key, question)| (key, question))
        .filter(|(key, _)| !client.input().responses.contains_key(*key))
        .collect();
    if open.is_empty() {
        return Ok(said("There is nothing to ask."));
    }
    Ok(asks(open, None))
}

fn enumerations() -> Value {
    let titled = |titles: [&str; 3]| {
        let value = |at: usize| format!("value{}", at + 1);
        let one = |(at, title): (usize, &&str)| json!({"const": value(at), "title": title});
        titles.iter().enumerate().map(one).collect::<Vec<Value>>()
    };
    let options = json!(["option1", "option2", "option3"]);
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {
            "type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"]),
        },
        "legacyEnum": {
            "type": "string", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {
            "anyOf": titled(["First Choice", "Second Choice", "Third Choice"]),
        }},
    }, "required": []})
}
