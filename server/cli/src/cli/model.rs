//! `recalld model`: the model of a store and its files: show, fetch, verify and prune.
//!
//! Opens no store for writing: every subcommand works beside a running server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use engine::os::disk::FsDisk;
use engine::{Model, OpenError, StoreReader, hex};
use serde_json::{Value, json};

use super::common::Common;
use super::failure::Failure;
use super::paint::{Paint, table};
use super::stats::bytes;
use super::tell::{tell, tell_line};
use recalld_embedding::encoding::{model_request, open_request};
use recalld_embedding::model;
use recalld_embedding::model::{Bar, Kept, ModelRequest, OpenFault, Unit};
use recalld_embedding::model_file;
use recalld_embedding::model_file::KnownModel;
use recalld_fs_util::data_dir::workspace_dir;

#[derive(Debug, Args)]
pub(super) struct ModelArgs {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Option<ModelCommand>,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// Show the store's model, its folder, and whether a start would find the files. The default.
    Show,
    /// List all cached models.
    List,
    /// Fetch the model, verify its hashes, and pack its weights, so that the first start needs no network.
    Fetch,
    /// Verify the hashes of every model file and the packed weights.
    Verify,
    /// Remove cached files that this store does not use: other models, their packed weights, and remains of interrupted
    /// fetches. A store elsewhere fetches its own again.
    Prune {
        /// Report the removals without making them.
        #[arg(long)]
        dry_run: bool,
    },
}

pub(super) fn run(args: &ModelArgs) -> Result<(), Failure> {
    match args.command.as_ref().unwrap_or(&ModelCommand::Show) {
        ModelCommand::Show => show(&args.common),
        ModelCommand::List => list(&args.common),
        ModelCommand::Fetch => fetch(&args.common),
        ModelCommand::Verify => verify(&args.common),
        ModelCommand::Prune { dry_run } => prune(&args.common, *dry_run),
    }
}

/// The store's model; `None` if there is no store or no embedding yet.
fn of_store(data: &Path) -> Result<Option<Model>, Failure> {
    let folder = workspace_dir(data).join("store");
    if !folder.is_dir() {
        return Ok(None);
    }
    let disk = FsDisk::open(&folder).map_err(Failure::could)?;
    match StoreReader::open(Arc::new(disk)) {
        Ok(reader) => Ok(reader.snapshot().model()),
        Err(OpenError::NoStore) => Ok(None),
        Err(error) => Err(Failure::Could(format!(
            "{}: {error}; `recalld verify` looks closer",
            folder.display()
        ))),
    }
}

/// The model request: the named folder, else the last folder used for the store's model, else the default model.
fn wanted(common: &Common) -> Result<(Option<Model>, ModelRequest), Failure> {
    let data = common.data()?;
    let bound = of_store(&data)?;
    let known = match (common.model_directory(), bound) {
        (Some(directory), _) => Some(directory),
        (None, Some(bound)) => {
            let known = model_file::find(&data, bound).map_err(Failure::Could)?;
            known.map(|known| known.directory)
        }
        (None, None) => None,
    };
    Ok((bound, model_request(known)))
}

/// Copies the request without its network sources.
fn offline(request: &ModelRequest) -> ModelRequest {
    ModelRequest { hub: None, package: None, ..request.clone() }
}

/// A model located without a network.
struct Found {
    model: Model,
    name: String,
    directory: PathBuf,
    weights: [u8; 32],
}

fn found(common: &Common, request: &ModelRequest, bar: &mut Bar) -> Result<Found, String> {
    if request.directory.is_none() && !model::is_kept(request) {
        return Err(format!("{} was not fetched yet", request.name));
    }
    let encoding = common.encoding().map_err(Failure::why)?;
    let opened =
        open_request(&offline(request), encoding, bar).map_err(|error| error.to_string())?;
    let KnownModel { model, name, directory } = opened.known;
    Ok(Found { model, name, directory, weights: opened.weights_sha256 })
}

