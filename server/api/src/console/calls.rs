//! Tool calls of the console's pages: reads in any workspace, and changes of an item.
//!
//! Defines which tools a page may call and which calls require a session. Independent of the tools: each call is the
//! audited call of a client.

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
use recalld_tool_framework::{Answer, Change, Refused, Tool, ToolContext};
use recalld_tools::{CATALOG, would_forget};

const FORGET: &str = "forget_item_tool";
/// Tools that change an item for a page.
const CHANGING: [&str; 2] = ["supersede_item_tool", FORGET];

args! {
    /// Body of `POST /console/call`.
    pub struct Wanted {
        tool: Text<1, 128> => "Its name.",
        arguments: Option<AnyObject<CONSOLE_BODY_BYTES_MAX>> => "What the tool takes.",
        workspace: Option<Text<1, 40>> => "Whose; the operator's own without it.",
    }
}

args! {
    /// Body of `POST /console/change`.
    pub struct Changed {
        tool: Text<1, 128> => "Its name.",
        arguments: Option<AnyObject<CONSOLE_BODY_BYTES_MAX>> => "What the tool takes.",
        workspace: Option<Text<1, 40>> => "Whose; the operator's own without it.",
        dry_run: bool = false => "Only say what would go.",
    }
}

/// `POST /console/call`: calls a read-only tool.
///
/// # Errors
/// The tool is unknown or not read-only, a tenant's workspace is named without a session, or the tool rejects the call.
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

/// `POST /console/change`: corrects or forgets an item, or previews a deletion.
///
/// # Errors
/// The tool may not be called by a page, or rejects the call.
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

/// Runs `work` as the operator in the workspace and returns the structured result.
fn within(
    ask: &Ask<'_>,
    workspace: Option<&str>,
    wants: Wants,
    work: impl FnOnce(&ToolContext<'_>) -> Result<Answer, Refused>,
) -> Result<Response, Refusal> {
    let whose =
        Whose::of(ask.parts, ask.caller, workspace, wants, &ask.call.cancel).map_err(over_http)?;
    let context =
        ToolContext { workspace: &whose.workspace, caller: &whose.caller, ..ask.context() };
    let mut done = work(&context).map_err(|refused| over_http(refused.error))?;
    Ok(whose.aged(answer(&done.take_content())))
}
