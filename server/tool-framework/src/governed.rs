//! Audited calls: every governed call gets an entry in the ledger, and a receipt for the entry.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use engine::ledger::{Decision, Effect, Outcome, TouchedItem};
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{Answer, touched};
use super::context::ToolContext;
use super::tool::{Change, Tool};
use crate::error::{ServiceError, Stored};
use recalld_audit::{BY_SCOPE, Receipt, Trace, hash_call};
use recalld_policy::Caller;
use recalld_policy::meter::{Refusal, Reservation};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value as Field};
use recalld_telemetry::metrics::Stage;
use recalld_workspace::workspace::Workspace;

/// Error of a governed call.
#[derive(Debug)]
pub struct Refused {
    /// The error for the caller.
    pub error: ServiceError,
    /// Proof of the ledger entry; `None` if the ledger does not accept entries.
    pub receipt: Option<Box<Receipt>>,
}

impl From<ServiceError> for Refused {
    fn from(error: ServiceError) -> Self {
        Self { error, receipt: None }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Refused {}

/// Reserves one call from the quota of the workspace; `None` for the operator of this machine, who has no quota.
fn reserve(context: &ToolContext<'_>) -> Result<Option<Reservation>, ServiceError> {
    let Some(metered) = &context.caller.metered else { return Ok(None) };
    let (services, now) = (context.services, context.services.clock.now());
    let quota = metered.calls_per_month;
    let reserved = services.meter.reserve(&context.caller.workspace, quota, now);
    reserved.map(Some).map_err(|refusal| match refusal {
        Refusal::QuotaExceeded { resets_at } => {
            let micros = u64::try_from(resets_at.0.saturating_sub(now.0)).unwrap_or(0);
            ServiceError::QuotaExceeded { resets_at, wait: Duration::from_micros(micros) }
        }
        Refusal::Unavailable(why) => {
            services.said.say("a call could not be metered", &why.to_string());
            ServiceError::Unmetered(why.to_string())
        }
    })
}

/// Rule name of a call that lacks an entitlement: no such tool, or a missing scope.
pub const NOT_ENTITLED: &str = "fixed/not-entitled";

/// Rule name of a call whose acting user is not identified.
pub const NOT_IDENTIFIED: &str = "fixed/not-identified";

/// Rule name of a call whose monthly quota is exhausted.
pub const NO_QUOTA: &str = "fixed/quota";

/// Rule name of a call for which the quota could not be reserved.
pub const UNMETERED: &str = "fixed/unmetered";

/// Rule name of a write before the e-mail address of the workspace is confirmed.
pub const UNVERIFIED: &str = "fixed/unverified";

/// The fixed rule of an error; `None` if the error has none.
fn fixed_rule(error: &ServiceError) -> Option<&'static str> {
    match error {
        ServiceError::QuotaExceeded { .. } => Some(NO_QUOTA),
        ServiceError::Unmetered(_) => Some(UNMETERED),
        ServiceError::Unverified => Some(UNVERIFIED),
        ServiceError::Unidentified(_) => Some(NOT_IDENTIFIED),
        _ => None,
    }
}

/// Fails if the acting user must be identified and is not.
fn identify(context: &ToolContext<'_>) -> Result<(), ServiceError> {
    let identity = context.caller.turn.identity();
    identity.map(drop).map_err(|fault| ServiceError::Unidentified(fault.clone()))
}

/// Records a call that was refused before any data was read.
///
/// # Errors
/// Returns an error if the ledger does not accept entries.
pub fn record_refusal(
    workspace: &Workspace,
    caller: &Caller,
    operation: &'static str,
    arguments: &impl Serialize,
) -> Result<(), ServiceError> {
    let denied = (Decision::Deny, NOT_ENTITLED);
    refused_unseen(workspace, caller, (operation, arguments), denied)
}

/// Records a call with invalid arguments, which was rejected before any data was read.
///
/// # Errors
/// Returns an error if the ledger does not accept entries.
pub fn record_wrong(
    workspace: &Workspace,
    caller: &Caller,
    operation: &'static str,
    arguments: &impl Serialize,
) -> Result<(), ServiceError> {
    let allowed = (Decision::Allow, BY_SCOPE);
    refused_unseen(workspace, caller, (operation, arguments), allowed)
}

fn refused_unseen(
    workspace: &Workspace,
    caller: &Caller,
    (operation, arguments): (&'static str, &impl Serialize),
    (decision, rule): (Decision, &str),
) -> Result<(), ServiceError> {
    let trace = Trace {
        tool: operation,
        principal: caller.in_ledger(),
        arguments: hash_call(operation, arguments),
        decision,
        rule: rule.to_owned(),
        touched: Vec::new(),
        outcome: Outcome::Refused,
    };
    let recorded = workspace.audit.record(&trace, false);
    recorded
        .map(drop)
        .map_err(|error| told(caller, operation, ServiceError::Unaudited(error.to_string())))
}

/// Removes file names of the server from an error for a tenant, and logs the full error.
fn told(caller: &Caller, operation: &'static str, error: ServiceError) -> ServiceError {
    if caller.metered.is_none() || !error.may_name_files() {
        return error;
    }
    let fields = [
        ("workspace", Field::Text(&caller.workspace)),
        ("operation", Field::Text(&operation)),
        ("why", Field::Text(&error)),
    ];
    log::event(Level::Error, "a call of a tenant could not be answered", &fields);
    error.without_why()
}

/// Runs `work` and converts a panic into an error, so that the call still gets its ledger entry.
fn caught(
    context: &ToolContext<'_>,
    work: impl FnOnce(&ToolContext<'_>) -> Result<Answer, ServiceError>,
) -> Result<Answer, ServiceError> {
    let done = catch_unwind(AssertUnwindSafe(|| work(context)));
    done.unwrap_or(Err(ServiceError::Panicked))
}

/// Extracts the item effects, sensitivity events first, and the rule that raised items.
fn became(outcome: &mut Result<Answer, ServiceError>) -> (Vec<TouchedItem>, Option<String>) {
    match outcome {
        Ok(answer) => {
            let has_raised = answer.touched.iter().any(|one| one.effect == Effect::Raised);
            let rule = has_raised.then(|| answer.rule.clone());
            (std::mem::take(&mut answer.touched), rule)
        }
        Err(ServiceError::BrokenOff { stored, .. }) => {
            let Stored { written, raised, lowered } = &mut **stored;
            let (raised, rule) = raised.take().unzip();
            let raised = raised.into_iter().flatten().map(|id| touched(Effect::Raised, id));
            let written = written.iter().map(|&id| touched(Effect::Written, id));
            let lowered = lowered.iter().map(|&id| touched(Effect::Lowered, id));
            (raised.chain(lowered).chain(written).collect(), rule)
        }
        Err(_) => (Vec::new(), None),
    }
}

/// Runs `work`, records the call in the ledger, and returns the answer with its receipt.
///
/// Without a ledger entry there is no answer. Refusals and panics are recorded, too. If a call is answered or has
/// written something, the call counts against the quota. If `at_once` is set, the function waits until the entry is on
/// disk.
pub fn governed(
    context: &ToolContext<'_>,
    operation: &'static str,
    arguments: &impl Serialize,
    at_once: bool,
    work: impl FnOnce(&ToolContext<'_>) -> Result<Answer, ServiceError>,
) -> Result<Answer, Refused> {
    if let Some(why) = context.workspace.audit.failure() {
        // Check the ledger before anything is written.
        return Err(told(context.caller, operation, ServiceError::Unaudited(why)).into());
    }
    // Without a reservation the call does not run. An uncommitted reservation is released on drop.
    let (outcome, reservation) = match identify(context).and_then(|()| reserve(context)) {
        Ok(reservation) => (caught(context, work), reservation),
        Err(error) => (Err(error), None),
    };
    recorded(context, (operation, arguments), at_once, outcome, reservation).0
}

/// Runs a call nested in another governed call, whose identity and reservation apply. Also returns the item effects.
pub(super) fn within(
    context: &ToolContext<'_>,
    operation: &'static str,
    arguments: &impl Serialize,
    at_once: bool,
    work: impl FnOnce(&ToolContext<'_>) -> Result<Answer, ServiceError>,
) -> (Result<Answer, Refused>, Vec<TouchedItem>) {
    if let Some(why) = context.workspace.audit.failure() {
        let error = told(context.caller, operation, ServiceError::Unaudited(why));
        return (Err(error.into()), Vec::new());
    }
    recorded(context, (operation, arguments), at_once, caught(context, work), None)
}

/// Records the call with its outcome in the ledger; returns the answer with the receipt, and the item effects.
fn recorded(
    context: &ToolContext<'_>,
    (operation, arguments): (&'static str, &impl Serialize),
    at_once: bool,
    mut outcome: Result<Answer, ServiceError>,
    reservation: Option<Reservation>,
) -> (Result<Answer, Refused>, Vec<TouchedItem>) {
    // Item effects are recorded even if the answer is not returned.
    let (touched_items, raised_by) = became(&mut outcome);
    if let Err(ServiceError::BrokenOff { error, .. }) = outcome {
        outcome = Err(*error);
    }
    let has_written = touched_items.iter().any(|one| one.effect == Effect::Written);
    // If the call wrote, the ledger records its real outcome even if the response becomes a timeout or a cancellation.
    let ended = match &outcome {
        Ok(_) if has_written => Some(Outcome::Done),
        Err(_) if has_written => Some(Outcome::Failed),
        _ => None,
    };
    if Instant::now() >= context.deadline {
        outcome = Err(ServiceError::TimedOut { limit: context.services.call_time_max });
    } else if !at_once && context.cancel.is_cancelled() {
        outcome = Err(ServiceError::Cancelled);
    }
    let mut trace = Trace {
        tool: operation,
        principal: context.caller.in_ledger(),
        arguments: hash_call(operation, arguments),
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
                ServiceError::Denied { item, rule, .. } => {
                    trace.decision = Decision::Deny;
                    trace.rule.clone_from(rule);
                    trace.touched.push(touched(Effect::Withheld, *item));
                }
                error if let Some(rule) = fixed_rule(error) => {
                    trace.decision = Decision::Deny;
                    trace.rule = rule.to_owned();
                }
                _ => {}
            }
        }
    }
    if let Some(rule) = raised_by.filter(|_| trace.decision == Decision::Allow) {
        trace.rule = rule;
    }
    trace.outcome = ended.unwrap_or(trace.outcome);
    let began = Instant::now();
    let recorded = context.workspace.audit.record(&trace, at_once);
    context.services.stages.record(Stage::Ledger, began.elapsed());
    if let Some(reservation) =
        reservation.filter(|_| has_written || outcome.is_ok() && recorded.is_ok())
    {
        reservation.commit();
    }
    let told = |error| told(context.caller, operation, error);
    let answer = match (outcome, recorded) {
        (_, Err(error)) => Err(told(ServiceError::Unaudited(error.to_string())).into()),
        (Ok(mut answer), Ok(receipt)) => {
            answer.receipt = Some(Box::new(receipt));
            Ok(answer)
        }
        (Err(error), Ok(receipt)) => {
            // The receipt of a denial must read like the receipt of a missing item.
            let is_undecided = error.may_hide_a_denial() && !context.caller.audits();
            let receipt = if is_undecided { receipt.undecided() } else { receipt };
            Err(Refused { error: told(error), receipt: Some(Box::new(receipt)) })
        }
    };
    (answer, trace.touched)
}

impl Tool {
    /// Runs the tool as an audited call.
    pub fn call(
        &self,
        context: &ToolContext<'_>,
        raw: &Map<String, Value>,
    ) -> Result<Answer, Refused> {
        let at_once = self.change != Change::Nothing;
        governed(context, self.name, raw, at_once, |context| self.checked(context, raw))
    }

    /// Runs the tool nested in another audited call, whose reservation applies, with a ledger entry of its own. Also
    /// returns the item effects.
    pub fn call_within(
        &self,
        context: &ToolContext<'_>,
        raw: &Map<String, Value>,
    ) -> (Result<Answer, Refused>, Vec<TouchedItem>) {
        let at_once = self.change != Change::Nothing;
        within(context, self.name, raw, at_once, |context| self.checked(context, raw))
    }

    fn checked(
        &self,
        context: &ToolContext<'_>,
        raw: &Map<String, Value>,
    ) -> Result<Answer, ServiceError> {
        if self.change != Change::Nothing && !context.caller.may_write() {
            return Err(ServiceError::Unverified);
        }
        (self.run)(context, raw)
    }
}
