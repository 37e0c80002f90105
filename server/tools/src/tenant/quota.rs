//! `quota_status_tool`: remaining quota and rate, and current reservations.

use std::time::Instant;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{QuotaFacts, quota};
use recalld_common::Month;
use recalld_common::counted::{agreed, counted};
use recalld_tool_framework::args::args;
use recalld_tool_framework::results::{Kind, always, sometimes, without_nulls};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

args! {
    struct Status {}
}

pub(super) const ROW: Tool = Tool {
    name: "quota_status_tool",
    title: "Quota",
    about: "How many calls are left this month and at once, and how many are reserved now.",
    shape: Status::shape,
    results: &[
        always("metered", Kind::Flag).says("Whether calls of this workspace are counted."),
        sometimes("quota", Kind::Object)
            .says("limit and left, where the month is bounded; used; resets_at; month."),
        sometimes("rate", Kind::Object)
            .says("per_second, burst, available: calls that this credential may make at once now."),
        sometimes("reservations", Kind::Object).says(
            "calls_open: calls that run, this one among them; calls_held: taken out of the quota for calls to \
             come; blocks: in so many parts.",
        ),
    ],
    scope: None,
    change: Change::Nothing,
    core: false,
    run: |context, raw| status(context, raw),
    example: "{}",
};

/// Calls of this month, and the calls left in it.
#[derive(Debug, Serialize)]
struct QuotaStatus {
    #[serde(flatten)]
    quota: QuotaFacts,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<u64>,
    month: String,
}

fn status(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    Status::parse(raw)?;
    let Some(metered) = &context.caller.metered else {
        let text = "Calls of this workspace are not counted.".to_owned();
        return Ok(Answer::plain(json!({"metered": false}), text));
    };
    let (services, caller) = (context.services, context.caller);
    let month = Month::of(services.clock.now());
    let month =
        month.ok_or_else(|| ServiceError::Unmetered("the clock tells no month".to_owned()))?;
    let quota = quota(context)?;
    let left = quota.limit.map(|limit| limit.saturating_sub(quota.used));
    let rate = caller.entitled.rate.map(|rate| {
        let available = services.rates.available(&metered.bucket, rate, Instant::now());
        json!({
            "per_second": rate.calls_per_second(), "burst": rate.burst(), "available": available,
        })
    });
    let open = services.meter.reserved(&caller.workspace, month);
    let reservations = json!({
        "calls_open": open.running, "calls_held": open.held, "blocks": open.blocks,
    });
    let left_text = match left {
        Some(left) => format!(
            "{} {} left until {:?}",
            counted(left, "call"),
            agreed(left, "is", "are"),
            quota.resets_at
        ),
        None => "the month is not bounded".to_owned(),
    };
    let text = format!(
        "{} used; {left_text}; {} {} now.",
        counted(quota.used, "call"),
        open.running,
        agreed(open.running, "runs", "run")
    );
    let quota = QuotaStatus { quota, left, month: month.to_string() };
    let shown = json!({
        "metered": true, "quota": quota, "rate": rate, "reservations": reservations,
    });
    Ok(Answer::plain(without_nulls(shown), text))
}