fn show(common: &Common) -> Result<(), Failure> {
    let (bound, request) = wanted(common)?;
    let mut bar = Bar::of_command(Unit::Bytes, common.json);
    let found = found(common, &request, &mut bar);
    drop(bar);
    let is_right = match (&found, bound) {
        (Ok(found), Some(bound)) => found.model == bound,
        (Ok(_), None) => true,
        (Err(_), _) => false,
    };
    let report = json!({
        "store": bound.map(shown), "model": found.as_ref().ok().map(|found| json!({
            "name": found.name, "directory": found.directory, "fingerprint": hex(&found.model.fingerprint),
            "dimensions": found.model.dimensions, "weights_sha256": hex(&found.weights),
        })),
        "matches": is_right, "why": found.as_ref().err(), "cache": request.cache,
    });
    if common.json {
        tell_line(&report)?;
    } else {
        tell(&readable(bound, &found, &request))?;
    }
    if is_right {
        return Ok(());
    }
    Err(Failure::No(match found {
        Ok(found) => format!(
            "the store has another model than {}; name its folder by --model DIR, or move the store: \
             recalld reembed --model {}",
            found.directory.display(),
            found.directory.display()
        ),
        Err(_) => "the model is not here; `recalld model fetch` fetches the default one, --model DIR names \
                   another"
            .to_owned(),
    }))
}

fn shown(model: Model) -> Value {
    json!({"fingerprint": hex(&model.fingerprint), "dimensions": model.dimensions})
}

fn readable(bound: Option<Model>, found: &Result<Found, String>, request: &ModelRequest) -> String {
    let short =
        |model: Model| format!("{}, {} wide", hex(&model.fingerprint[..6]), model.dimensions);
    let store = bound.map_or_else(|| "none yet: nothing is embedded".to_owned(), short);
    let mut rows = vec![vec!["store has".to_owned(), store]];
    match found {
        Ok(found) => {
            rows.push(vec!["model".to_owned(), format!("{} ({})", found.name, short(found.model))]);
            rows.push(vec!["files".to_owned(), found.directory.display().to_string()]);
            rows.push(vec!["weights".to_owned(), format!("sha256 {}", hex(&found.weights))]);
        }
        Err(_) => rows.push(vec!["model".to_owned(), "not found".to_owned()]),
    }
    if let Some(cache) = &request.cache {
        rows.push(vec!["cache".to_owned(), cache.display().to_string()]);
    }
    let why = found.as_ref().err().map_or_else(String::new, |why| format!("{why}\n"));
    table(Paint::stdout(), &[], &rows) + &why
}

fn kept(request: &ModelRequest) -> Result<Vec<Kept>, Failure> {
    let Some(cache) = &request.cache else { return Ok(Vec::new()) };
    model::kept(cache).map_err(|error| {
        Failure::Could(format!(
            "{}: {error}; see who owns it, or set RECALLD_CACHE",
            cache.display()
        ))
    })
}

fn list(common: &Common) -> Result<(), Failure> {
    let request = model_request(None);
    let all = kept(&request)?;
    if common.json {
        let rows: Vec<Value> = all.iter().map(row).collect();
        return tell_line(&json!({"cache": request.cache, "kept": rows}));
    }
    if all.is_empty() {
        return tell_line(&"nothing is kept yet; `recalld model fetch` fetches the default model");
    }
    let rows: Vec<Vec<String>> = all.iter().map(cells).collect();
    tell(&table(Paint::stdout(), &["what", "size", "where"], &rows))
}

fn row(kept: &Kept) -> Value {
    json!({"kind": kept.kind.name(), "path": kept.path, "bytes": kept.bytes})
}

fn cells(kept: &Kept) -> Vec<String> {
    vec![kept.kind.name().to_owned(), bytes(kept.bytes), kept.path.display().to_string()]
}

