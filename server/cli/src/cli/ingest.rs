//! `recalld ingest`: ingests files and folders, in-process or through the running server.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::remote::{Remote, show_step};
use super::tell::tell_line;
use crate::app::Started;
use recalld_api::app_state::AppState;
use recalld_api::operator::{Ingest, Whose, named};
use recalld_common::cancel::CancellationToken;
use recalld_common::wants::Wants;
use recalld_embedding::model::{Bar, Progress, Unit};
use recalld_ingest::walk::Rules;
use recalld_policy::Caller;
use recalld_tool_framework::{Answer, ToolContext};

#[derive(Debug, Args)]
pub(super) struct IngestArgs {
    #[command(flatten)]
    common: Common,
    /// Files and folders to ingest.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Read only files that match a glob, such as '*.md'. A glob without `/` matches file names at any depth. May be
    /// given several times.
    #[arg(long, value_name = "GLOB")]
    include: Vec<String>,
    /// Skip files that match a glob, such as 'tests/**', below the given paths. May be given several times.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Report the changes without making them.
    #[arg(long)]
    dry_run: bool,
    /// Use this tenant's store, as the operator; the call is recorded in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

/// Time limit of an ingest: generous, because the operator watches and can cancel.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

pub(super) fn run(args: &IngestArgs) -> Result<(), Failure> {
    let mut raw = arguments(&args.paths, args.dry_run, args.workspace.as_deref())?;
    Rules::new(true, &args.include, &args.exclude)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    raw.insert("include".to_owned(), args.include.clone().into());
    raw.insert("exclude".to_owned(), args.exclude.clone().into());
    let mut bar = Bar::of_command(Unit::Files, args.common.json);
    let (structured, text) = match args.common.start_alone()? {
        Some(Started { parts, .. }) => {
            // A tenant's store is sealed when the application state closes it.
            let mut answer = alone(&parts, &raw, &mut bar, &CancellationToken::new())?;
            parts.local.get().store.seal().map_err(Failure::could)?;
            (answer.take_content(), answer.text)
        }
        None => {
            let remote = Remote::find(&args.common.data()?)?;
            let mut told = remote.follow("/operator/ingest", &Value::Object(raw), |step| {
                show_step(&mut bar, "reading", step);
            })?;
            (told["structured"].take(), told["text"].as_str().unwrap_or_default().to_owned())
        }
    };
    drop(bar);
    if args.common.json { tell_line(&structured) } else { tell_line(&text) }?;
    if structured["cancelled"] == true {
        return Err(Failure::Could("not all of it was read; run it again".to_owned()));
    }
    Ok(())
}

/// Builds the body of `POST /operator/ingest`, with absolute paths.
pub(super) fn arguments(
    paths: &[PathBuf],
    dry_run: bool,
    workspace: Option<&str>,
) -> Result<Map<String, Value>, Failure> {
    let absolute = |path: &PathBuf| {
        let there = match Path::new(path).canonicalize() {
            // The server may have access where the caller has none: a service can have folders bound below homes that
            // its user cannot enter. If neither may read the path, the reader rejects it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => std::path::absolute(path),
            there => there,
        };
        let there =
            there.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        there.to_str().map(str::to_owned).ok_or_else(|| {
            Failure::Usage(format!("{} is not UTF-8, which paths must be", path.display()))
        })
    };
    let paths = paths.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
    let mut raw = json!({"paths": paths, "dry_run": dry_run});
    if let Some(workspace) = workspace {
        raw["workspace"] = workspace.into();
    }
    Ok(raw.as_object().cloned().unwrap_or_default())
}

/// Ingests in-process, until done or `cancel` is raised.
pub(super) fn alone(
    parts: &AppState,
    raw: &Map<String, Value>,
    bar: &mut Bar,
    cancel: &CancellationToken,
) -> Result<Answer, Failure> {
    let wanted = Ingest::parse(raw).map_err(|error| Failure::Usage(error.to_string()))?;
    let caller = Caller::local_operator(parts.local.name());
    let whose = Whose::of(parts, &caller, named(&wanted.workspace), Wants::Writes, cancel)
        .map_err(Failure::could)?;
    let bar = std::sync::Mutex::new(bar);
    let tell = |done: u64, total: u64, _file: &str| {
        let mut bar = bar.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        bar.advance("reading", done, Some(total));
    };
    let context = ToolContext {
        services: parts.tool_services(),
        workspace: &whose.workspace,
        caller: &whose.caller,
        cancel,
        deadline: Instant::now() + TIME_MAX,
        progress: Some(&tell),
    };
    recalld_api::operator::ingest_as_operator(&context, raw, wanted).map_err(Failure::could)
}
