//! Plans, and usage of quotas.

use serde_json::{Value, json};

use super::office::{AdminError, Office, shown};
use recalld_common::Month;
use recalld_common::keys::one_of;
use recalld_common::names;
use recalld_policy::plans::{Plan, Tools};

impl Office<'_> {
    pub(super) fn list_plans(&self) -> Value {
        let plans = self.config.plans.iter().map(|(name, plan)| shown_plan(name, plan));
        json!({"plans": plans.collect::<Vec<_>>()})
    }

    pub(super) fn show_plan(&self, name: &str) -> Result<Value, AdminError> {
        let plan = self.config.plans.find(name);
        let plan = plan.ok_or_else(|| AdminError::No(self.no_plan(name)))?;
        Ok(shown_plan(name, plan))
    }

    pub(super) fn set_plan(&self, slug: &str, name: &str) -> Result<Value, AdminError> {
        self.living(slug)?;
        self.check_plan(name)?;
        Ok(shown(&self.control.set_plan(slug, name)?))
    }

    /// Checks that a workspace can be assigned this plan.
    pub(super) fn check_plan(&self, name: &str) -> Result<(), AdminError> {
        let found = self.config.plans.find(name).map(drop);
        found.ok_or_else(|| AdminError::wrong("plan", self.no_plan(name)))
    }

    fn no_plan(&self, name: &str) -> String {
        let allowed = one_of(name, &self.config.plans.names());
        format!("the settings have no plan {name:?}; give {allowed}")
    }

    /// Returns the used and the remaining quota of this month. Leased calls that are not yet used count as neither.
    pub(super) fn show_quota(&self, slug: &str) -> Result<Value, AdminError> {
        let tenant = self.living(slug)?;
        let month = Month::of(self.now).ok_or_else(|| {
            AdminError::Failed("the clock tells no month that has quotas; set it right".to_owned())
        })?;
        let usage = self.control.usage(slug, &month.to_string())?;
        let blocks = usage.blocks.iter();
        let taken: u64 =
            blocks.map(|block| u64::from(block.calls.saturating_sub(block.used))).sum();
        let plan = self.config.plans.find(&tenant.plan).and_then(|plan| plan.calls_per_month);
        let quota = tenant.calls_per_month.or(plan);
        Ok(json!({
            "slug": slug, "month": month.to_string(), "quota": quota, "used": usage.used,
            "taken": taken, "left": quota.map(|quota| quota.saturating_sub(usage.used)),
            "is_own": tenant.calls_per_month.is_some(), "resets_at": names::time(month.ends_at()),
        }))
    }

    pub(super) fn set_quota(&self, slug: &str, calls: Option<u64>) -> Result<Value, AdminError> {
        self.living(slug)?;
        Ok(shown(&self.control.set_quota(slug, calls)?))
    }
}

fn shown_plan(name: &str, plan: &Plan) -> Value {
    let (families, tools) = match &plan.tools {
        Tools::Families(names) => (Some(names), None),
        Tools::Named(names) => (None, Some(names)),
    };
    let scopes: Vec<&str> = plan.scopes.iter().map(|scope| scope.name()).collect();
    json!({
        "name": name, "families": families, "tools": tools, "scopes": scopes,
        "calls_per_month": plan.calls_per_month,
        "rate_per_second": plan.rate.map(|rate| rate.calls_per_second()),
        "burst": plan.rate.map(|rate| rate.burst()),
        "writes_need_verified_email": plan.writes_need_verified_email,
    })
}
