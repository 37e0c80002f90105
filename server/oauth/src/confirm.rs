//! `GET` and `POST /confirm`: the e-mail confirmation link, shown and redeemed (PAG-25 to PAG-27).

use engine::ledger::{Decision, Outcome};
use serde_json::json;

use super::form::Form;
use super::pages::{
    CONFIRM_TOKEN_FIELD, Confirm, Problem, confirm, confirmation_over, confirmed, problem,
};
use crate::context::OAuthContext;
use recalld_audit::{Trace, hash_call};
use recalld_http_server::limits::RETRY_AFTER_SECONDS;
use recalld_http_server::{Call, Response};
use recalld_metastore::MailError;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Operation and rule of the audit entry. Possession of the link proves access to the mailbox.
const OPERATION: &str = "confirm";
const BY_LINK: &str = "link";

/// Handles `GET /confirm`: a page with one button. Changes nothing.
pub fn show(context: &OAuthContext<'_>, call: &Call) -> Response {
    let form = Form::of_query(call.request.query());
    let token = form.as_ref().ok().and_then(|form| form.once(CONFIRM_TOKEN_FIELD).ok()?);
    let Some(token) = token else { return confirmation_over() };
    match context.control.find_mail(token.as_bytes()) {
        Ok(mail) => confirm(&Confirm { address: &mail.address, workspace: &mail.tenant, token }),
        Err(why) => over(&why),
    }
}

/// Handles `POST /confirm`: redeems the link.
pub fn use_link(context: &OAuthContext<'_>, call: &Call) -> Response {
    let types = call.request.headers.get_all("content-type");
    let form = Form::of_body(types, &call.request.body);
    let token = form.as_ref().ok().and_then(|form| form.once(CONFIRM_TOKEN_FIELD).ok()?);
    let Some(token) = token else { return confirmation_over() };
    match used(context, token.as_bytes()) {
        Ok(()) => confirmed(),
        Err(NotUsed::Link(why)) => over(&why),
        Err(NotUsed::Unrecorded(why)) => {
            log::event(Level::Error, "a link could not be used", &[("why", Value::Text(&why))]);
            unavailable()
        }
    }
}

/// Reason for not redeeming a link.
enum NotUsed {
    Link(MailError),
    /// The audit entry could not be written.
    Unrecorded(String),
}

impl From<MailError> for NotUsed {
    fn from(error: MailError) -> Self {
        Self::Link(error)
    }
}

/// Redeems a link. The audit entry is durable before any change; if the link was redeemed concurrently, a second entry
/// records the refusal.
fn used(context: &OAuthContext<'_>, token: &[u8]) -> Result<(), NotUsed> {
    let slug = context.control.find_mail(token)?.tenant;
    record(context, &slug, Outcome::Done)?;
    match context.control.verify_email(token) {
        Ok(_) => Ok(()),
        Err(why) => {
            record(context, &slug, Outcome::Refused)?;
            Err(why.into())
        }
    }
}

fn record(context: &OAuthContext<'_>, slug: &str, outcome: Outcome) -> Result<(), NotUsed> {
    let is_refused = outcome == Outcome::Refused;
    let trace = Trace {
        tool: OPERATION,
        principal: "mail".to_owned(),
        arguments: hash_call(OPERATION, &json!({})),
        decision: if is_refused { Decision::Deny } else { Decision::Allow },
        rule: BY_LINK.to_owned(),
        touched: Vec::new(),
        outcome,
    };
    let unrecorded = |why: String| NotUsed::Unrecorded(why);
    let workspace = context.tenants.open(slug).map_err(|why| unrecorded(why.to_string()))?;
    let recorded = workspace.audit.record(&trace, true);
    recorded.map(drop).map_err(|why| unrecorded(why.to_string()))
}

/// The page for a link that cannot be redeemed; does not reveal the reason.
fn over(why: &MailError) -> Response {
    match why {
        MailError::Control(error) if error.is_fault() => {
            let fields = [("why", Value::Text(error))];
            log::event(Level::Error, "a link could not be looked up", &fields);
            unavailable()
        }
        _ => confirmation_over(),
    }
}

fn unavailable() -> Response {
    problem(Problem::Unavailable { wait_seconds: RETRY_AFTER_SECONDS })
}
