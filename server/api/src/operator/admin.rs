//! Administration: workspaces, their keys, clients, plans and quotas.
//!
//! Every act goes through `administer`, in a server or in a command. An act that changes data records an entry in the
//! operator's ledger before it begins; every act records an entry with its outcome. Independent of the act's transport.

mod act;
mod grants;
mod keys;
mod mails;
mod office;
mod plans;
mod tenants;

use std::path::Path;

use engine::hex;
use engine::ledger::Outcome;
use serde_json::{Map, Value, json};

pub use self::office::{AdminError, Office};
pub use self::tenants::remove_deleted;

use self::act::Act;
use self::office::{page, shown, time};
use crate::rest::Ask;
use crate::service_error::{over_http, over_http_saying};
use recalld_cluster::{CONTROL, NotHere, Peer};
use recalld_common::wants::Wants;
use recalld_config::Config;
use recalld_fs_util::start_error::StartError;
use recalld_http_server::Response;
use recalld_http_server::refusal::Refusal;
use recalld_metastore::LISTED_MAX;
use recalld_policy::Caller;
use recalld_workspace::opening::{Kept, open_or_make, open_with_control};

/// `POST /operator/admin`: runs one act.
pub fn serve_admin(ask: &Ask<'_>) -> Result<Response, Refusal> {
    let raw = super::arguments(ask.call)?;
    check_node(ask, &raw)?;
    let (parts, local) = (ask.parts, ask.parts.local.get());
    let office = Office {
        data: &parts.data,
        control: &parts.control,
        audit: &local.audit,
        config: &parts.config,
        principal: &ask.caller.principal,
        now: parts.clock.now(),
        live: Some(parts),
    };
    let done = administer(&office, &raw)?;
    Ok(Response::json(200, done.to_string().into_bytes()))
}

/// Checks that this node is the leader of the metastore, before a changing act does anything.
fn check_node(ask: &Ask<'_>, raw: &Map<String, Value>) -> Result<(), Refusal> {
    let act = Act::parse(&Value::Object(raw.clone()));
    if !act.is_ok_and(|act| act.begun().is_some()) {
        return Ok(());
    }
    let Err(why) = ask.parts.reach(CONTROL, Wants::Writes, &ask.call.cancel) else {
        return Ok(());
    };
    let NotHere::WrittenBy(Peer { node, url }) = &why else { return Err(over_http(why)) };
    let at = url.as_ref().map(|url| format!(", at {url}")).unwrap_or_default();
    let detail = format!("tenants and their keys are changed by node {node}{at}; do it there");
    Err(over_http_saying(why, &detail))
}

/// Runs an act in-process if no server has opened the data. The first tenant may be created before the first start of a
/// server: then the data directory is initialized as by a start.
///
/// # Errors
/// The data cannot be opened, or [`StartError::Busy`] if a server has opened it. The inner error is that of the act.
pub fn administer_alone(
    data: &Path,
    config: &Config,
    raw: &Map<String, Value>,
) -> Result<Result<Value, AdminError>, StartError> {
    let may_make = Act::parse(&Value::Object(raw.clone())).is_ok_and(|act| act.may_make_store());
    let opened = if may_make { open_or_make(data) } else { open_with_control(data) };
    let Kept { store: _has_the_data, audit, control, now } = opened?;
    let caller = Caller::local_operator(recalld_common::slug::LOCAL_WORKSPACE);
    let principal = &caller.principal;
    let office =
        Office { data, control: &control, audit: &audit, config, principal, now, live: None };
    Ok(administer(&office, raw))
}

/// Runs one act: `{act, ...}`.
fn administer(office: &Office<'_>, raw: &Map<String, Value>) -> Result<Value, AdminError> {
    let raw = Value::Object(raw.clone());
    let (tool, done) = match Act::parse(&raw) {
        Ok(act) => {
            let tool = act.tool();
            if let Some(begun) = act.begun() {
                office.record(begun, &raw, Outcome::Done)?;
            }
            (tool, office.run(act))
        }
        Err(error) => ("recalld admin", Err(error)),
    };
    let outcome = done.as_ref().err().map_or(Outcome::Done, AdminError::outcome);
    office.record(tool, &raw, outcome).map_err(|unrecorded| match &done {
        // The ledger contains the beginning of the act but not its outcome.
        Ok(_) => AdminError::Failed(format!("it was done, but {unrecorded}")),
        Err(why) => AdminError::Failed(format!("{why}; and {unrecorded}")),
    })?;
    done
}

impl Office<'_> {
    fn run(&self, act: Act) -> Result<Value, AdminError> {
        match act {
            Act::TenantCreate(new) => self.create_tenant(&new),
            Act::TenantList(page) => self.list_tenants(page.after.as_deref()),
            Act::TenantShow(of) => Ok(shown(&self.living(&of.slug)?)),
            Act::TenantSuspend(of) => self.suspend_tenant(&of.slug),
            Act::TenantResume(of) => self.resume_tenant(&of.slug),
            Act::TenantDelete(of) => self.delete_tenant(&of),
            Act::TenantEmail(of) => self.email_tenant(&of),
            Act::TenantVerify(of) => self.verify_tenant(&of.slug),
            Act::KeyIssue(new) => self.issue_key(&new),
            Act::KeyRotate(next) => self.rotate_key(&next),
            Act::TenantEndTokens(of) => self.end_tokens(&of.slug),
            Act::GrantList(of) => self.list_grants(&of.slug, of.after.as_deref()),
            Act::GrantRevoke(of) => self.revoke_grant(&of.slug, &of.id),
            Act::KeyRevoke(of) => self.revoke_key(&of.slug, &of.id),
            Act::KeyList(of) => self.list_keys(&of.slug, of.after.as_deref()),
            Act::KeyRotateSigning(_) => self.rotate_signing(),
            Act::ClientList(page) => self.list_clients(page.after.as_deref()),
            Act::ClientRevoke(of) => self.revoke_client(&of.id),
            Act::PlanList(_) => Ok(self.list_plans()),
            Act::PlanShow(of) => self.show_plan(&of.name),
            Act::PlanSet(of) => self.set_plan(&of.slug, &of.name),
            Act::AnchorList(page) => self.list_anchors(page.after.as_deref()),
            Act::QuotaShow(of) => self.show_quota(&of.slug),
            Act::QuotaSet(of) => self.set_quota(&of.slug, of.calls),
            Act::ClockAccept(_) => {
                let before = self.control.accept_clock()?;
                Ok(json!({"before": time(before), "now": time(self.control.now())}))
            }
        }
    }

    /// Returns the recorded last checkpoints of ledgers.
    fn list_anchors(&self, after: Option<&str>) -> Result<Value, AdminError> {
        let found = self.control.anchors(after, LISTED_MAX)?;
        let last = found.last().map(|(workspace, _)| workspace.clone());
        let shown = found.into_iter().map(|(workspace, last)| {
            let first = last.first.map(|first| hex(&first));
            json!({"workspace": workspace, "seq": last.seq, "head": hex(&last.head), "first": first})
        });
        Ok(page("anchors", shown.collect(), last))
    }
}
