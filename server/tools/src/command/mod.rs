//! `brain_command`: routes a command in plain words to a tool.
//!
//! Contains the catalog row, and the check which tools the caller may be routed to. `recalld-intent` interprets the
//! words.

mod running;

use serde::Serialize;
use serde_json::{Map, Value, json};

use recalld_common::scope::Scope;
use recalld_intent::{COMMAND, Choice, RoutedCommand, likely, understand};
use recalld_tool_framework::args::{Text, args};
use recalld_tool_framework::results::{Kind, always, sometimes};
use recalld_tool_framework::writing::Key;
use recalld_tool_framework::{Answer, Change, Profile, ServiceError, Tool, ToolContext};
use running::Once;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum characters of a command.
    const COMMAND_CHARS_MAX: usize = 2048;
}

args! {
    struct Command {
        command: Text<1, COMMAND_CHARS_MAX> => "One thing, in plain words; ids, paths and texts in quotes help.",
        dry_run: bool = false => "Only say what would be called.",
        confirm: bool = false => "Do it though it writes.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: COMMAND,
    title: "Command",
    about: "Say in plain words what you want; the tool for it is found by rules, and called. What writes is only \
            called with confirm, else you are told what it would do. If you know the tool, call it yourself.",
    shape: Command::shape,
    results: &[
        sometimes("routed_to", Kind::Text).says("The tool; left out where it cannot be told."),
        always("arguments", Kind::Object).says("What it takes, as the command says it."),
        always("confidence", Kind::Number)
            .says("From 0 to 1: how surely the command is for this tool."),
        always("why", Kind::Text).says("By which words; or why it cannot be told."),
        always("alternatives", Kind::List)
            .says("Others that it may be for: {tool, confidence, why}."),
        always("executed", Kind::Flag).says("Whether the tool was called."),
        sometimes("needs", Kind::List)
            .says("Arguments that the tool must have and the command does not say."),
        sometimes("would", Kind::Text).says("What would be called, and what is missing for it."),
        sometimes("result", Kind::Object)
            .says("The tool's own result, as long as that may be, with its own receipt."),
    ],
    scope: Some(Scope::BrainProxy),
    change: Change::Removes,
    core: false,
    run: |context, raw| command(context, raw),
    example: r#"{"command": "remember that the wick is trimmed at noon", "confirm": true}"#,
};

/// The result.
#[derive(Debug, Default, Serialize)]
struct CommandAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    routed_to: Option<&'static str>,
    arguments: Map<String, Value>,
    confidence: f64,
    why: String,
    alternatives: Vec<Alternative>,
    /// Arguments that the command does not contain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needs: Vec<&'static str>,
    executed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    would: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
}

/// Another tool that the command may mean.
#[derive(Debug, Serialize)]
struct Alternative {
    tool: String,
    confidence: f64,
    why: String,
}

fn command(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Command::parse(raw)?;
    let text = &wanted.command.0;
    let once = Once::begin(context, &wanted.idempotency_key, raw)?;
    let kinds = context.snapshot().item_counts()?.kinds;
    let kinds: Vec<String> = kinds.into_keys().map(|kind| kind.to_lowercase()).collect();
    let RoutedCommand { chosen, others, why_not } =
        understand(text, once.now(context), &kinds, context.services.catalog);
    let alternatives = alternatives(context, text, &others);
    let tool = chosen.as_ref().map(|choice| usable(context, choice.tool));
    let (choice, tool) = match (chosen, tool) {
        (Some(choice), Some(Some(tool))) => (choice, tool),
        (Some(_), _) => return Ok(untold("no tool that you may use does that", alternatives)),
        _ => return Ok(untold(&why_not, alternatives)),
    };
    let missing = missing(&choice, tool, wanted.dry_run, wanted.confirm);
    let mut shown = CommandAnswer {
        routed_to: Some(tool.name),
        arguments: choice.arguments,
        confidence: confidence(choice.sure),
        why: choice.why,
        alternatives,
        needs: choice.needs,
        ..CommandAnswer::default()
    };
    if let Some(missing) = missing {
        let arguments = json!(shown.arguments);
        let would = format!("{} would be called with {arguments}; {missing}", tool.name);
        shown.would = Some(would.clone());
        return Ok(Answer::plain(json!(shown), would));
    }
    let mut answer = running::run(context, tool, &shown.arguments, once)?;
    let text = format!("{} was called, {}.\n{}", tool.name, shown.why, answer.text);
    shown.executed = true;
    shown.result = Some(answer.take_content());
    Ok(Answer { structured: json!(shown), text, ..answer })
}

/// Reason for not calling the tool; `None` if the call may proceed.
fn missing(choice: &Choice, tool: &Tool, dry_run: bool, confirm: bool) -> Option<String> {
    if !choice.needs.is_empty() {
        return Some(format!("the command does not say its {}", choice.needs.join(", ")));
    }
    let is_write = tool.change != Change::Nothing;
    match (dry_run, is_write && !confirm) {
        (true, _) => Some("this is a dry run".to_owned()),
        (_, true) => Some("it writes, so confirm is wanted".to_owned()),
        _ => None,
    }
}

/// Response for a command that cannot be routed.
fn untold(why: &str, alternatives: Vec<Alternative>) -> Answer {
    let named: Vec<&str> = alternatives.iter().map(|one| &*one.tool).collect();
    let near =
        if named.is_empty() { String::new() } else { format!(" Near it: {}.", named.join(", ")) };
    let text = format!("I can't tell what is wanted: {why}.{near}");
    let shown = CommandAnswer { why: why.to_owned(), alternatives, ..CommandAnswer::default() };
    Answer::plain(json!(shown), text)
}

/// Finds a tool that the caller may use, other than `brain_command` itself.
fn usable(context: &ToolContext<'_>, name: &str) -> Option<&'static Tool> {
    let mut tools = context.services.catalog.visible_to(context.caller, Profile::Full);
    tools.find(|tool| tool.name == name && tool.name != COMMAND)
}

/// Other candidates that the caller may use: from the rules, or, if there are none, by word overlap with the catalog
/// rows.
fn alternatives(context: &ToolContext<'_>, text: &str, others: &[Choice]) -> Vec<Alternative> {
    let row = |tool: &str, sure: u8, why: &str| Alternative {
        tool: tool.to_owned(),
        confidence: confidence(sure),
        why: why.to_owned(),
    };
    let by_cues = others.iter().filter(|choice| usable(context, choice.tool).is_some());
    let by_cues: Vec<Alternative> =
        by_cues.map(|choice| row(choice.tool, choice.sure, &choice.why)).collect();
    if !by_cues.is_empty() {
        return by_cues;
    }
    let tools = context.services.catalog.visible_to(context.caller, Profile::Full);
    let tools = tools.filter(|tool| tool.name != COMMAND);
    likely(text, tools).into_iter().map(|(tool, sure, why)| row(tool, sure, &why)).collect()
}

fn confidence(sure: u8) -> f64 {
    f64::from(sure) / 100.0
}
