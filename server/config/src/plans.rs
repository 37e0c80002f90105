//! `[plans.NAME]`: reads and renders plans.

use std::time::Duration;

use recalld_common::keys::{KeyFault, Keys, NONE, quoted_list};
use recalld_common::scope::Scope;
use recalld_policy::plans::{
    FAMILY_NAMES, OPERATOR, PLAN_NAME_BYTES_MAX, PLANS_MAX, Plan, Plans, Tools, is_plan_name,
};
use recalld_policy::rate::{RATE_CALLS_MAX, Rate};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum quota of calls per month.
    const CALLS_PER_MONTH_MAX: u64 = 1_000_000_000_000;

    /// Maximum rate of calls per second: above it, the interval in whole nanoseconds no longer distinguishes rates.
    const RATE_PER_SECOND_MAX: u64 = 10_000;
}

/// Returns the built-in plans with the changes and additions of the settings.
pub(super) fn read(keys: Keys, tools: &[&'static str]) -> Result<Plans, KeyFault> {
    let mut plans = Plans::built_in();
    for (name, keys) in keys.named_tables()? {
        let wrong = |allowed: String| KeyFault::Value {
            key: "plans".to_owned(),
            given: format!("{:?}", recalld_common::nearest::cut(&name)),
            allowed,
        };
        if !is_plan_name(&name) {
            return Err(wrong(format!(
                "names of 1 to {PLAN_NAME_BYTES_MAX} characters a-z 0-9 - _, the first of them a letter"
            )));
        }
        if name == OPERATOR {
            return Err(wrong(
                "every plan but the operator's, who must always be able to ask".into(),
            ));
        }
        let plan = plan(keys, tools, plans.find(&name).map(|plan| &**plan))?;
        let put = plans.put(&name, plan);
        put.map_err(|_| wrong(format!("at most {PLANS_MAX} plans, the built-in ones among them")))?;
    }
    Ok(plans)
}

/// Reads one plan. Missing keys have the values of `before`.
fn plan(mut keys: Keys, tools: &[&'static str], before: Option<&Plan>) -> Result<Plan, KeyFault> {
    let mut plan = before.cloned().unwrap_or_else(Plan::bare);
    let families = keys.words("families", &FAMILY_NAMES, |name| name)?;
    match (families, keys.words("tools", tools, |name| name)?) {
        (Some(_), Some(_)) => {
            let allowed = "either `families` or `tools`";
            return Err(keys.fault("families", "given beside `tools`", allowed));
        }
        (Some(families), None) => plan.tools = Tools::Families(families),
        (None, Some(tools)) => plan.tools = Tools::Named(tools),
        (None, None) if before.is_none() => {
            return Err(keys.missing("families", "the families of its tools, or `tools`"));
        }
        (None, None) => {}
    }
    match keys.words("scopes", Scope::ALL, Scope::name)? {
        Some(scopes) => plan.scopes = scopes,
        None if before.is_none() => {
            return Err(keys.missing("scopes", "the scopes that its credentials may have"));
        }
        None => {}
    }
    if let Some(calls) = keys.whole_or_none("calls_per_month", 0..=CALLS_PER_MONTH_MAX)? {
        plan.calls_per_month = calls;
    }
    plan.rate = rate(&mut keys, plan.rate)?;
    if let Some(flag) = keys.flag("writes_need_verified_email")? {
        plan.writes_need_verified_email = flag;
    }
    keys.finish()?;
    Ok(plan)
}

fn rate(keys: &mut Keys, before: Option<Rate>) -> Result<Option<Rate>, KeyFault> {
    let calls = keys.whole_or_none("rate_per_second", 1..=RATE_PER_SECOND_MAX)?;
    let burst = keys.whole("burst", 1..=u64::from(RATE_CALLS_MAX))?;
    let narrow = |number: u64| u32::try_from(number).unwrap_or(RATE_CALLS_MAX);
    let second = Duration::from_secs(1);
    match (calls, burst) {
        (None, None) => Ok(before),
        (Some(None), None) => Ok(None),
        (Some(Some(calls)), burst) => {
            // The default burst is three seconds' worth, as for the built-in plans.
            let burst = burst.map_or(narrow(calls * 3), narrow);
            Ok(Rate::new(narrow(calls), second, burst))
        }
        (None | Some(None), Some(_)) => {
            Err(keys.missing("rate_per_second", "a whole number beside `burst`"))
        }
    }
}

/// Renders the plans as TOML with the same meaning. The operator's plan, which cannot be set, is a comment.
pub(super) fn show(plans: &Plans) -> String {
    let mut out = String::new();
    for (name, plan) in plans.iter().filter(|(name, _)| *name != OPERATOR) {
        out += &format!("\n[plans.{name}]\n");
        out += &match &plan.tools {
            Tools::Families(names) => {
                format!("families = {}\n", quoted_list(names.iter().copied()))
            }
            Tools::Named(names) => format!("tools = {}\n", quoted_list(names.iter().copied())),
        };
        let scopes = quoted_list(plan.scopes.iter().map(|scope| scope.name()));
        out += &format!("scopes = {scopes}\n");
        out += &match plan.calls_per_month {
            Some(calls) => format!("calls_per_month = {calls}\n"),
            None => format!("calls_per_month = \"{NONE}\"\n"),
        };
        out += &match plan.rate {
            Some(rate) => {
                let (calls, burst) = (rate.calls_per_second(), rate.burst());
                format!("rate_per_second = {calls}\nburst = {burst}\n")
            }
            None => format!("rate_per_second = \"{NONE}\"\n"),
        };
        out += &format!("writes_need_verified_email = {}\n", plan.writes_need_verified_email);
    }
    out
}
