//! Family `tenant`: entitlements and quota of a workspace.

mod quota;

use serde_json::{Map, Value, json};

use recalld_common::Month;
use recalld_common::names;
use recalld_metastore::{ControlError, Tenant};
use recalld_policy::plans::{Plan, Tools};
use recalld_tool_framework::args::args;
use recalld_tool_framework::results::{Kind, always, sometimes, without_nulls};
use recalld_tool_framework::{Answer, Catalog, Change, Context, Family, ServiceError, Tool};

args! {
    struct Info {}
}

pub(super) static FAMILY: Family =
    Family { name: "tenant", about: "What this workspace may do.", tools: &[INFO, quota::ROW] };

const INFO: Tool = Tool {
    name: "tenant_info",
    title: "Workspace",
    about: "Say which workspace this is, its plan, and what is left of its quota.",
    shape: Info::shape,
    results: &[
        always("workspace", Kind::Text).says("Its name."),
        always("plan", Kind::Text).says("Its plan."),
        always("families", Kind::List).says("Of its tools."),
        always("scopes", Kind::List).says("Of this credential."),
        sometimes("email_verified", Kind::Flag)
            .says("Whether its address is confirmed, where it has one."),
        always("writes_enabled", Kind::Flag).says("Whether anything may be stored."),
        sometimes("quota", Kind::Object).says("Calls of this month: limit, used, resets_at."),
        sometimes("rate", Kind::Object).says("Of each credential: per_second, burst."),
    ],
    scope: None,
    change: Change::Nothing,
    core: false,
    run: |context, raw| info(context, raw),
    example: "{}",
};

fn info(context: &Context<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    Info::parse(raw)?;
    let caller = context.caller;
    let scopes: Vec<&str> = caller.scopes.iter().map(|scope| scope.name()).collect();
    let rate = caller.entitled.rate;
    let mut shown = json!({
        "workspace": caller.workspace, "plan": caller.plan,
        "families": families(context.services.catalog, &caller.entitled),
        "scopes": scopes, "writes_enabled": caller.may_write(),
        "rate": rate.map(|rate| json!({"per_second": rate.calls_per_second(), "burst": rate.burst()})),
    });
    // The default workspace has no tenant record and no quota.
    if caller.metered.is_some() {
        let tenant = tenant(context)?;
        shown["email_verified"] = tenant.email_verified_at.is_some().into();
        shown["quota"] = quota(context)?;
    }
    let text = in_words(&shown);
    Ok(Answer::plain(without_nulls(shown), text))
}

fn tenant(context: &Context<'_>) -> Result<Tenant, ServiceError> {
    let found = context.services.control.find_tenant(&context.caller.workspace).map_err(unknown)?;
    // The record existed when the credential was looked up.
    found.ok_or_else(|| ServiceError::Unmetered("the workspace has no record".to_owned()))
}

/// `{limit?, used, resets_at}`. Calls are counted even without a limit. This call is not included yet.
fn quota(context: &Context<'_>) -> Result<Value, ServiceError> {
    let (services, caller) = (context.services, context.caller);
    let month = Month::of(services.clock.now());
    let month =
        month.ok_or_else(|| ServiceError::Unmetered("the clock tells no month".to_owned()))?;
    // Read the unflushed count first: a concurrent flush is then counted twice, instead of not at all.
    let unwritten = services.meter.used_since_written(&caller.workspace, month);
    let written = services.control.usage(&caller.workspace, &month.to_string()).map_err(unknown)?;
    let used = written.used + unwritten;
    let limit = caller.metered.as_ref().and_then(|metered| metered.calls_per_month);
    let resets_at = names::time(month.ends_at());
    Ok(without_nulls(json!({"limit": limit, "used": used, "resets_at": resets_at})))
}

fn unknown(error: ControlError) -> ServiceError {
    ServiceError::Unmetered(error.to_string())
}

/// Families of which a plan includes tools.
fn families(catalog: Catalog, plan: &Plan) -> Vec<&'static str> {
    match &plan.tools {
        Tools::Families(names) => names.clone(),
        Tools::Named(tools) => {
            let has = |family: &&Family| family.tools.iter().any(|tool| tools.contains(&tool.name));
            catalog.families().filter(has).map(|family| family.name).collect()
        }
    }
}

fn in_words(shown: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut text =
        format!("Workspace {}, plan {}", word(&shown["workspace"]), word(&shown["plan"]));
    let quota = &shown["quota"];
    if let Some(limit) = quota["limit"].as_u64() {
        let resets_at = word(&quota["resets_at"]);
        text += &format!("; {} of {limit} calls used, more from {resets_at} on", quota["used"]);
    }
    if shown["writes_enabled"] == false {
        text += "; nothing may be stored before the e-mail address is confirmed";
    }
    text
}
