//! `agent_state_read_admit_tool` reads a value for a purpose; `agent_state_policy_simulate_tool` only evaluates policy.

use engine::Sensitivity;
use engine::ledger::{Decision, Effect};
use serde_json::{Map, Value, json};

use super::value::{AgentId, GATE, Purpose, StateKey, current, is_expired, version_of};
use recalld_common::own_kinds::AGENT_STATE;
use recalld_common::scope::Scope;
use recalld_policy::{Action, What, Who, decide};
use recalld_tool_framework::args::{List, Text, args, object};
use recalld_tool_framework::records::Record;
use recalld_tool_framework::results::{Kind, Output, always, sometimes, without_nulls};
use recalld_tool_framework::{
    Answer, Change, ServiceError, Tool, ToolContext, decision_of, touched,
};

const ADMITTED: Output = always("admitted", Kind::Flag).says("Whether the value is given.");
const DECISION: Output = always("decision", Kind::Text).says("Of policy: allow, redact or deny.");
const RULE: Output = always("rule", Kind::Text).says("The rule that decided.");

args! {
    struct Asked {
        agent_id: AgentId => "Whose.",
        key: StateKey => "Its name.",
        purpose: Purpose => "What it is wanted for; rules may ask.",
    }
}

object! {
    /// Attributes of a simulated caller, as far as policy evaluates them.
    struct Somebody {
        scopes: Option<List<Text<1, 64>, 0, 16>> => "Their scopes.",
        plan: Option<Text<1, 32>> => "Their plan.",
    }
}

args! {
    struct Simulated {
        agent_id: AgentId => "Whose.",
        key: StateKey => "Its name.",
        purpose: Purpose => "What it would be wanted for.",
        r#as: Option<Somebody> => "By whom; you, if left out.",
    }
}

pub(super) const ADMIT: Tool = Tool {
    name: "agent_state_read_admit_tool",
    title: "Read agent state",
    about: "Ask for an agent's value, for a purpose. Policy decides, and what it decided is told.",
    shape: Asked::shape,
    results: &[
        ADMITTED,
        DECISION,
        RULE,
        always("why", Kind::Text)
            .says("In words: admitted, denied, redacted, expired or not there."),
        sometimes("value", Kind::Object)
            .says("The value, where it is admitted; what is no object as {json}."),
        sometimes("version", Kind::Integer).says("Its version, where it is admitted."),
        sometimes("expires_at", Kind::Text).says("When it is over, where it is admitted."),
    ],
    scope: Some(Scope::AgentState),
    change: Change::Nothing,
    core: false,
    run: |context, raw| admit(context, raw),
    example: r#"{"agent_id": "sample", "key": "plan", "purpose": "to go on with it"}"#,
};

pub(super) const SIMULATE: Tool = Tool {
    name: "agent_state_policy_simulate_tool",
    title: "Try a read of agent state",
    about: "The decision that a read would get. Nothing is read, and nothing counts as read.",
    shape: Simulated::shape,
    results: &[ADMITTED, DECISION, RULE],
    scope: Some(Scope::AgentState),
    change: Change::Nothing,
    core: false,
    run: |context, raw| simulate(context, raw),
    example: r#"{"agent_id": "sample", "key": "plan", "purpose": "audit", "as": {"plan": "team"}}"#,
};

