//! What every governed call has in common: its entry in the ledger, and its receipt.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use engine::ledger::{Decision, Effect, Outcome, Touched};
use serde::Serialize;
use serde_json::{Map, Value};

use super::answer::{Answer, touched};
use super::context::Context;
use super::tool::{Change, Tool};
use crate::error::{ServiceError, Stored};
use recalld_audit::BY_SCOPE;
use recalld_audit::{Trace, hash_call};
use recalld_policy::Caller;
use recalld_policy::meter::{Refusal, Reservation};
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value as Field};
use recalld_telemetry::metrics::Stage;
use recalld_workspace::workspace::Workspace;

/// A governed call that gave no answer.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: ServiceError,
    /// Proof of its entry; `None` when the ledger takes no entries.
    pub receipt: Option<Value>,
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

/// The reservation of a call out of its workspace's quota; none for the operator of this machine.
fn reserve(context: &Context<'_>) -> Result<Option<Reservation>, ServiceError> {
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

/// The rule's name where a call asks for what its caller has not: no such tool, or a scope that is missing.
pub const NOT_ENTITLED: &str = "fixed/not-entitled";

/// The rule's name where it is not known for whom a call is made.
pub const NOT_IDENTIFIED: &str = "fixed/not-identified";

/// The rule's name where the calls of the month are used up.
pub const NO_QUOTA: &str = "fixed/quota";

/// The rule's name where no call could be reserved.
pub const UNMETERED: &str = "fixed/unmetered";

/// The rule's name where the workspace's e-mail address is not confirmed yet.
pub const UNVERIFIED: &str = "fixed/unverified";

/// The fixed rule that an error stands for, where it is one.
fn fixed_rule(error: &ServiceError) -> Option<&'static str> {
    match error {
        ServiceError::QuotaExceeded { .. } => Some(NO_QUOTA),
        ServiceError::Unmetered(_) => Some(UNMETERED),
        ServiceError::Unverified => Some(UNVERIFIED),
        ServiceError::Unidentified(_) => Some(NOT_IDENTIFIED),
        _ => None,
    }
}

/// Whether it is known for whom the call is made, as far as it has to be.
fn identify(context: &Context<'_>) -> Result<(), ServiceError> {
    let identity = context.caller.turn.identity();
    identity.map(drop).map_err(|fault| ServiceError::Unidentified(fault.clone()))
}

/// Leaves the entry of a call that is refused before anything is looked at.
///
/// # Errors
/// The ledger takes no entries.
pub fn record_refusal(
    workspace: &Workspace,
    caller: &Caller,
    operation: &'static str,
    arguments: &impl Serialize,
) -> Result<(), ServiceError> {
    let denied = (Decision::Deny, NOT_ENTITLED);
    refused_unseen(workspace, caller, (operation, arguments), denied)
}

/// Leaves the entry of a call whose arguments mean nothing, so that nothing was looked at either.
///
/// # Errors
/// The ledger takes no entries.
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

/// An error as its caller is told it: a tenant learns nothing of the server's files. What it is not told the log has.
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

/// Does the work. One that panics has failed, and what is common to all calls goes on: its entry above all.
fn caught(
    context: &Context<'_>,
    work: impl FnOnce(&Context<'_>) -> Result<Answer, ServiceError>,
) -> Result<Answer, ServiceError> {
    let done = catch_unwind(AssertUnwindSafe(|| work(context)));
    done.unwrap_or(Err(ServiceError::Panicked))
}

/// What became of items, sensitivity events first, and the rule that raised any.
fn became(outcome: &mut Result<Answer, ServiceError>) -> (Vec<Touched>, Option<String>) {
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

/// Does `work`, leaves its entry in the ledger, and gives the answer with its receipt. No entry,
/// no answer; a refusal has one too, and so has work that panics. A call counts once it is answered, or has written
/// something. `at_once` waits until the entry is on disk.
pub fn governed(
    context: &Context<'_>,
    operation: &'static str,
    arguments: &impl Serialize,
    at_once: bool,
    work: impl FnOnce(&Context<'_>) -> Result<Answer, ServiceError>,
) -> Result<Answer, Refused> {
    if let Some(why) = context.workspace.audit.failure() {
        // Before anything is written.
        return Err(told(context.caller, operation, ServiceError::Unaudited(why)).into());
    }
    // No reservation, no call; one that is not committed is released.
    let (outcome, reservation) = match identify(context).and_then(|()| reserve(context)) {
        Ok(reservation) => (caught(context, work), reservation),
        Err(error) => (Err(error), None),
    };
    recorded(context, (operation, arguments), at_once, outcome, reservation).0
}

/// The same of a call within another one, which was identified and reserved. Gives beside the answer what became of
/// items.
pub(super) fn within(
    context: &Context<'_>,
    operation: &'static str,
    arguments: &impl Serialize,
    at_once: bool,
    work: impl FnOnce(&Context<'_>) -> Result<Answer, ServiceError>,
) -> (Result<Answer, Refused>, Vec<Touched>) {
    if let Some(why) = context.workspace.audit.failure() {
        let error = told(context.caller, operation, ServiceError::Unaudited(why));
        return (Err(error.into()), Vec::new());
    }
    recorded(context, (operation, arguments), at_once, caught(context, work), None)
}

/// Leaves the entry of a call that has this outcome, and gives its answer with the receipt; and what became of items.
fn recorded(
    context: &Context<'_>,
    (operation, arguments): (&'static str, &impl Serialize),
    at_once: bool,
    mut outcome: Result<Answer, ServiceError>,
    reservation: Option<Reservation>,
) -> (Result<Answer, Refused>, Vec<Touched>) {
    // What became of items is recorded whether or not the answer is still given.
    let (touched_items, raised_by) = became(&mut outcome);
    if let Err(ServiceError::BrokenOff { error, .. }) = outcome {
        outcome = Err(*error);
    }
    let has_written = touched_items.iter().any(|one| one.effect == Effect::Written);
    // What was written stays, however late the answer is.
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
            answer.structured["receipt"] = receipt.to_json();
            Ok(answer)
        }
        (Err(error), Ok(receipt)) => {
            // What is denied reads as what is not there, in its receipt as well.
            let is_undecided = error.may_hide_a_denial() && !context.caller.audits();
            let receipt =
                if is_undecided { receipt.to_json_undecided() } else { receipt.to_json() };
            Err(Refused { error: told(error), receipt: Some(receipt) })
        }
    };
    (answer, trace.touched)
}

impl Tool {
    /// Runs the tool as a governed call.
    pub fn call(&self, context: &Context<'_>, raw: &Map<String, Value>) -> Result<Answer, Refused> {
        let at_once = self.change != Change::Nothing;
        governed(context, self.name, raw, at_once, |context| self.checked(context, raw))
    }

    /// Runs the tool within the call of another one, which was reserved: with an entry of its own. Beside what it
    /// gives, what became of items.
    pub fn call_within(
        &self,
        context: &Context<'_>,
        raw: &Map<String, Value>,
    ) -> (Result<Answer, Refused>, Vec<Touched>) {
        let at_once = self.change != Change::Nothing;
        within(context, self.name, raw, at_once, |context| self.checked(context, raw))
    }

    fn checked(
        &self,
        context: &Context<'_>,
        raw: &Map<String, Value>,
    ) -> Result<Answer, ServiceError> {
        if self.change != Change::Nothing && !context.caller.may_write() {
            return Err(ServiceError::Unverified);
        }
        (self.run)(context, raw)
    }
}
