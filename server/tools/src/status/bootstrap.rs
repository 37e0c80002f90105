//! `brain_operational_bootstrap_tool`: rules, tools, bounds and endpoints for a new client.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::instructions::INSTRUCTIONS;
use crate::recall::arbitrate::bounds_json;
use recalld_common::scope::Scope;
use recalld_recall::Bounds;
use recalld_tool_framework::args::args;
use recalld_tool_framework::paging::{PAGE_BYTES_MAX, ROWS_MAX};
use recalld_tool_framework::results::{Kind, always};
use recalld_tool_framework::{Answer, Change, Profile, ServiceError, Tool, ToolContext};

args! {
    struct Bootstrap {}
}

/// Rules for clients.
const RULES: [&str; 6] = [
    INSTRUCTIONS,
    "An item that is superseded comes with what stands now; ground an answer on what is current.",
    "Cite the grounding token of what an answer rests on.",
    "A change is a new item that supersedes the old one, never an overwrite.",
    "What policy redacts or denies is not to be guessed at; routing.withheld says that something was kept \
     back.",
    "An idempotency_key makes a repeat of a write harmless.",
];

pub(super) const BOOTSTRAP: Tool = Tool {
    name: "brain_operational_bootstrap_tool",
    title: "How to use this service",
    about: "The rules of use, your tools by family, the bounds, the model and the endpoints. Ask once, at the start.",
    shape: Bootstrap::shape,
    results: &[
        always("rules", Kind::List).says("What a client is to do, as texts."),
        always("families", Kind::List)
            .says("Each {family, about, tools}; the tools, {name, title}, that this caller may use."),
        always("bounds", Kind::Object)
            .says("recall: those of the router; page: rows and bytes of a list; call_seconds; text_bytes."),
        always("model", Kind::Object).says("name, dimensions, kernel, precision."),
        always("endpoints", Kind::Object).says("Paths of the service: mcp, recall, health and others."),
        always("version", Kind::Text).says("That of the service."),
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| bootstrap(context, raw),
    example: "{}",
};

fn bootstrap(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    Bootstrap::parse(raw)?;
    let families = families(context);
    let embedder = context.view().embedder;
    let mut text = RULES.join("\n");
    for FamilyFacts { family, tools, .. } in &families {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
        text.push_str(&format!("\n{family}: {}", names.join(", ")));
    }
    let structured = json!({
        "rules": RULES, "families": families,
        "bounds": {
            "recall": bounds_json(&Bounds::GOVERNED),
            "page": {"rows": ROWS_MAX, "bytes": PAGE_BYTES_MAX},
            "call_seconds": context.services.call_time_max.as_secs(),
            "text_bytes": crate::limits::TEXT_BYTES_MAX,
        },
        "model": {
            "name": embedder.name(), "dimensions": embedder.model().dimensions,
            "kernel": embedder.kernel(), "precision": embedder.precision(),
        },
        "endpoints": endpoints(context),
        "version": env!("CARGO_PKG_VERSION"),
    });
    Ok(Answer::plain(structured, text))
}

/// A family, with the tools that the caller may use.
#[derive(Debug, Serialize)]
pub(super) struct FamilyFacts {
    pub(super) family: &'static str,
    about: &'static str,
    pub(super) tools: Vec<ToolFacts>,
}

#[derive(Debug, Serialize)]
pub(super) struct ToolFacts {
    name: &'static str,
    title: &'static str,
}

/// Families with the caller's tools, in catalog order.
pub(super) fn families(context: &ToolContext<'_>) -> Vec<FamilyFacts> {
    let catalog = context.services.catalog;
    let usable: Vec<&str> =
        catalog.visible_to(context.caller, Profile::Full).map(|tool| tool.name).collect();
    let mut families = Vec::new();
    for family in catalog.families() {
        let tools = family.tools.iter().filter(|tool| usable.contains(&tool.name));
        let tools: Vec<ToolFacts> =
            tools.map(|tool| ToolFacts { name: tool.name, title: tool.title }).collect();
        if !tools.is_empty() {
            families.push(FamilyFacts { family: family.name, about: family.about, tools });
        }
    }
    families
}

/// Endpoints of the service, with the public URL as prefix if known.
fn endpoints(context: &ToolContext<'_>) -> Value {
    let base = context.services.issuer.map(str::to_owned);
    let base = base.unwrap_or_default();
    let at = |path: &str| format!("{base}{path}");
    json!({
        "mcp": at("/mcp"), "recall": at("/recall"), "semantic_recall": at("/semantic-recall"),
        "stats": at("/stats"), "health": at("/health"), "openapi": at("/openapi.json"),
    })
}
