//! What pages ask of the tools: to read in any workspace, and to change an item.
//!
//! Owns which tools a page may call, and when that takes a session. Must not know what a tool does: each is the
//! governed call that a client makes of it.

use serde_json::{Map, Value};

use super::{CONSOLE_BODY_BYTES_MAX, answer, body, check_session};
use crate::operator::{Whose, named};
use crate::rest::Ask;
use crate::service_error::over_http;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_common::wants::Wants;
use recalld_http_server::Response;
use recalld_http_server::refusal::Refusal;
use recalld_tool_framework::args::{AnyObject, Text, args};
use recalld_tool_framework::{Answer, Change, Context, Refused, Tool};
use recalld_tools::{CATALOG, would_forget};

const FORGET: &str = "forget_item_tool";
/// Tools that change an item for a page.
const CHANGING: [&str; 2] = ["supersede_item_tool", FORGET];

args! {
    /// What `POST /console/call` takes.
    pub struct Wanted {
        tool: Text<1, 128> => "Its name.",
        arguments: Option<AnyObject<CONSOLE_BODY_BYTES_MAX>> => "What the tool takes.",
        workspace: Option<Text<1, 40>> => "Whose; the operator's own without it.",
    }
}

args! {
    /// What `POST /console/change` takes.
    pub struct Changed {
        tool: Text<1, 128> => "Its name.",
        arguments: Option<AnyObject<CONSOLE_BODY_BYTES_MAX>> => "What the tool takes.",
        workspace: Option<Text<1, 40>> => "Whose; the operator's own without it.",
        dry_run: bool = false => "Only say what would go.",
    }
}

/// `POST /console/call`: one call of a tool that reads.
///
/// # Errors
/// There is no such tool, it does more than read, it is about a tenant and nobody is signed in, or it refuses.
pub fn call(ask: &Ask<'_>) -> Result<Response, Refusal> {
    let wanted = Wanted::parse(&body(ask.call)?).map_err(over_http)?;
    let tool = known(ask, &wanted.tool.0)?;
    if tool.change != Change::Nothing {
        let why = format!("{} changes something; here are only tools that read", tool.name);
        return Err(Refusal::new(403, &why));
    }
    let workspace = named(&wanted.workspace);
    if workspace.is_some_and(|name| name != LOCAL_WORKSPACE) {
        check_session(ask.parts, ask.call)?;
    }
    let given = given(wanted.arguments);
    within(ask, workspace, Wants::Reads, |context| tool.call(context, &given))
}

/// `POST /console/change`: an item is corrected or forgotten, or what would go is told.
///
/// # Errors
/// It is another tool, or it refuses.
pub fn change(ask: &Ask<'_>) -> Result<Response, Refusal> {
    let wanted = Changed::parse(&body(ask.call)?).map_err(over_http)?;
    let tool = known(ask, &wanted.tool.0)?;
    if !CHANGING.contains(&tool.name) {
        let why =
            format!("{} is none of those that a page may call: {}", tool.name, CHANGING.join(", "));
        return Err(Refusal::new(403, &why));
    }
    if wanted.dry_run && tool.name != FORGET {
        return Err(Refusal::new(422, &format!("dry_run: only of {FORGET}")));
    }
    let given = given(wanted.arguments);
    let wants = if wanted.dry_run { Wants::Reads } else { Wants::Writes };
    within(ask, named(&wanted.workspace), wants, |context| match wanted.dry_run {
        true => would_forget(context, &given),
        false => tool.call(context, &given),
    })
}

fn known(ask: &Ask<'_>, tool: &str) -> Result<&'static Tool, Refusal> {
    CATALOG.find(ask.caller, tool).map_err(|why| Refusal::new(404, &why))
}

fn given(arguments: Option<AnyObject<CONSOLE_BODY_BYTES_MAX>>) -> Map<String, Value> {
    arguments.and_then(|given| given.0.as_object().cloned()).unwrap_or_default()
}

/// Does the call as the operator in that workspace, and gives its structured result.
fn within(
    ask: &Ask<'_>,
    workspace: Option<&str>,
    wants: Wants,
    work: impl FnOnce(&Context<'_>) -> Result<Answer, Refused>,
) -> Result<Response, Refusal> {
    let whose = Whose::of(ask.parts, ask.caller, workspace, wants).map_err(over_http)?;
    let context = Context { workspace: &whose.workspace, caller: &whose.caller, ..ask.context() };
    let done = work(&context).map_err(|refused| over_http(refused.error))?;
    Ok(whose.aged(answer(&done.structured)))
}
