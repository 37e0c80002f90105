//! The tool call nested in a `brain_command` call.
//!
//! Both calls share one reservation, one deadline, one cancellation token and one idempotency key; each has its own
//! ledger entry.

use std::cell::Cell;

use engine::ledger::{Effect, TouchedItem};
use engine::{ItemId, Micros, hex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use recalld_audit::hash_call;
use recalld_intent::COMMAND;
use recalld_recall::AccessView;
use recalld_tool_framework::writing::{Key, Writing};
use recalld_tool_framework::{Answer, Change, ServiceError, Stored, Tool, ToolContext};

/// Idempotency record of a command. The called tool has a record of its own.
#[derive(Debug, Serialize, Deserialize)]
struct CommandRecord {
    /// Reference time in microseconds since 1970.
    at: i64,
}

/// Idempotency key of a command, and the record of an earlier call with this key.
pub(super) struct Once<'c> {
    writing: Option<Writing<'c>>,
    key: Option<String>,
    /// Time at which the first call with this key interpreted the command.
    first: Option<Micros>,
}

impl<'c> Once<'c> {
    /// Finds an earlier call with this key.
    ///
    /// # Errors
    /// Returns an error if the earlier call had other arguments.
    pub(super) fn begin(
        context: &'c ToolContext<'c>,
        key: &Key,
        raw: &Map<String, Value>,
    ) -> Result<Self, ServiceError> {
        let Some(given) = key else { return Ok(Self { writing: None, key: None, first: None }) };
        // The derived key must differ from the caller's key, which the caller may use for a direct call of the tool.
        let within = hex(&hash_call(COMMAND, &Value::from(given.0.as_str())));
        let writing = Writing::begin(context, COMMAND, key, raw);
        let first = Cell::new(None);
        writing.first_answer(&|_, record: &CommandRecord| {
            first.set(Some(Micros(record.at)));
            Ok(Answer::plain(Value::Null, String::new()))
        })?;
        Ok(Self { writing: Some(writing), key: Some(within), first: first.get() })
    }

    /// Reference time for interpreting the command: the time of the first call, so that `tomorrow` means the same day
    /// in a repeat.
    pub(super) fn now(&self, context: &ToolContext<'_>) -> Micros {
        self.first.unwrap_or_else(|| context.services.clock.now())
    }

    /// Adds the derived idempotency key to the arguments of a writing tool.
    fn hand_on(&self, tool: &Tool, raw: &mut Map<String, Value>) {
        if let Some(key) = self.key.as_ref().filter(|_| tool.change != Change::Nothing) {
            raw.insert("idempotency_key".to_owned(), key.as_str().into());
        }
    }

    /// Records that the command was executed, and its reference time. The tool records its own response.
    fn keep(self, at: Micros) -> Result<(), ServiceError> {
        let Some(writing) = self.writing.filter(|_| self.first.is_none()) else { return Ok(()) };
        let told =
            |_: &AccessView<'_>, _: &CommandRecord| Ok(Answer::plain(Value::Null, String::new()));
        writing.commit(&CommandRecord { at: at.0 }, &told).map(drop)
    }
}

/// Calls the tool and returns its answer. Written items are also recorded in the command's ledger entry, so a command
/// that wrote counts against the quota even if it is answered late.
///
/// # Errors
/// Returns the errors of the tool, rewritten to name the command.
pub(super) fn run(
    context: &ToolContext<'_>,
    tool: &Tool,
    arguments: &Map<String, Value>,
    once: Once<'_>,
) -> Result<Answer, ServiceError> {
    let mut raw = arguments.clone();
    once.hand_on(tool, &mut raw);
    let at = once.now(context);
    let (done, touched) = tool.call_within(context, &raw);
    let written: Vec<TouchedItem> =
        touched.into_iter().filter(|one| one.effect == Effect::Written).collect();
    match done {
        Ok(answer) => {
            if tool.change != Change::Nothing {
                once.keep(at).map_err(|error| after(error, &written))?;
            }
            Ok(Answer { touched: written, ..answer })
        }
        Err(refused) => Err(after(told(tool, refused.error), &written)),
    }
}

/// Rewrites an error of the nested call for the command. The ledger entry of the nested call already has the details.
fn told(tool: &Tool, error: ServiceError) -> ServiceError {
    let within = |field: &str, why: &str| format!("as {field} of {}: {why}", tool.name);
    match error {
        ServiceError::Argument { field, why } if field != "idempotency_key" => {
            ServiceError::argument("command", within(&field, &why))
        }
        ServiceError::Missing { field, why } | ServiceError::Denied { field, why, .. } => {
            ServiceError::Missing { field: "command", why: within(field, &why) }
        }
        other => other,
    }
}

/// Marks an error as partially applied if the nested call had written items.
fn after(error: ServiceError, written: &[TouchedItem]) -> ServiceError {
    if written.is_empty() {
        return error;
    }
    let ids = written.iter().map(|one| ItemId(u128::from_le_bytes(one.item)));
    // Raised and lowered items are in the ledger entry of the nested call.
    let stored = Stored { written: ids.collect(), ..Stored::default() };
    ServiceError::BrokenOff { error: Box::new(error), stored: Box::new(stored) }
}
