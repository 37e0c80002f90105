//! `brain_status_query_tool`: answers questions about the service from its counters.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::told::Teller;
use recalld_common::scope::Scope;
use recalld_status_answers::{Fact, OtherPart, Unanswered, from, sentence, understand};
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

/// The result.
#[derive(Debug, Serialize)]
struct StatusAnswer<'a> {
    answer: &'a str,
    facts: &'a [Fact],
    topics: Vec<TopicFacts<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<Unanswered<'a>>,
}

/// A topic, and the words of the question that match the topic.
#[derive(Debug, Serialize)]
struct TopicFacts<'a> {
    topic: &'static str,
    because: &'a [String],
}

fn query(context: &ToolContext<'_>, raw: &Map<String, Value>) -> Result<Answer, ServiceError> {
    let wanted = Asked::parse(raw)?;
    let kinds = context.snapshot().item_counts()?.kinds;
    let kinds: Vec<String> = kinds.into_keys().map(|kind| kind.to_lowercase()).collect();
    let understood = understand(&wanted.question.0, &kinds);
    let mut teller = Teller::new(context);
    let (mut phrases, mut topics) = (Vec::new(), Vec::new());
    let mut unanswered: Vec<Unanswered<'_>> =
        understood.others.iter().map(|other| left(context, other)).collect();
    for meant in &understood.topics {
        if context.is_over() {
            return Err(ServiceError::Cancelled);
        }
        topics.push(TopicFacts { topic: meant.name, because: &meant.because });
        let first = teller.facts.all().len();
        match teller.tell(meant)? {
            Some(phrase) => {
                phrases.push(format!("{phrase} [{}]", from(&teller.facts.all()[first..])))
            }
            None => {
                let why = "your credential or plan does not let you know";
                unanswered.push(Unanswered { part: meant.name, why, tool: None });
            }
        }
    }
    let answer = sentence(&phrases, &unanswered, understood.truncated);
    let facts = teller.facts.all();
    let shown = json!(StatusAnswer { answer: &answer, facts, topics, unanswered });
    Ok(Answer::plain(shown, answer))
}

/// A part of the question that is not about the service, with a tool for it if the caller may use one.
fn left<'q>(context: &ToolContext<'_>, other: &'q OtherPart) -> Unanswered<'q> {
    let catalog = context.services.catalog;
    let usable = |name: &&str| {
        catalog.visible_to(context.caller, Profile::Full).any(|tool| tool.name == *name)
    };
    let why = match &*other.why {
        "" => "it names nothing that the service keeps count of",
        why => why,
    };
    Unanswered { part: &other.part, why, tool: Some(other.tool).filter(usable) }
}
