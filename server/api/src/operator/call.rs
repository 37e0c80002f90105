//! `POST /operator/call`: calls any tool of the catalog as the operator, in any workspace.
//!
//! The call is audited like a client's; the operator only chooses the workspace.

use serde_json::Map;

use super::{Whose, arguments, body_of, named};
use crate::app_state::AppState;
use crate::rest::Ask;
use crate::service_error::over_http;
use recalld_common::cancel::CancellationToken;
use recalld_common::wants::Wants;
use recalld_http_server::Response;
use recalld_http_server::limits::BODY_BYTES_MAX;
use recalld_http_server::refusal::Refusal;
use recalld_policy::Caller;
use recalld_tool_framework::args::{AnyObject, Text, args};
use recalld_tool_framework::{Answer, ServiceError, Tool, ToolContext};
use recalld_tools::CATALOG;

args! {
    /// Body of `POST /operator/call`.
    pub struct Call {
        tool: Text<1, 128> => "Its name.",
        arguments: Option<AnyObject<BODY_BYTES_MAX>> => "What the tool takes.",
        workspace: Option<Text<1, 40>> => "Whose; the operator's own without it.",
    }
}

/// `POST /operator/call`.
pub fn serve_call(ask: &Ask<'_>) -> Result<Response, Refusal> {
    let raw = arguments(ask.call)?;
    let wanted = Call::parse(&raw).map_err(over_http)?;
    let whose = whose(ask.parts, ask.caller, &wanted, &ask.call.cancel).map_err(over_http)?;
    let context =
        ToolContext { workspace: &whose.workspace, caller: &whose.caller, ..ask.context() };
    let answer = call_as_operator(&context, wanted).map_err(over_http)?;
    Ok(whose.aged(Response::json(200, body_of(answer).to_string().into_bytes())))
}

/// Calls a tool as the operator; also called in-process by a command that has opened the store itself.
///
/// # Errors
/// The tool is unknown or rejects the call.
pub fn call_as_operator(context: &ToolContext<'_>, wanted: Call) -> Result<Answer, ServiceError> {
    let tool = CATALOG
        .find(context.caller, &wanted.tool.0)
        .map_err(|why| ServiceError::argument("tool", why))?;
    let arguments = match wanted.arguments {
        None => Map::new(),
        Some(AnyObject(arguments)) => arguments.as_object().cloned().unwrap_or_default(),
    };
    tool.call(context, &arguments).map_err(|refused| refused.error)
}

/// Opens the workspace of a call, with the operator as the caller.
///
/// # Errors
/// The workspace does not exist or cannot be opened.
pub fn whose(
    parts: &AppState,
    caller: &Caller,
    wanted: &Call,
    cancel: &CancellationToken,
) -> Result<Whose, ServiceError> {
    // An unknown tool is reported by the call itself.
    let wants = CATALOG.find(caller, &wanted.tool.0).map_or(Wants::Reads, Tool::wants);
    Whose::of(parts, caller, named(&wanted.workspace), wants, cancel)
}
