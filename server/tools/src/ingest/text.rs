//! `ingest_text_tool`: stores a text of the client as a document.

use engine::ledger::Effect;
use engine::{Sensitivity, WriteError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::paths::may_write;
use crate::docstore::DocumentFacts;
use recalld_common::counted::counted;
use recalld_common::scope::Scope;
use recalld_documents::{Format, detect};
use recalld_ingest::given;
use recalld_ingest::given::{Given, NotTaken, Taken};
use recalld_ingest::job::JobError;
use recalld_recall::AccessView;
use recalld_tool_framework::args::{Text, args, choices, refuse_blank};
use recalld_tool_framework::idempotency::Keyed;
use recalld_tool_framework::results::{Kind, always, sometimes};
use recalld_tool_framework::writing::{Key, StoredId};
use recalld_tool_framework::{Answer, Change, ServiceError, Tool, ToolContext};

const NAME: &str = "ingest_text_tool";

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum characters and maximum bytes of a text.
    const TEXT_MAX: usize = 1 << 20;
}

choices! {
    enum Modality {
        Text = "text", Markdown = "markdown", Html = "html", Rst = "rst", Code = "code", Csv = "csv", Jsonl = "jsonl",
    }
}

args! {
    struct IngestText {
        title: Text<1, 300> => "One line.",
        text: Text<1, TEXT_MAX> => "At most 1 MiB.",
        uri: Option<Text<1, 2048>> => "Where it is from; the same again is its next version.",
        modality: Modality = Modality::Text => "How to cut it.",
        sensitivity: Option<Sensitivity> => "Internal by default.",
        idempotency_key: Key => "Makes a repeat harmless.",
    }
}

pub(super) const ROW: Tool = Tool {
    name: NAME,
    title: "Ingest a text",
    about: "Store a longer text, such as a page or a transcript, as a document that is cut and \
            found like a file. For a single fact use brain_remember.",
    shape: IngestText::shape,
    results: &[
        always("document", Kind::Object).says(
            "document_id, path (its URI), title, modality, format, bytes, content_sha256, chunks, \
             version, ingested_at, status.",
        ),
        always("items", Kind::Integer).says("Items that were stored."),
        always("unchanged", Kind::Flag).says("Whether it was stored as it is."),
        sometimes("secrets", Kind::List).says("Each {line, kind}: what holds them is restricted."),
    ],
    scope: Some(Scope::IngestWrite),
    change: Change::Adds,
    core: false,
    run: |context, raw| ingest_text(context, raw),
    example: r#"{"title": "Tide tables", "text": "High water at Gull Rock is at noon on the first of May."}"#,
};

fn ingest_text(
    context: &ToolContext<'_>,
    raw: &Map<String, Value>,
) -> Result<Answer, ServiceError> {
    let wanted = IngestText::parse(raw)?;
    let (title, text) = (&wanted.title.0, &wanted.text.0);
    refuse_odd(text)?;
    let keyed = wanted.idempotency_key.as_ref().map(|key| Keyed::of(NAME, &key.0, raw));
    if let Some(first) = first_answer(&context.snapshot(), keyed.as_ref())? {
        return Ok(first);
    }
    let uri = match &wanted.uri {
        Some(uri) => uri.0.clone(),
        None => given::uri_of(title, text),
    };
    given::check_uri(&uri).map_err(|why| ServiceError::argument("uri", why))?;
    let _turn =
        context.workspace.ingesting.take(&context.scope()).ok_or(ServiceError::Cancelled)?;
    let given = Given {
        title,
        text,
        uri: &uri,
        format: format_of(wanted.modality, &uri, text),
        sensitivity: wanted.sensitivity,
        allows: &|sensitivity| may_write(context, sensitivity),
        by: &context.caller.principal,
        via: NAME,
    };
    let beside = |taken: &Taken| {
        keyed.as_ref().map(|keyed| keyed.remember(context, NAME, &TextRecord::of(taken)))
    };
    let taken = match given::take(&context.workspace.encoders, &given, beside, &|| {
        !context.is_over()
    }) {
        Ok(taken) => taken,
        Err(NotTaken::Cancelled) => return Err(ServiceError::Cancelled),
        Err(NotTaken::Refused(why)) => return Err(ServiceError::argument("text", why)),
        Err(NotTaken::Failed(JobError::Write(WriteError::Refused { field: "ref", .. }))) => {
            context.workspace.store.sync()?;
            let first = first_answer(&context.snapshot(), keyed.as_ref())?;
            return first.ok_or_else(|| {
                ServiceError::argument("uri", "was changed by another call meanwhile")
            });
        }
        Err(NotTaken::Failed(error)) => return Err(super::paths::failed(error)),
    };
    let answer = told(&context.snapshot(), &TextRecord::of(&taken))?;
    let answer = answer.raising(taken.raised, &taken.held.kinds);
    let answer = answer.lowering(taken.is_lowered.then_some(taken.document));
    Ok(if taken.is_unchanged { answer } else { answer.touching(Effect::Written, [taken.document]) })
}

