use serde_json::{Map, Value, json};

use super::artifact::{ArtifactFacts, State};
use recalld_common::own_kinds::ARTIFACT;
use recalld_common::scope::Scope;
use recalld_tool_framework::args::{Text, args};
use recalld_tool_framework::paging::{Cursor, Paging, Row};
use recalld_tool_framework::records::{Record, newest};
use recalld_tool_framework::results::{BOUNDS, Kind, NEXT_CURSOR, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "list_artifact_ids_tool";

args! {
    struct Listed {
        kind: Option<Text<1, 64>> => "Only these.",
        status: Option<State> => "Only these.",
        cursor: Option<Cursor> => "next_cursor of the page before.",
    }
}

pub(super) const LIST: Tool = Tool {
    name: NAME,
    title: "List artifacts",
    about: "Artifacts that have ids here, the last changed first.",
    shape: Listed::shape,
    results: &[
        always("artifacts", Kind::List).says("Each as `artifact` of issue_artifact_id_tool."),
        TRUNCATED,
        NEXT_CURSOR,
        BOUNDS,
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| list(context, raw),
    example: r#"{"status": "issued"}"#,
};

fn list(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Listed::parse(raw)?;
    let paging = Paging::of(NAME, raw, wanted.cursor.as_ref())?;
    let snapshot = context.snapshot();
    let listed = newest(&snapshot, &paging, (&[ARTIFACT], true), |place| {
        let record = Record::of(&snapshot, place)?;
        let of_state = wanted.status.is_none_or(|state| record.text("state") == state.name());
        let of_kind = wanted
            .kind
            .as_ref()
            .is_none_or(|kind| record.is_open(&snapshot) && record.text("kind") == kind.0);
        Ok(of_state && of_kind)
    })?;
    let rows = listed.into_iter().map(|(at, place)| {
        let mut told = Answer::plain(Value::Null, String::new());
        let artifact = ArtifactFacts::of(&snapshot, place, &mut told)?;
        Ok(Row::new(at, json!(artifact), artifact.line()).touching(told.touched))
    });
    Ok(paging.page(rows)?.into_answer("artifacts", "No such artifacts."))
}
