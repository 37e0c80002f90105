//! Tool calls by the operator: in-process, or through the running server that has the store.

use std::time::Instant;

use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::remote::Remote;
use crate::app::Started;
use recalld_api::app_state::AppState;
use recalld_api::operator::call;
use recalld_api::operator::call::{Call, call_as_operator};
use recalld_common::cancel::CancellationToken;
use recalld_policy::Caller;
use recalld_policy::limits::CALL_TIME_MAX;
use recalld_tool_framework::{ServiceError, ToolContext};

/// A tool's response, for programs and for people.
pub(super) struct Told {
    pub(super) structured: Value,
    pub(super) text: String,
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        let why = error.to_string();
        match error {
            ServiceError::Argument { .. } => Self::Usage(why),
            ServiceError::Missing { .. } | ServiceError::Denied { .. } => Self::No(why),
            _ => Self::Could(why),
        }
    }
}

/// The executor of tool calls.
pub(super) enum Desk {
    Alone(Box<Started>),
    Beside(Box<Remote>),
}

impl Desk {
    /// Opens the store, or finds the server that has the store open. The store stays open until `self` is dropped.
    pub(super) fn open(common: &Common) -> Result<Self, Failure> {
        match common.start_alone()? {
            Some(started) => Ok(Self::Alone(Box::new(started))),
            None => Ok(Self::Beside(Box::new(Remote::find(&common.data()?)?))),
        }
    }

    /// Calls a tool in the operator's workspace, or in a tenant's.
    pub(super) fn call(
        &self,
        workspace: Option<&str>,
        tool: &'static str,
        arguments: Value,
    ) -> Result<Told, Failure> {
        let mut raw = Map::new();
        raw.insert("tool".to_owned(), tool.into());
        raw.insert("arguments".to_owned(), arguments);
        if let Some(workspace) = workspace {
            raw.insert("workspace".to_owned(), workspace.into());
        }
        match self {
            Self::Alone(started) => alone(&started.parts, &raw),
            Self::Beside(remote) => {
                let mut answer = remote.administer("/operator/call", &Value::Object(raw))?;
                let text = answer["text"].as_str().unwrap_or_default().to_owned();
                Ok(Told { structured: answer["structured"].take(), text })
            }
        }
    }
}

/// Opens a client for a single call.
pub(super) fn call(
    common: &Common,
    workspace: Option<&str>,
    tool: &'static str,
    arguments: Value,
) -> Result<Told, Failure> {
    Desk::open(common)?.call(workspace, tool, arguments)
}

fn alone(parts: &AppState, raw: &Map<String, Value>) -> Result<Told, Failure> {
    let wanted = Call::parse(raw)?;
    let (caller, cancel) = (Caller::local_operator(parts.local.name()), &CancellationToken::new());
    let whose = call::whose(parts, &caller, &wanted, cancel)?;
    let context = ToolContext {
        services: parts.tool_services(),
        workspace: &whose.workspace,
        caller: &whose.caller,
        cancel,
        deadline: Instant::now() + CALL_TIME_MAX,
        progress: None,
    };
    let mut answer = call_as_operator(&context, wanted)?;
    Ok(Told { structured: answer.take_content(), text: answer.text })
}

/// Drops null fields and empty arrays.
pub(super) fn given(fields: Value) -> Value {
    let Value::Object(fields) = fields else { return json!({}) };
    let is_given =
        |value: &Value| !value.is_null() && value.as_array().is_none_or(|it| !it.is_empty());
    Value::Object(fields.into_iter().filter(|(_, value)| is_given(value)).collect())
}
