//! What every governed call has in common: its entry in the ledger, and its receipt.

use std::fmt;
use std::time::{Duration, Instant};

use engine::ledger::{Decision, Effect, Outcome};
use serde_json::{Value, json};

use super::{Answer, BY_SCOPE, Context, ToolError, touched};
use crate::govern::meter::{Refusal, Reservation};
use crate::govern::{Trace, hash_arguments};
use crate::metrics::Stage;
use crate::parts::Caller;
use crate::workspace::Workspace;

/// A governed call that gave no answer.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: ToolError,
    /// Proof of its entry; `None` when the ledger takes no entries.
    pub receipt: Option<Value>,
}

impl From<ToolError> for Refused {
    fn from(error: ToolError) -> Self {
        Self { error, receipt: None }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refused {}

/// The reservation of a call out of its workspace's quota; none for the operator of this machine.
fn reserve(context: &Context<'_>) -> Result<Option<Reservation>, ToolError> {
    let Some(metered) = &context.caller.metered else { return Ok(None) };
    let (parts, now) = (context.parts, context.parts.clock.now());
    let quota = metered.calls_per_month;
    let reserved = parts.meter.reserve(&context.caller.workspace, quota, now);
    reserved.map(Some).map_err(|refusal| match refusal {
        Refusal::QuotaExceeded { resets_at } => {
            let micros = u64::try_from(resets_at.0.saturating_sub(now.0)).unwrap_or(0);
            ToolError::QuotaExceeded { resets_at, wait: Duration::from_micros(micros) }
        }
        Refusal::Unavailable(why) => ToolError::Unmetered(why.to_string()),
    })
}

/// The rule's name where a call asks for what its caller has not: no such tool, or a scope that is missing.
pub const NOT_ENTITLED: &str = "fixed/not-entitled";

/// The rule's name where it is not known for whom a call is made.
pub const NOT_IDENTIFIED: &str = "fixed/not-identified";

/// Whether it is known for whom the call is made, as far as it has to be.
fn identify(context: &Context<'_>) -> Result<(), ToolError> {
    let identity = context.caller.turn.identity();
    identity.map(drop).map_err(|fault| ToolError::Unidentified(fault.clone()))
}

/// Leaves the entry of a call that is refused before anything is looked at.
///
/// # Errors
/// The ledger takes no entries.
pub fn record_refusal(
    workspace: &Workspace,
    caller: &Caller,
    operation: &'static str,
    arguments: &Value,
) -> Result<(), ToolError> {
    let trace = Trace {
        tool: operation,
        principal: caller.in_ledger(),
        arguments: hash_arguments(&json!({"tool": operation, "arguments": arguments})),
        decision: Decision::Deny,
        rule: NOT_ENTITLED.to_owned(),
        touched: Vec::new(),
        outcome: Outcome::Refused,
    };
    let recorded = workspace.audit.record(&trace, false);
    let recorded = recorded.map(drop).map_err(|error| ToolError::Unaudited(error.to_string()));
    recorded.map_err(|error| told(caller, error))
}

/// An error as this caller is told of it.
fn told(caller: &Caller, error: ToolError) -> ToolError {
    if caller.metered.is_some() { error.for_tenants() } else { error }
}

/// Does `work`, leaves its entry in the ledger, and gives the answer with its receipt. No entry,
/// no answer; a refusal has one too. `at_once` waits until the entry is on disk.
pub fn governed(
    context: &Context<'_>,
    operation: &'static str,
    arguments: &Value,
    at_once: bool,
    work: impl FnOnce(&Context<'_>) -> Result<Answer, ToolError>,
) -> Result<Answer, Refused> {
    recorded(context, operation, arguments, at_once, work).map_err(|refused| {
        let Refused { error, receipt } = refused;
        Refused { error: told(context.caller, error), receipt }
    })
}

fn recorded(
    context: &Context<'_>,
    operation: &'static str,
    arguments: &Value,
    at_once: bool,
    work: impl FnOnce(&Context<'_>) -> Result<Answer, ToolError>,
) -> Result<Answer, Refused> {
    if let Some(why) = context.workspace.audit.failure() {
        return Err(ToolError::Unaudited(why).into()); // before anything is written
    }
    // No reservation, no call; one that is not committed is released.
    let (mut outcome, reservation) = match identify(context).and_then(|()| reserve(context)) {
        Ok(reservation) => (work(context), reservation),
        Err(error) => (Err(error), None),
    };
    // What became of items is recorded whether or not the answer is still given.
    let touched_items = match &mut outcome {
        Ok(answer) => std::mem::take(&mut answer.touched),
        Err(ToolError::BrokenOff { written, .. }) => {
            written.iter().map(|&id| touched(Effect::Written, id)).collect()
        }
        Err(_) => Vec::new(),
    };
    if let Err(ToolError::BrokenOff { error, .. }) = outcome {
        outcome = Err(*error);
    }
    if Instant::now() >= context.deadline {
        outcome = Err(ToolError::TimedOut { limit: context.parts.call_time_max });
    } else if !at_once && context.cancel.is_raised() {
        outcome = Err(ToolError::Cancelled);
    }
    let mut trace = Trace {
        tool: operation,
        principal: context.caller.in_ledger(),
        arguments: hash_arguments(&json!({"tool": operation, "arguments": arguments})),
        decision: Decision::Allow,
        rule: BY_SCOPE.to_owned(),
        touched: touched_items,
        outcome: Outcome::Done,
    };
    match &outcome {
        Ok(answer) => {
            trace.decision = answer.decision;
            trace.rule.clone_from(&answer.rule);
        }
        Err(error) => {
            trace.outcome = error.outcome();
            match error {
                ToolError::Denied { item, rule, .. } => {
                    trace.decision = Decision::Deny;
                    trace.rule.clone_from(rule);
                    trace.touched.push(touched(Effect::Withheld, *item));
                }
                ToolError::Unidentified(_) => {
                    trace.decision = Decision::Deny;
                    trace.rule = NOT_IDENTIFIED.to_owned();
                }
                _ => {}
            }
        }
    }
    let began = Instant::now();
    let recorded = context.workspace.audit.record(&trace, at_once);
    context.parts.stages.record(Stage::Ledger, began.elapsed());
    let receipt = recorded.map_err(|error| ToolError::Unaudited(error.to_string()))?;
    match outcome {
        Ok(mut answer) => {
            if let Some(reservation) = reservation {
                reservation.commit();
            }
            answer.structured["receipt"] = receipt.to_json();
            Ok(answer)
        }
        Err(error) => Err(Refused { error, receipt: Some(receipt.to_json()) }),
    }
}
