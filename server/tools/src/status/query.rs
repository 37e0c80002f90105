//! `brain_status_query_tool`: answers questions about the service from its counters.

use serde_json::{Map, Value, json};

use super::told::Teller;
use recalld_common::scope::Scope;
use recalld_status_answers::{OtherPart, from, sentence, understand};
use recalld_tool_framework::args::{Text, args};
use recalld_tool_framework::results::{Kind, always, sometimes};
use recalld_tool_framework::{Answer, Change, Profile, ServiceError, Tool, ToolContext};

args! {
    struct Asked {
        question: Text<1, 1024> => "Such as: how many items, and how fast is recall?",
    }
}

pub(super) const QUERY: Tool = Tool {
    name: "brain_status_query_tool",
    title: "Ask about the service",
    about: "Answers questions about the service itself from live counters: how much is stored, \
            speed, quota, ledger, jobs, tasks. What is remembered is for recall.",
    shape: Asked::shape,
    results: &[
        always("answer", Kind::Text).says(
            "One or two sentences with the numbers; or that this cannot be told, and who may know.",
        ),
        always("facts", Kind::List).says("Each {name, value, from}; from is the counter or tool."),
        always("topics", Kind::List)
            .says("What the question was taken for: each {topic, because}, the words that say so."),
        sometimes("unanswered", Kind::List).says("Parts of the question: each {part, why, use}."),
    ],
    scope: Some(Scope::TenantRead),
    change: Change::Nothing,
    core: false,
    run: |context, raw| query(context, raw),
    example: r#"{"question": "How many items are there, and how fast is recall?"}"#,
};

fn query(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let kinds = context.snapshot().item_counts()?.kinds;
    let kinds: Vec<String> = kinds.into_keys().map(|kind| kind.to_lowercase()).collect();
    let understood = understand(&wanted.question.0, &kinds);
    let mut teller = Teller::new(context);
    let (mut phrases, mut topics) = (Vec::new(), Vec::new());
    let mut unanswered: Vec<Value> =
        understood.others.iter().map(|other| left(context, other)).collect();
    for meant in &understood.topics {
        if context.is_over() {
            return Err(ServiceError::Cancelled);
        }
        topics.push(json!({"topic": meant.name, "because": meant.because}));
        let first = teller.facts.all().len();
        match teller.tell(meant)? {
            Some(phrase) => {
                phrases.push(format!("{phrase} [{}]", from(&teller.facts.all()[first..])))
            }
            None => {
                let why = "your credential or plan does not let you know";
                unanswered.push(json!({"part": meant.name, "why": why}));
            }
        }
    }
    let answer = sentence(&phrases, &unanswered, understood.truncated);
    let mut structured = json!({"answer": answer, "facts": teller.facts.all(), "topics": topics});
    if !unanswered.is_empty() {
        structured["unanswered"] = unanswered.into();
    }
    Ok(Answer::plain(structured, answer))
}

/// A part of the question that is not about the service, with a tool for it if the caller may use one.
fn left(context: &ToolContext<'_>, other: &OtherPart) -> Value {
    let catalog = context.services.catalog;
    let usable = |name: &&str| {
        catalog.visible_to(context.caller, Profile::Full).any(|tool| tool.name == *name)
    };
    let mut left = json!({"part": other.part, "why": other.why});
    if let Some(tool) = Some(other.tool).filter(usable) {
        left["use"] = tool.into();
    }
    if other.why.is_empty() {
        left["why"] = "it names nothing that the service keeps count of".into();
    }
    left
}