fn fetch(common: &Common) -> Result<(), Failure> {
    let (_, request) = wanted(common)?;
    let mut bar = Bar::of_command(Unit::Bytes, common.json);
    let files = model::ensure(&request, &mut bar).map_err(Failure::could)?;
    let origin = files.origin.to_string();
    let opened = open_request(&request, common.encoding()?, &mut bar).map_err(Failure::could)?;
    let known = opened.known;
    drop(bar);
    if common.json {
        return tell_line(&json!({
            "name": known.name, "directory": known.directory, "from": origin, "model": shown(known.model),
        }));
    }
    tell_line(&format!("{} is in {} (from: {origin})", known.name, known.directory.display()))
}

fn verify(common: &Common) -> Result<(), Failure> {
    let request = offline(&wanted(common)?.1);
    let mut bar = Bar::of_command(Unit::Bytes, common.json);
    let files = model::ensure(&request, &mut bar);
    let files = files.map_err(|error| Failure::No(OpenFault::Model(error).to_string()))?;
    let kernels = common.encoding()?.kernels;
    let packed = model::check_packed(&request, &files, kernels);
    drop(bar);
    let bad = packed.iter().filter(|(_, why)| why.is_some()).count();
    let rows =
        packed.iter().map(|(path, why)| json!({"path": path, "why": why})).collect::<Vec<_>>();
    if common.json {
        tell_line(&json!({
            "good": bad == 0, "directory": files.dir, "weights_sha256": hex(&files.weights_sha256),
            "tokenizer_sha256": hex(&files.tokenizer_sha256), "packed": rows,
        }))?;
    } else {
        let mut out = format!("{}: every file is as it should be\n", files.dir.display());
        for (path, why) in &packed {
            let why = why.as_deref().unwrap_or("good");
            out.push_str(&format!("{}: {why}\n", path.display()));
        }
        tell(&out)?;
    }
    if bad == 0 {
        return Ok(());
    }
    Err(Failure::No("packed weights are damaged; the next start packs them again".to_owned()))
}

fn prune(common: &Common, dry_run: bool) -> Result<(), Failure> {
    let (bound, request) = wanted(common)?;
    let mut bar = Bar::of_command(Unit::Bytes, common.json);
    let used = found(common, &request, &mut bar);
    drop(bar);
    let used = match (used, bound) {
        (Ok(used), _) => Some(used.weights),
        // If the store's model cannot be identified, nothing is removed: the store may need the files.
        (Err(why), Some(_)) => {
            return Err(Failure::Could(format!(
                "{why}\nnothing was removed: mend the store's model first"
            )));
        }
        (Err(_), None) => None,
    };
    let is_used = |kept: &Kept| used.is_some_and(|weights| kept.is_of(&weights));
    let unused: Vec<Kept> = kept(&request)?.into_iter().filter(|kept| !is_used(kept)).collect();
    let (mut gone, mut busy) = (Vec::new(), Vec::new());
    for kept in unused {
        let at = |error| Failure::Could(format!("{}: {error}", kept.path.display()));
        if dry_run || kept.remove().map_err(at)? { gone.push(kept) } else { busy.push(kept) }
    }
    let together: u64 = gone.iter().map(|kept| kept.bytes).sum();
    if common.json {
        let rows = |all: &[Kept]| all.iter().map(row).collect::<Vec<_>>();
        return tell_line(&json!({
            "dry_run": dry_run, "removed": rows(&gone), "in_use": rows(&busy), "bytes": together,
        }));
    }
    let rows: Vec<Vec<String>> = gone.iter().map(cells).collect();
    let verb = if dry_run { "would be removed" } else { "removed" };
    let mut out = if rows.is_empty() { String::new() } else { table(Paint::stdout(), &[], &rows) };
    out.push_str(&format!("{} {verb}, {}\n", rows.len(), bytes(together)));
    for kept in busy {
        out.push_str(&format!("{}: another process is at it\n", kept.path.display()));
    }
    tell(&out)
}
