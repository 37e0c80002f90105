//! `recalld remember`: stores one memory.

use std::io::Read;

use clap::Args;
use engine::Sensitivity;
use serde_json::json;

use super::call::{call, given};
use super::common::Common;
use super::failure::Failure;
use super::paint::plain;
use super::policy::sensitivity;
use super::tell::{tell, tell_line};

/// Bytes of the longest text that the tool accepts, plus one, so that the tool can reject a longer text.
const STDIN_BYTES_MAX: u64 = 4 * 32_768 + 1;

#[derive(Debug, Args)]
pub(super) struct RememberArgs {
    #[command(flatten)]
    common: Common,
    /// The text; `-` reads it from standard input.
    text: String,
    /// The kind of memory, such as decision, fact or preference [default: note].
    #[arg(long)]
    kind: Option<String>,
    /// The title [default: the first line of the text].
    #[arg(long)]
    title: Option<String>,
    /// A tag; may be given several times.
    #[arg(long)]
    tag: Vec<String>,
    /// Sensitivity: public, internal, confidential or restricted [default: internal].
    #[arg(long, value_parser = sensitivity)]
    sensitivity: Option<Sensitivity>,
    /// A gate for policy rules; may be given several times.
    #[arg(long)]
    gate: Vec<String>,
    /// The id of the superseded memory.
    #[arg(long, value_name = "ID")]
    supersedes: Option<String>,
    /// Start of its validity, in RFC 3339.
    #[arg(long, value_name = "TIME")]
    valid_from: Option<String>,
    /// End of its validity, in RFC 3339.
    #[arg(long, value_name = "TIME")]
    valid_to: Option<String>,
    /// The source, a URI.
    #[arg(long, value_name = "URI")]
    source: Option<String>,
    /// Idempotency key: a repeat with the same key gets the first answer and stores nothing.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Use this tenant's store, as the operator; the call is recorded in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

pub(super) fn run(args: &RememberArgs) -> Result<(), Failure> {
    let text = if args.text == "-" { standard_input()? } else { args.text.clone() };
    let arguments = given(json!({
        "text": text, "kind": args.kind, "title": args.title, "tags": args.tag,
        "sensitivity": args.sensitivity.map(Sensitivity::name), "gates": args.gate,
        "supersedes": args.supersedes, "valid_from": args.valid_from, "valid_to": args.valid_to,
        "source": args.source.as_ref().map(|uri| json!({"uri": uri})),
        "idempotency_key": args.idempotency_key,
    }));
    let told = call(&args.common, args.workspace.as_deref(), "brain_remember", arguments)?;
    if args.common.json {
        return tell_line(&told.structured);
    }
    let lines: Vec<String> = told.text.lines().map(plain).collect();
    tell(&format!("{}\n", lines.join("\n")))
}

fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(STDIN_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| Failure::Usage(format!("standard input: {error}; UTF-8 text is wanted")))?;
    Ok(text)
}
