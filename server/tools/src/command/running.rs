//! The call that a command leads to, within the call of the command.
//!
//! Owns how the two go together: one reservation, one deadline, one cancel; an entry in the ledger for each; one key
//! for both. Knows no words.

use std::cell::Cell;

use engine::ledger::{Effect, Touched};
use engine::{ItemId, Micros, Snapshot, hex};
use serde_json::{Map, Value, json};

use recalld_audit::hash_call;
use recalld_intent::COMMAND;
use recalld_tool_framework::writing::{Key, Writing};
use recalld_tool_framework::{Answer, Change, Context, ServiceError, Stored, Tool};

/// The key of a command, and what is on record of an earlier one with the same.
pub(super) struct Once<'c> {
    writing: Option<Writing<'c>>,
    key: Option<String>,
    /// When the command was understood first.
    first: Option<Micros>,
}

impl<'c> Once<'c> {
    /// Looks for an earlier call with this key.
    ///
    /// # Errors
    /// It had other arguments.
    pub(super) fn begin(
        context: &'c Context<'c>,
        key: &Key,
        raw: &Map<String, Value>,
    ) -> Result<Self, ServiceError> {
        let Some(given) = key else { return Ok(Self { writing: None, key: None, first: None }) };
        // Whoever uses the same key for a tool by its name means another call.
        let within = hex(&hash_call(COMMAND, &Value::from(given.0.as_str())));
        let writing = Writing::begin(context, COMMAND, key, raw);
        let first = Cell::new(None);
        writing.first_answer(&|_, kept| {
            first.set(kept["at"].as_i64().map(Micros));
            Ok(Answer::plain(Value::Null, String::new()))
        })?;
        Ok(Self { writing: Some(writing), key: Some(within), first: first.get() })
    }

    /// The time by which the words of the command are read: that of the first call, so that a repeat of `tomorrow`
    /// means the same day.
    pub(super) fn now(&self, context: &Context<'_>) -> Micros {
        self.first.unwrap_or_else(|| context.services.clock.now())
    }

    /// Gives the call within its key, which is of the command's alone.
    fn hand_on(&self, tool: &Tool, raw: &mut Map<String, Value>) {
        if let Some(key) = self.key.as_ref().filter(|_| tool.change != Change::Nothing) {
            raw.insert("idempotency_key".to_owned(), key.as_str().into());
        }
    }

    /// Puts on record that the command was done, and when it was understood; what it wrote is the tool's to tell.
    fn keep(self, at: Micros) -> Result<(), ServiceError> {
        let Some(writing) = self.writing.filter(|_| self.first.is_none()) else { return Ok(()) };
        let told = |_: &Snapshot, _: &Value| Ok(Answer::plain(Value::Null, String::new()));
        writing.commit(&json!({"at": at.0}), &told).map(drop)
    }
}

/// Calls the tool, and gives its answer: what was written is told to the command's own entry, too, so that a command
/// that wrote counts, however late it is answered.
///
/// # Errors
/// Those of the tool, which say that it was called by a command.
pub(super) fn run(
    context: &Context<'_>,
    tool: &Tool,
    arguments: &Map<String, Value>,
    once: Once<'_>,
) -> Result<Answer, ServiceError> {
    let mut raw = arguments.clone();
    once.hand_on(tool, &mut raw);
    let at = once.now(context);
    let (done, touched) = tool.call_within(context, &raw);
    let written: Vec<Touched> =
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

/// The error of the call within, as the command's own: its entry in the ledger has what is behind it already.
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

/// An error that came after something had been written.
fn after(error: ServiceError, written: &[Touched]) -> ServiceError {
    if written.is_empty() {
        return error;
    }
    let ids = written.iter().map(|one| ItemId(u128::from_le_bytes(one.item)));
    // What was raised or lowered is in the entry of the call within.
    let stored = Stored { written: ids.collect(), ..Stored::default() };
    ServiceError::BrokenOff { error: Box::new(error), stored: Box::new(stored) }
}
