use serde_json::{Value, json};

use super::*;

args! {
    struct Sample {
        text: Text<1, 5> => "A text.",
        hops: Int<1, 6> = Int(4) => "A number.",
        tags: Option<List<Text<1, 3>, 0, 2>> => "A list.",
        deep: bool = false => "A flag.",
    }
}

fn parse(json: Value) -> Result<Sample, String> {
    let raw = json.as_object().cloned().unwrap();
    Sample::parse(&raw).map_err(|error| error.to_string())
}

#[test]
fn the_schema_says_what_the_parser_does() {
    let schema = input_schema(&Sample::shape());
    assert_eq!(schema["required"], json!(["text"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert_eq!(
        schema["properties"]["tags"],
        json!({
            "type": "array", "items": {"type": "string"}, "maxItems": 2, "description": "A list.",
        })
    );
    let hops = json!({
        "type": "integer", "minimum": 1, "maximum": 6, "default": 4, "description": "A number.",
    });
    assert_eq!(schema["properties"]["hops"], hops);
}

#[test]
fn what_is_left_out_has_its_default() {
    let sample = parse(json!({"text": "abc"})).unwrap();
    assert_eq!((sample.text.0.as_str(), sample.hops.0, sample.deep), ("abc", 4, false));
    assert_eq!(sample.tags, None);
}

#[test]
fn strings_of_json_are_understood_where_no_text_is_wanted() {
    let sample = parse(json!({
        "text": "1", "hops": "6", "deep": "true", "tags": "[\"a\",\"b\"]",
    }));
    let sample = sample.unwrap();
    assert_eq!((sample.text.0.as_str(), sample.hops.0, sample.deep), ("1", 6, true));
    assert_eq!(sample.tags.unwrap().0.len(), 2);
    assert_eq!(parse(json!({"text": "a", "hops": 6.0})).unwrap().hops.0, 6);
    assert_eq!(parse(json!({"text": "a", "hops": "6.0"})).unwrap().hops.0, 6);
}

#[test]
fn a_source_may_come_as_a_string_and_its_fields_are_known_again() {
    let source = SourceGiven::read(&json!("{\"uri\": \"file:///a\"}")).unwrap();
    assert_eq!((source.uri.as_str(), source.title.as_str()), ("file:///a", ""));
    let error = SourceGiven::read(&json!({"url": "x"})).unwrap_err();
    assert!(error.contains("did you mean `uri`?"), "{error}");
    let error = SourceGiven::read(&json!({"uri": "x", "author": "y"})).unwrap_err();
    assert!(error.contains("uri and title are allowed"), "{error}");
}

#[test]
fn errors_name_the_field_and_what_is_allowed() {
    for (given, words) in [
        (json!({}), "text: is missing"),
        (json!({"text": ""}), "text: has 0 characters; 1 to 5 are allowed"),
        (json!({"text": 7}), "text: is the number 7; a string is wanted"),
        (json!({"text": "a", "hops": 0}), "hops: is 0; 1 to 6 is allowed"),
        (json!({"text": "a", "hops": 1.5}), "an integer is wanted"),
        (json!({"text": "a", "tags": ["a", "b", "c"]}), "has 3 members; 0 to 2"),
        (json!({"text": "a", "tags": ["long"]}), "member 0 has 4 characters"),
        (json!({"text": "a", "hopps": 1}), "did you mean `hops`?"),
        (json!({"text": "a", "completely_else": 1}), "it takes text, hops, tags, deep"),
    ] {
        let error = parse(given.clone()).unwrap_err();
        assert!(error.contains(words), "{given}: {error}");
    }
}