fn admit(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let snapshot = context.snapshot();
    let record = current(&snapshot, &wanted.agent_id.0, &wanted.key.0)?;
    let class = class_of(record.as_ref());
    let (decision, rule) = context.caller.as_who(|who| {
        let who = Who { purpose: Some(&wanted.purpose.0), ..*who };
        decided(context, &who, &class)
    });
    let now = context.services.clock.now();
    let (why, given) = match &record {
        _ if decision == Decision::Deny => ("denied", None),
        _ if decision == Decision::Redact => ("redacted", None),
        None => ("not there", None),
        Some(record) if is_expired(record, now) => ("expired", None),
        Some(record) => ("admitted", Some(record)),
    };
    let structured = without_nulls(json!({
        "admitted": given.is_some(), "decision": decision.word(), "rule": rule, "why": why,
        "value": given.map(|record| value_of(record)), "version": given.map(version_of),
        "expires_at": given.and_then(|record| record.attributes.get("expires_at")),
    }));
    let text = match given {
        Some(record) => format!("version {}: {}", version_of(record), value_of(record)),
        None => format!("{why} ({rule})"),
    };
    let mut answer = Answer::plain(structured, text);
    if let Some(record) = &record {
        let effect = match (given.is_some(), decision) {
            (true, _) => Effect::Read,
            (false, Decision::Redact) => Effect::Redacted,
            _ => Effect::Withheld,
        };
        answer.touched.push(touched(effect, record.item.id));
    }
    if decision != Decision::Allow {
        answer.decision = decision;
        answer.rule = rule;
    }
    Ok(answer)
}

/// The value if it is an object; otherwise `{"json": value}`.
fn value_of(record: &Record<'_>) -> Value {
    match record.attributes.get("value") {
        Some(Value::Object(fields)) => Value::Object(fields.clone()),
        other => json!({"json": other}),
    }
}

/// Policy attributes of a value, or of a new value if none exists.
struct Class {
    sensitivity: Sensitivity,
    gates: Vec<String>,
}

fn class_of(record: Option<&Record<'_>>) -> Class {
    match record {
        Some(record) => Class {
            sensitivity: record.item.sensitivity,
            gates: record.item.gates.iter().map(|&gate| gate.to_owned()).collect(),
        },
        None => Class { sensitivity: Sensitivity::Internal, gates: vec![GATE.to_owned()] },
    }
}

fn decided(context: &ToolContext<'_>, who: &Who<'_>, class: &Class) -> (Decision, String) {
    let gates: Vec<&str> = class.gates.iter().map(String::as_str).collect();
    let what = What {
        workspace: &context.workspace.name,
        kind: AGENT_STATE,
        sensitivity: class.sensitivity,
        gates: &gates,
    };
    let decision = decide(&context.workspace.rules, who, &what, Action::Read);
    (decision_of(decision.verdict), decision.rule.to_owned())
}

fn simulate(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Simulated::parse(raw)?;
    let scopes = scopes_of(wanted.r#as.as_ref())?;
    let snapshot = context.snapshot();
    let record = current(&snapshot, &wanted.agent_id.0, &wanted.key.0)?;
    // An unknown value is simulated like a missing value, with the class of a new value, so its existence does not
    // leak.
    let known = record.as_ref().filter(|record| snapshot.may_know(&record.item));
    let class = class_of(known);
    let plan = wanted.r#as.as_ref().and_then(|somebody| somebody.plan.as_ref());
    let (decision, rule) = context.caller.as_who(|who| {
        let scopes: Option<Vec<&str>> =
            scopes.as_ref().map(|scopes| scopes.iter().map(|scope| scope.name()).collect());
        let who = Who {
            purpose: Some(&wanted.purpose.0),
            plan: plan.map_or(who.plan, |plan| &plan.0),
            scopes: scopes.as_deref().unwrap_or(who.scopes),
            ..*who
        };
        decided(context, &who, &class)
    });
    let is_open = decision == Decision::Allow;
    let decision = decision.word();
    let structured = json!({"admitted": is_open, "decision": decision, "rule": rule});
    Ok(Answer::plain(structured, format!("{decision} ({rule})")))
}

/// Parses the scopes of a simulated caller; `None` if none are named.
fn scopes_of(somebody: Option<&Somebody>) -> Result<Option<Vec<Scope>>, ServiceError> {
    let Some(named) = somebody.and_then(|somebody| somebody.scopes.as_ref()) else {
        return Ok(None);
    };
    let known = named.0.iter().map(|name| {
        Scope::of(&name.0).ok_or_else(|| {
            let all: Vec<&str> = Scope::ALL.iter().map(|scope| scope.name()).collect();
            let why = format!("names the scope {:?}; {} are known", name.0, all.join(", "));
            ServiceError::argument("as", why)
        })
    });
    known.collect::<Result<_, _>>().map(Some)
}
