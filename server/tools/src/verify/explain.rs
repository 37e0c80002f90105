//! `policy_explain_tool`: the policy rules that apply to an item for this caller.

use serde_json::{Map, Value, json};

use recalld_common::names;
use recalld_common::scope::Scope;
use recalld_policy::{Action, What, explain};
use recalld_recall::Room;
use recalld_tool_framework::args::{Id, args, choices};
use recalld_tool_framework::paging::PAGE_BYTES_MAX;
use recalld_tool_framework::reading::find;
use recalld_tool_framework::results::{Kind, TRUNCATED, always};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

choices! {
    enum Asked { Read = "read", Export = "export", Write = "write" }
}

args! {
    struct Explain {
        item_id: Id => "The item.",
        action: Asked = Asked::Read => "What you would do.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: "policy_explain_tool",
    title: "Explain a decision",
    about: "What policy says to you about an item, and which rules it looked at. The strictest that matches \
            counts: deny, then redact, then allow.",
    shape: Explain::shape,
    results: &[
        always("decision", Kind::Text).says("allow, redact or deny."),
        always("rule", Kind::Text)
            .says("The rule that decided; fixed/ ones are the service's own."),
        always("tried", Kind::List).says("The rules in their order: rule, decision, matches."),
        TRUNCATED,
    ],
    scope: Some(Scope::BrainProxy),
    change: Change::Nothing,
    core: false,
    run: |context, raw| explained(context, raw),
    example: r#"{"item_id": "itm_00000000000000000000000002", "action": "export"}"#,
};

fn explained(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Explain::parse(raw)?;
    let snapshot = context.snapshot();
    let Id(id) = wanted.item_id;
    // An item that the caller may not know is reported as missing, without an explanation.
    let (_, item) = find(&snapshot, "item_id", id)?;
    let action = match wanted.action {
        Asked::Read => Action::Read,
        Asked::Export => Action::Export,
        Asked::Write => Action::Write,
    };
    let (verdict, rule) = snapshot.judge(&item, action);
    let what = What {
        workspace: &context.workspace.name,
        kind: item.kind,
        sensitivity: item.sensitivity,
        gates: &item.gates,
    };
    let mut room = Room::of(PAGE_BYTES_MAX);
    let tried: Vec<Value> = context.caller.as_who(|who| {
        let tried = explain(&context.workspace.rules, who, &what, action);
        let rows = tried.map(
            |one| json!({"rule": one.rule, "decision": one.verdict.word(), "matches": one.matches}),
        );
        rows.take_while(|row| room.takes(row)).collect()
    });
    let name = names::of_item(&item);
    let text = format!("{} of {name}: {} by {rule}", action.word(), verdict.word());
    let structured = json!({
        "decision": verdict.word(), "rule": &*rule, "tried": tried, "truncated": room.is_over(),
    });
    Ok(Answer::plain(structured, text))
}
