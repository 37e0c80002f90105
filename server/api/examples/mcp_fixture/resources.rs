use serde_json::{Value, json};

use super::plain::PNG;

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

pub(super) fn listed() -> Vec<Value> {
    let one = |uri: &str, name: &str, mime: &str| {
        let mut resource = json!({"uri": uri, "name": name, "description": name});
        resource["mimeType"] = mime.into();
        resource
    };
    vec![
        one(TEXT, "A text", "text/plain"),
        one(BINARY, "An image", "image/png"),
        one(WATCHED, "One to follow", "text/plain"),
    ]
}

pub(super) fn templates() -> Vec<Value> {
    vec![json!({
        "uriTemplate": "test://template/{id}/data", "name": "Data by id",
        "description": "Data of an id", "mimeType": "application/json",
    })]
}

pub(super) fn read(uri: &str) -> Option<Value> {
    let text = |mime: &str, text: &str| json!({"uri": uri, "mimeType": mime, "text": text});
    let content = match uri {
        TEXT => text("text/plain", "This is the content of the static text resource."),
        BINARY => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        WATCHED => text("text/plain", "A resource that is watched."),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({
                "id": id, "templateTest": true, "data": format!("Data for ID: {id}"),
            });
            text("application/json", &data.to_string())
        }
    };
    Some(json!({"contents": [content]}))
}
