//! Checks that the headers of revision 2026-07-28 match the body.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::fault::Fault;
use recalld_http_server::Headers;

const VERSION: &str = "MCP-Protocol-Version";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";
const PARAM: &str = "Mcp-Param-";

/// A tool argument that must be mirrored in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirrored {
    /// Name of the argument.
    pub argument: String,
    /// Name of the header after `Mcp-Param-`.
    pub header: String,
}

/// Returns the arguments that an input schema marks with `x-mcp-header`.
pub(super) fn mirrored(input_schema: &Value) -> Vec<Mirrored> {
    let properties = input_schema["properties"].as_object().into_iter().flatten();
    let marked = properties.filter_map(|(argument, schema)| {
        let header = schema.get("x-mcp-header")?.as_str()?.to_owned();
        Some(Mirrored { argument: argument.clone(), header })
    });
    marked.collect()
}

/// Checks that version, method and name in the headers match the body.
pub(super) fn check(
    headers: &Headers,
    version: &str,
    method: &str,
    params: &Value,
) -> Result<(), Fault> {
    same(headers, VERSION, Some(version))?;
    same(headers, METHOD, Some(method))?;
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ => return Ok(()),
    };
    // The method itself rejects a request without a name.
    name.map_or(Ok(()), |name| same(headers, NAME, Some(name)))
}

/// Checks the headers that mirror tool arguments.
pub(super) fn check_mirrored(
    headers: &Headers,
    mirrored: &[Mirrored],
    arguments: &Value,
) -> Result<(), Fault> {
    mirrored.iter().try_for_each(|one| {
        let text = match &arguments[&one.argument] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        };
        same(headers, &format!("{PARAM}{}", one.header), text.as_deref())
    })
}

/// Checks one header: exactly one value if the body has a value, else none.
fn same(headers: &Headers, name: &str, wanted: Option<&str>) -> Result<(), Fault> {
    let mut values = headers.get_all(name);
    let (given, repeated) = (values.next(), values.next().is_some());
    let why = match (given, wanted) {
        (None, None) => return Ok(()),
        _ if repeated => "is given twice".to_owned(),
        (None, Some(_)) => "is missing".to_owned(),
        (Some(_), None) => "is given, and the body has no such value".to_owned(),
        (Some(given), Some(wanted)) => match decoded(given.trim()) {
            None => "is not well-formed Base64 between `=?base64?` and `?=`".to_owned(),
            Some(text) if text == wanted => return Ok(()),
            Some(_) => "does not say what the body says".to_owned(),
        },
    };
    Err(Fault::header_mismatch(format!("header {name} {why}")))
}

/// Decodes a header value: Base64 between the markers, else unchanged.
fn decoded(value: &str) -> Option<String> {
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match inner {
        None => Some(value.to_owned()),
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::default();
        fields.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
        headers
    }

    #[test]
    fn values_are_literal_or_strict_base64() {
        for (value, text) in [
            ("plain", Some("plain")),
            ("=?base64?SGVsbG8=?=", Some("Hello")),
            ("=?base64?w6k=?=", Some("\u{e9}")),
            ("=?base64??=", Some("")),
            ("=?base64?SGVsbG8=", Some("=?base64?SGVsbG8=")),
            ("SGVsbG8=?=", Some("SGVsbG8=?=")),
            ("=?base64?SGVsbG8?=", None),
            ("=?base64?SGVs!!!bG8=?=", None),
            ("=?base64?SGVsbG9=?=", None),
            ("=?base64?/w==?=", None),
        ] {
            assert_eq!(decoded(value).as_deref(), text, "{value}");
        }
    }

    #[test]
    fn method_and_name_must_be_those_of_the_body() {
        let version = ("mcp-protocol-version", "2026-07-28");
        let call = json!({"name": "a tool"});
        for (fields, method, params, is_good) in [
            (vec![version, ("MCP-METHOD", "tools/list")], "tools/list", json!({}), true),
            (vec![version, ("Mcp-Method", " tools/list ")], "tools/list", json!({}), true),
            (vec![version, ("Mcp-Method", "TOOLS/LIST")], "tools/list", json!({}), false),
            (vec![version], "tools/list", json!({}), false),
            (vec![("Mcp-Method", "tools/list")], "tools/list", json!({}), false),
            (vec![("mcp-protocol-version", "2025-11-25")], "tools/list", json!({}), false),
            (vec![version, ("Mcp-Method", "tools/call")], "tools/call", call.clone(), false),
            (
                vec![version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "  a tool  ")],
                "tools/call",
                call.clone(),
                true,
            ),
            (
                vec![version, ("Mcp-Method", "tools/call"), ("Mcp-Name", "another")],
                "tools/call",
                call.clone(),
                false,
            ),
            (
                vec![
                    version,
                    ("Mcp-Method", "tools/call"),
                    ("Mcp-Name", "a tool"),
                    ("Mcp-Name", "a tool"),
                ],
                "tools/call",
                call,
                false,
            ),
            (
                vec![version, ("Mcp-Method", "resources/read"), ("Mcp-Name", "a://b")],
                "resources/read",
                json!({"uri": "a://b"}),
                true,
            ),
        ] {
            let checked = check(&headers(&fields), "2026-07-28", method, &params);
            assert_eq!(checked.is_ok(), is_good, "{fields:?} {method}");
        }
    }

    #[test]
    fn mirrored_arguments_of_every_type() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "other": {"type": "string"},
        }});
        let marked = mirrored(&schema);
        assert_eq!(marked.len(), 2);
        for (fields, arguments, is_good) in [
            (vec![], json!({"other": "x"}), true),
            (vec![("Mcp-Param-Region", "north")], json!({"region": "north"}), true),
            (vec![("mcp-param-region", "=?base64?bm9ydGg=?=")], json!({"region": "north"}), true),
            (vec![], json!({"region": "north"}), false),
            (vec![("Mcp-Param-Region", "north")], json!({}), false),
            (vec![("Mcp-Param-Region", "North")], json!({"region": "north"}), false),
            (vec![("Mcp-Param-Count", "7")], json!({"count": 7}), true),
            (vec![("Mcp-Param-Count", "7.0")], json!({"count": 7}), false),
        ] {
            let checked = check_mirrored(&headers(&fields), &marked, &arguments);
            assert_eq!(checked.is_ok(), is_good, "{fields:?} {arguments}");
        }
    }
}
