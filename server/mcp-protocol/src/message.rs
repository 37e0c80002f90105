//! JSON-RPC 2.0 messages: parsing, and the two kinds of responses.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::fault::Fault;
use crate::limits::MESSAGE_ID_BYTES_MAX;

/// A received message.
#[derive(Debug, PartialEq)]
pub(super) enum Message<'a> {
    /// A notification, which gets no response.
    Notification { method: &'a str, params: &'a Value },
    /// The client's response to a request of the server.
    Response {
        /// Id of the server's request.
        id: &'a Value,
        outcome: Result<&'a Value, &'a Value>,
    },
    Request {
        /// Id to repeat in the response: a string of limited length, or an integer, 0 included.
        id: &'a Value,
        method: &'a str,
        params: &'a Value,
    },
    /// An invalid message.
    Wrong {
        /// The id, as far as it could be parsed.
        id: Value,
        /// The error.
        fault: Fault,
    },
}

impl<'a> Message<'a> {
    /// Classifies a JSON value.
    pub(super) fn of(value: &'a Value) -> Self {
        let id = value.get("id");
        let is_usable =
            |id: &&Value| id.is_i64() || id.is_u64() || (id.is_string() && !is_too_long(id));
        let wrong = |why: &str| {
            let id = id.filter(is_usable).cloned().unwrap_or(Value::Null);
            Self::Wrong { id, fault: Fault::invalid_request(why) }
        };
        if !value.is_object() {
            return wrong("a message is a JSON object");
        }
        if value.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return wrong("jsonrpc must be \"2.0\"");
        }
        let Some(method) = value.get("method") else {
            return match (id.filter(is_usable), value.get("result"), value.get("error")) {
                (Some(id), Some(result), None) => Self::Response { id, outcome: Ok(result) },
                (Some(id), None, Some(error)) => Self::Response { id, outcome: Err(error) },
                _ => wrong("neither a method nor a response with id and result or error"),
            };
        };
        let Some(method) = method.as_str() else { return wrong("method must be a string") };
        let params = value.get("params").unwrap_or(&Value::Null);
        if !(params.is_object() || params.is_null()) {
            return wrong("params must be an object");
        }
        match id {
            None => Self::Notification { method, params },
            Some(id) if !is_usable(&id) => {
                let most = MESSAGE_ID_BYTES_MAX;
                wrong(&format!("id must be a string of at most {most} bytes, or an integer"))
            }
            Some(_) if is_too_long(&params["_meta"]["progressToken"]) => {
                let most = MESSAGE_ID_BYTES_MAX;
                wrong(&format!(
                    "progressToken must be a string of at most {most} bytes, or a number"
                ))
            }
            Some(id) => Self::Request { id, method, params },
        }
    }
}

fn is_too_long(name: &Value) -> bool {
    name.as_str().is_some_and(|name| name.len() > MESSAGE_ID_BYTES_MAX)
}

/// A success response.
pub(super) fn success(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// An error response.
pub(super) fn failure(id: &Value, fault: &Fault) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": fault.to_json()})
}

/// A notification of the server.
pub(super) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// The messages of a body: those of a batch, or the single message.
pub(super) fn all(body: &Value) -> &[Value] {
    body.as_array().map_or(std::slice::from_ref(body), Vec::as_slice)
}

/// The messages of a body, for taking their contents.
pub(super) fn all_mut(body: &mut Value) -> &mut [Value] {
    match body {
        Value::Array(messages) => messages,
        message => std::slice::from_mut(message),
    }
}

/// Takes method and parameters out of a request.
pub(super) fn taken(request: &mut Value) -> (String, Value) {
    let method = match request["method"].take() {
        Value::String(method) => method,
        _ => unreachable!("a request has a method"),
    };
    (method, request["params"].take())
}

/// Parses the arguments of a call: an object, or, as some clients send them, a string that contains the object as JSON.
/// Arguments may be omitted.
///
/// # Errors
/// The value has another type; the message states the required one.
pub(super) fn arguments(given: &Value) -> Result<Cow<'_, Map<String, Value>>, String> {
    let wanted = || "arguments: an object is wanted".to_owned();
    match given {
        Value::Object(arguments) => Ok(Cow::Borrowed(arguments)),
        Value::Null => Ok(Cow::Owned(Map::new())),
        Value::String(text) if text.trim().is_empty() => Ok(Cow::Owned(Map::new())),
        Value::String(text) => match serde_json::from_str(text) {
            Ok(Value::Object(arguments)) => Ok(Cow::Owned(arguments)),
            Ok(Value::Null) => Ok(Cow::Owned(Map::new())),
            _ => Err(wanted()),
        },
        _ => Err(wanted()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_may_come_as_one_string() {
        let object = json!({"text": "a", "hops": "2"});
        for given in [object.clone(), json!(object.to_string())] {
            assert_eq!(Value::Object(arguments(&given).unwrap().into_owned()), object);
        }
        for none in [json!(null), json!(""), json!(" "), json!("null"), json!({}), json!("{}")] {
            assert!(arguments(&none).unwrap().is_empty(), "{none}");
        }
        for given in [json!([1]), json!("[1]"), json!("{\"text\": "), json!(7), json!("x")] {
            let error = arguments(&given).unwrap_err();
            assert_eq!(error, "arguments: an object is wanted", "{given}");
        }
    }

    #[test]
    fn ids_are_strings_and_integers_and_zero_is_one() {
        let with = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        for id in [json!(0), json!(-3), json!("a"), json!("")] {
            let value = with(id.clone());
            assert!(matches!(Message::of(&value), Message::Request { id: of, .. } if *of == id));
        }
        for id in [json!(null), json!(1.5), json!([1]), json!({}), json!(true)] {
            let value = with(id.clone());
            assert!(matches!(Message::of(&value), Message::Wrong { .. }), "{id}");
        }
    }

    #[test]
    fn ids_and_progress_tokens_are_short() {
        let longest = "i".repeat(MESSAGE_ID_BYTES_MAX);
        let named = |id: &str, token: &str| {
            let params = json!({"_meta": {"progressToken": token}});
            json!({"jsonrpc": "2.0", "id": id, "method": "ping", "params": params})
        };
        let fits = named(&longest, &longest);
        assert!(matches!(Message::of(&fits), Message::Request { .. }));
        let over = format!("{longest}i");
        let long_id = named(&over, "t");
        assert!(matches!(&Message::of(&long_id), Message::Wrong { id, .. } if id.is_null()));
        let long_token = named("a", &over);
        assert!(matches!(&Message::of(&long_token), Message::Wrong { id, .. } if *id == "a"));
        let long_answer = json!({"jsonrpc": "2.0", "id": over, "result": {}});
        assert!(matches!(Message::of(&long_answer), Message::Wrong { .. }));
    }

    #[test]
    fn responses_have_an_id_and_one_outcome() {
        let good = json!({"jsonrpc": "2.0", "id": 0, "result": {}});
        assert!(matches!(Message::of(&good), Message::Response { outcome: Ok(_), .. }));
        let bad = json!({"jsonrpc": "2.0", "id": "s-1", "error": {"code": 1, "message": "no"}});
        assert!(matches!(Message::of(&bad), Message::Response { outcome: Err(_), .. }));
        for wrong in [
            json!({"jsonrpc": "2.0", "result": {}}),
            json!({"jsonrpc": "2.0", "id": null, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}),
            json!({"jsonrpc": "2.0", "id": 1}),
            json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": 5}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}),
            json!(5),
        ] {
            assert!(matches!(Message::of(&wrong), Message::Wrong { .. }), "{wrong}");
        }
    }
}
