//! Family `tenant`: entitlements and quota of a workspace.

mod quota;

use serde::Serialize;
use serde_json::{Map, Value, json};

use recalld_common::Month;
use recalld_common::names;
use recalld_metastore::{ControlError, Tenant};
use recalld_policy::plans::{Plan, Tools};
use recalld_tool_framework::args::args;
use recalld_tool_framework::results::{Kind, always, sometimes};
use recalld_tool_framework::{Answer, Catalog, Change, Family, ServiceError, Tool, ToolContext};

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

/// The result of `tenant_info`.
#[derive(Debug, Serialize)]
struct InfoAnswer<'c> {
    workspace: &'c str,
    plan: &'c str,
    families: Vec<&'static str>,
    scopes: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email_verified: Option<bool>,
    writes_enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<QuotaFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Value>,
}

/// Calls of this month. Calls are counted even without a limit. The current call is not included yet.
#[derive(Debug, Serialize)]
struct QuotaFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    used: u64,
    resets_at: String,
}

fn info(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    Info::parse(raw)?;
    let caller = context.caller;
    let rate = caller.entitled.rate;
    let mut shown = InfoAnswer {
        workspace: &caller.workspace,
        plan: &caller.plan,
        families: families(context.services.catalog, &caller.entitled),
        scopes: caller.scopes.iter().map(|scope| scope.name()).collect(),
        email_verified: None,
        writes_enabled: caller.may_write(),
        quota: None,
        rate: rate
            .map(|rate| json!({"per_second": rate.calls_per_second(), "burst": rate.burst()})),
    };
    // The default workspace has no tenant record and no quota.
    if caller.metered.is_some() {
        shown.email_verified = Some(tenant(context)?.email_verified_at.is_some());
        shown.quota = Some(quota(context)?);
    }
    Ok(Answer::plain(json!(shown), in_words(&shown)))
}

fn tenant(context: &ToolContext<'_>) -> Result<Tenant, ServiceError> {
    let found = context.services.control.find_tenant(&context.caller.workspace).map_err(unknown)?;
    // The record existed when the credential was looked up.
    found.ok_or_else(|| ServiceError::Unmetered("the workspace has no record".to_owned()))
}

fn quota(context: &ToolContext<'_>) -> Result<QuotaFacts, ServiceError> {
    let (services, caller) = (context.services, context.caller);
    let month = Month::of(services.clock.now());
    let month =
        month.ok_or_else(|| ServiceError::Unmetered("the clock tells no month".to_owned()))?;
    // Read the unflushed count first: a concurrent flush is then counted twice, instead of not at all.
    let unwritten = services.meter.used_since_written(&caller.workspace, month);
    let written = services.control.usage(&caller.workspace, &month.to_string()).map_err(unknown)?;
    Ok(QuotaFacts {
        limit: caller.metered.as_ref().and_then(|metered| metered.calls_per_month),
        used: written.used + unwritten,
        resets_at: names::time(month.ends_at()),
    })
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

fn in_words(shown: &InfoAnswer<'_>) -> String {
    let mut text = format!("Workspace {}, plan {}", shown.workspace, shown.plan);
    if let Some(QuotaFacts { limit: Some(limit), used, resets_at }) = &shown.quota {
        text += &format!("; {used} of {limit} calls used, more from {resets_at} on");
    }
    if !shown.writes_enabled {
        text += "; nothing may be stored before the e-mail address is confirmed";
    }
    text
}
