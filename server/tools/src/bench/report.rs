//! `brain_benchmark_report`: figures of earlier benchmarks.

use engine::ledger::Effect;
use serde_json::{Map, Value, json};

use recalld_common::names;
use recalld_common::own_kinds::BENCH;
use recalld_common::scope::Scope;
use recalld_tool_framework::args::args;
use recalld_tool_framework::paging::{Cursor, Paging, Row};
use recalld_tool_framework::records::{Record, newest};
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext, touched};

const NAME: &str = "brain_benchmark_report";

args! {
    struct Asked {
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const REPORT: Tool = Tool {
    name: NAME,
    title: "Earlier benchmarks",
    about: "The figures of earlier benchmarks, the newest first.",
    shape: Asked::shape,
    results: &[
        always("results", Kind::List)
            .says("Each item_id, name of the tool, at, by, figures as it gave them."),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::BenchRun),
    change: Change::Nothing,
    core: false,
    run: |context, raw| report(context, raw),
    example: "{}",
};

fn report(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let paging = Paging::of(NAME, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let open = |place| Ok(Record::of(&snapshot, place)?.is_open(&snapshot));
    let listed = newest(&snapshot, &paging, (&[BENCH], false), open)?;
    let rows = listed.into_iter().map(|(key, place)| {
        let record = Record::of(&snapshot, place)?;
        let at = names::time(record.item.recorded_at);
        let line = format!("{at} {}: {}\n", record.text("name"), record.item.text);
        let read = touched(Effect::Read, record.item.id);
        let row = json!({
            "item_id": names::of_item(&record.item), "name": record.text("name"), "at": at,
            "by": record.item.recorded_by, "figures": record.attributes.get("figures"),
        });
        Ok(Row::new(key, row, line).touching([read]))
    });
    Ok(paging.page(rows)?.into_answer("results", "No benchmark was run yet."))
}