/// Rejects a blank text, and a text of more than `TEXT_MAX` bytes.
fn refuse_odd(text: &str) -> Result<(), ServiceError> {
    refuse_blank("text", text)?;
    if text.len() > TEXT_MAX {
        let why = format!("has {} bytes; {TEXT_MAX} are allowed", text.len());
        return Err(ServiceError::argument("text", why));
    }
    Ok(())
}

/// Idempotency record.
#[derive(Debug, Serialize, Deserialize)]
struct TextRecord {
    id: StoredId,
    items: usize,
    unchanged: bool,
    #[serde(default)]
    secrets: Vec<SecretLine>,
}

/// Line and kind of a found secret.
#[derive(Debug, Serialize, Deserialize)]
struct SecretLine {
    line: u32,
    kind: String,
}

/// The result.
#[derive(Debug, Serialize)]
struct TextAnswer<'s> {
    document: DocumentFacts<'s>,
    items: usize,
    unchanged: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    secrets: &'s [SecretLine],
}

impl TextRecord {
    fn of(taken: &Taken) -> Self {
        let secrets = taken.held.listed.iter();
        let secret = |(line, kind): &(u32, recalld_secret_scan::Kind)| SecretLine {
            line: *line,
            kind: kind.name().to_owned(),
        };
        Self {
            id: StoredId::of("document", taken.document),
            items: taken.items,
            unchanged: taken.is_unchanged,
            secrets: secrets.map(secret).collect(),
        }
    }
}

fn first_answer(
    snapshot: &AccessView<'_>,
    keyed: Option<&Keyed>,
) -> Result<Option<Answer>, ServiceError> {
    let record = keyed.map(|keyed| keyed.first_record(snapshot)).transpose()?.flatten();
    record.map(|record| told(snapshot, &record)).transpose()
}

fn told(snapshot: &AccessView<'_>, record: &TextRecord) -> Result<Answer, ServiceError> {
    let TextRecord { id, items, unchanged, secrets } = record;
    let document = DocumentFacts::shown(snapshot, id.find(snapshot)?.0)?;
    let how = if *unchanged { "is stored as it is" } else { "is stored" };
    let (name, title) = (&document.document_id, document.title);
    let mut text = format!("{name} {how}: {title}, {}", counted(items, "item"));
    if !secrets.is_empty() {
        text.push_str("\nIt holds secrets; what holds them is restricted.");
    }
    let shown = TextAnswer { document, items: *items, unchanged: *unchanged, secrets };
    Ok(Answer::plain(json!(shown), text))
}

/// Format of a text. For code, the language is detected from the URI or the first line.
fn format_of(modality: Modality, uri: &str, text: &str) -> Format {
    match modality {
        Modality::Text => Format::Text,
        Modality::Markdown => Format::Markdown,
        Modality::Html => Format::Html,
        Modality::Rst => Format::Rst,
        Modality::Csv => Format::Csv,
        Modality::Jsonl => Format::JsonLines,
        Modality::Code => match detect(uri, text.as_bytes()) {
            Ok(code @ Format::Code(_)) => code,
            _ => Format::Text,
        },
    }
}
