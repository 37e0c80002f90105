//! `recalld recall`: a question on the governed path.

use std::time::Instant;

use clap::Args;
use serde_json::{Map, Value};

use super::common::Common;
use super::failure::Failure;
use super::paint::{Paint, plain};
use super::remote::Remote;
use super::tell::tell;
use recalld_api::operator::{Recall, Whose};
use recalld_common::cancel::CancellationToken;
use recalld_common::counted::counted;
use recalld_common::wants::Wants;
use recalld_policy::Caller;
use recalld_policy::limits::CALL_TIME_MAX;
use recalld_tool_framework::ToolContext;

#[derive(Debug, Args)]
pub(super) struct RecallArgs {
    #[command(flatten)]
    common: Common,
    /// The question, quoted or as words.
    #[arg(required = true)]
    question: Vec<String>,
    /// Show each item's links.
    #[arg(long)]
    graph: bool,
    /// Number of items [default: the router's limit].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=50))]
    limit: Option<u8>,
    /// Recall only this modality, such as text or code.
    #[arg(long)]
    modality: Option<String>,
    /// Search by meaning only.
    #[arg(long)]
    semantic: bool,
    /// Use this tenant's store, as the operator; the call is recorded in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

/// Characters of a text printed for people.
const SHOWN_CHARS: usize = 600;

pub(super) fn run(args: &RecallArgs) -> Result<(), Failure> {
    let raw = arguments(args);
    let wanted = Recall::parse(&raw).map_err(|error| Failure::Usage(error.to_string()))?;
    args.common.check_reading()?;
    let answer = match args.common.start_alone()? {
        Some(started) => {
            let caller = Caller::local_operator(started.parts.local.name());
            let (name, cancel) = (args.workspace.as_deref(), &CancellationToken::new());
            let whose = Whose::of(&started.parts, &caller, name, Wants::Reads, cancel);
            let whose = whose.map_err(Failure::could)?;
            let context = ToolContext {
                services: started.parts.tool_services(),
                workspace: &whose.workspace,
                caller: &whose.caller,
                cancel,
                deadline: Instant::now() + CALL_TIME_MAX,
                progress: None,
            };
            recalld_api::operator::recall_as_operator(&context, &raw, wanted)
                .map_err(Failure::could)?
                .take_content()
        }
        None => {
            let remote = Remote::find(&args.common.data()?)?;
            remote.ask("/operator/recall", &Value::Object(raw))?["structured"].take()
        }
    };
    let text =
        if args.common.json { format!("{answer}\n") } else { readable(Paint::stdout(), &answer) };
    tell(&text)
}

fn arguments(args: &RecallArgs) -> Map<String, Value> {
    let mut raw = Map::new();
    raw.insert("query".to_owned(), args.question.join(" ").into());
    if let Some(limit) = args.limit {
        raw.insert("limit".to_owned(), limit.into());
    }
    if let Some(modality) = &args.modality {
        raw.insert("modality".to_owned(), modality.clone().into());
    }
    if let Some(workspace) = &args.workspace {
        raw.insert("workspace".to_owned(), workspace.clone().into());
    }
    raw.insert("graph".to_owned(), args.graph.into());
    raw.insert("semantic".to_owned(), args.semantic.into());
    raw
}

fn readable(paint: Paint, answer: &Value) -> String {
    let none = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&none).clone();
    let items = list(&answer["items"]);
    let mut out = String::new();
    if items.is_empty() {
        out.push_str("Nothing on record matches this question.\n");
    } else if answer["routing"]["abstained"] == true {
        out.push_str("Nothing on record answers this question. What comes nearest:\n\n");
    }
    for (at, item) in items.iter().enumerate() {
        let words = |name: &str| plain(item[name].as_str().unwrap_or_default());
        let stale = if words("status") == "superseded" { "  (superseded)" } else { "" };
        let (title, stale) = (paint.bold(&words("title")), paint.warn(stale));
        out.push_str(&format!("{}. {title}{stale}\n   {}\n", at + 1, paint.dim(&place(item))));
        let text = item["text"].as_str().or(item["snippet"].as_str()).unwrap_or_default();
        let text: String = text.trim().chars().take(SHOWN_CHARS).collect();
        for line in text.lines() {
            out.push_str(&format!("   | {}\n", plain(line)));
        }
        for neighbour in list(&item["neighbors"]) {
            let title = plain(neighbour["item"]["title"].as_str().unwrap_or_default());
            let arrow = if neighbour["direction"] == "out" { "->" } else { "<-" };
            let relation = neighbour["relation"].as_str().unwrap_or_default();
            out.push_str(&format!("   {arrow} {} {title}\n", plain(relation)));
        }
        out.push('\n');
    }
    for conflict in list(&answer["conflicts"]) {
        let word = |value: &Value| plain(value.as_str().unwrap_or_default());
        let [one, other] = [&conflict["items"][0], &conflict["items"][1]].map(word);
        out.push_str(&format!("{one} and {other} conflict: {}\n\n", word(&conflict["why"])));
    }
    let millis = |value: &Value| value["took_ms"].as_f64().unwrap_or_default();
    let lanes: Vec<String> = list(&answer["routing"]["lanes"])
        .iter()
        .map(|lane| format!("{} {} ms", lane["lane"].as_str().unwrap_or_default(), millis(lane)))
        .collect();
    let took = millis(&answer["routing"]);
    out.push_str(&format!(
        "{} in {took} ms ({})\n",
        counted(items.len(), "item"),
        lanes.join(", ")
    ));
    out
}

/// The id, kind, score and source of an item.
fn place(item: &Value) -> String {
    let words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let uri = words(&item["source"]["uri"]);
    let lines = &item["provenance"]["span"];
    let from = match (uri.is_empty(), lines["line_start"].as_u64(), lines["line_end"].as_u64()) {
        (true, ..) => format!("recorded {}", words(&item["provenance"]["recorded_at"])),
        (false, Some(first), Some(last)) => format!("{uri}:{first}-{last}"),
        _ => uri,
    };
    let score = item["score"].as_f64().unwrap_or_default();
    format!("{}  {}  score {score:.3}  {from}", words(&item["id"]), words(&item["kind"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn where_nothing_answers_that_stands_before_what_comes_nearest() {
        let answer = |abstained: bool| {
            json!({
                "items": [{"title": "t", "text": "x"}], "routing": {"abstained": abstained},
            })
        };
        let said = "Nothing on record answers this question. What comes nearest:\n\n1. t\n";
        assert!(readable(Paint::PLAIN, &answer(true)).starts_with(said));
        assert!(readable(Paint::PLAIN, &answer(false)).starts_with("1. t\n"));
        let nothing = json!({"items": [], "routing": {"abstained": true}});
        assert!(
            readable(Paint::PLAIN, &nothing)
                .starts_with("Nothing on record matches this question.\n0 items")
        );
    }
}
