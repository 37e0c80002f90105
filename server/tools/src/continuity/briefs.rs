//! `generate_daily_brain_brief_tool`: the daily brief as Markdown or JSON.

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use crate::brief::{BRIEF_BYTES_MAX, Brief, Grounding, NAMED_MAX, Span};
use recalld_common::scope::Scope;
use recalld_tool_framework::args::{Day, Zone, args, choices};
use recalld_tool_framework::results::{Kind, TRUNCATED, always, sometimes};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

choices! {
    enum Form { Markdown = "markdown", Json = "json" }
}

args! {
    struct Wanted {
        date: Option<Day> => "Today by default.",
        timezone: Zone = Zone(TimeZone::UTC) => "IANA.",
        format: Form = Form::Markdown => "Text or rows.",
    }
}

pub(super) const GENERATE: Tool = Tool {
    name: "generate_daily_brain_brief_tool",
    title: "Daily brief",
    about: "What a day brought: decisions, corrections, outcomes, tasks moved, what was ingested, \
            recorded and superseded, and what is due next.",
    shape: Wanted::shape,
    results: &[
        always("day", Kind::Object)
            .says("Which day: date, timezone, from, to, hours, which are 23 or 25 where clocks change."),
        sometimes("markdown", Kind::Text).says("The brief, each line with the id of its item; their tokens follow."),
        sometimes("sections", Kind::List).says(
            "The same as rows: name, count, rows, each with id, kind, title, at, grounding_token, and what its kind \
             has: status, valence, wrong, due_at, superseded_by. Of a redacted item id, title and token alone.",
        ),
        sometimes("withheld", Kind::Integer).says("How many items policy kept back, for those who may learn it."),
        TRUNCATED,
        sometimes("bounds", Kind::Object).says("The bounds that cut it: rows of a section, bytes."),
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| generate(context, raw),
    example: r#"{"date": "2026-01-14", "timezone": "Europe/Berlin"}"#,
};

fn generate(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Wanted::parse(raw)?;
    let now = context.services.clock.now();
    let day = match wanted.date {
        Some(Day(date)) => Span::of(date, wanted.timezone.0)?,
        None => Span::today(now, wanted.timezone.0)?,
    };
    let (brief, mut answer) = Brief::gather(context, &context.snapshot(), &day)?;
    answer.text = brief.markdown(&day, now, Grounding::Ids);
    let mut structured = json!({"day": day.to_json(), "truncated": brief.truncated});
    match wanted.format {
        Form::Markdown => {
            structured["markdown"] = brief.markdown(&day, now, Grounding::Tokens).into();
        }
        Form::Json => structured["sections"] = brief.to_json(),
    }
    if brief.withheld_told > 0 {
        structured["withheld"] = brief.withheld_told.into();
    }
    if brief.truncated {
        structured["bounds"] = json!({"rows": NAMED_MAX, "bytes": BRIEF_BYTES_MAX});
    }
    answer.structured = structured;
    Ok(answer)
}
