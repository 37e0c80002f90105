//! `docs/tools.md`, generated from the catalog and thus consistent with the tools.

use std::fmt::Write as _;
use std::fs;
use support_wire::tree::workspace;

use recalld_tool_framework::args::Field;
use recalld_tool_framework::results::{Output, RECEIPT};
use recalld_tool_framework::{Change, Family, Tool};
use recalld_tools::CATALOG;
use serde_json::Value;

const HEAD: &str = "\
# The tools

Every tool of the catalog, as its row declares it: `tools/list` gives the same. Made from the rows by a test \
(`RECALLD_TEST_BLESS=1 cargo test -p recalld-cli --test it tools::page`); do not edit it by hand.

What all of them have in common:

- A call whose arguments are wrong is told which argument, what it is and what is allowed; nothing is written.
- Times are RFC 3339; answers give them in UTC. Ids are opaque.
- A list comes in pages, in an order of its own: `truncated` says whether there is more, and `next_cursor` goes on \
from there with the same arguments.
- `idempotency_key` makes a repeat of a call harmless: the same key with the same arguments gives the first answer.
- What policy denies is not there; of what it redacts the title says so.
- Every answer has a `receipt`, {receipt_id, seq, decision, rule, at}: proof of the call's entry in the ledger, which \
was there first.
";

/// The section of a family with its tools.
fn family_part(family: &Family, page: &mut String) {
    write!(page, "\n## {}\n\n{}\n", family.name, family.about).unwrap();
    for tool in family.tools {
        tool_part(tool, page);
    }
}

fn tool_part(tool: &Tool, page: &mut String) {
    let scope =
        tool.scope.map_or("any scope".to_owned(), |scope| format!("scope `{}`", scope.name()));
    let does = match tool.change {
        Change::Nothing => "reads",
        Change::Adds => "writes; doing it again may write again",
        Change::AddsOnce => "writes; doing it again writes nothing more",
        Change::Removes => "hides or erases what is there",
    };
    let about = tool.about;
    write!(page, "\n### {}\n\n{about}\n\n*{}; {scope}; {does}.*\n", tool.name, tool.title).unwrap();
    let fields = (tool.shape)();
    if !fields.is_empty() {
        page.push_str("\n| argument | what | type |\n|---|---|---|\n");
    }
    for field in &fields {
        writeln!(page, "| `{}` | {} | {} |", field.name, field.about, type_of(field)).unwrap();
    }
    page.push_str("\n| result | what | type |\n|---|---|---|\n");
    for field in tool.results.iter().chain([&RECEIPT]) {
        let Output { name, kind, always, about } = field;
        let left_out = if *always { "" } else { ", where there is something to say" };
        writeln!(page, "| `{name}` | {about} | {}{left_out} |", kind.name()).unwrap();
    }
    write!(page, "\nExample: `{}`\n", tool.example).unwrap();
}

/// The type of an argument, with its limits and its default.
fn type_of(field: &Field) -> String {
    let schema = &field.schema;
    let mut said = schema["type"].as_str().unwrap().to_owned();
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        said = format!("one of {}", words.join(", "));
    }
    if let Some(format) = schema["format"].as_str() {
        said = format.to_owned();
    }
    if let Some((min, max)) = field.chars {
        write!(said, " of {min} to {max} characters").unwrap();
    }
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(min), Some(max)) => write!(said, ", {min} to {max}").unwrap(),
        (Some(min), None) => write!(said, ", {min} or more").unwrap(),
        _ => {}
    }
    if let Some(max) = schema.get("maxItems") {
        let min = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let of = schema["items"]["type"].as_str().unwrap();
        write!(said, " of {min} to {max}, each of type {of}").unwrap();
    }
    match schema.get("default") {
        Some(default) => format!("{said}; {default} if left out"),
        None if field.required => format!("{said}; needed"),
        None => said,
    }
}

#[test]
fn the_page_of_tools_says_what_the_rows_say() {
    let mut page = HEAD.to_owned();
    for family in CATALOG.families() {
        family_part(family, &mut page);
    }
    let path = workspace().join("docs/tools.md");
    if std::env::var_os("RECALLD_TEST_BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/tools.md is not what the rows say; run this test with RECALLD_TEST_BLESS=1 and commit the file"
    );
}

#[test]
fn every_field_of_every_result_is_described() {
    for tool in CATALOG.tools() {
        for field in tool.results.iter().chain([&RECEIPT]) {
            assert!(!field.about.is_empty(), "{}.{}", tool.name, field.name);
            assert!(!field.about.contains('|') && field.about.is_ascii(), "{}", field.about);
        }
    }
}
