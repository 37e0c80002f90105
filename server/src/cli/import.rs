//! `recalld import`: JSON Lines (`format-spec/export.md`) into memory, by this process or by the
//! running server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use engine::FullSpeed;
use serde_json::{Map, Value, json};

use super::remote::Remote;
use super::tell::tell_line;
use super::{Failure, ImportArgs};
use crate::app::Started;
use crate::model::{Bar, Progress, Unit};
use crate::net::Cancel;
use crate::operator::{self, Import, Whose, named};
use crate::parts::{Caller, Parts};
use crate::tools::{Answer, Context};

pub(super) fn run(args: &ImportArgs) -> Result<(), Failure> {
    // Open until the import is done: it has no other name.
    let spooled = spooled(&args.file)?;
    let path = match &spooled {
        Some(spool) => path_of(spool),
        None => real_path(&args.file)?,
    };
    let mut raw = json!({"path": path, "strict": args.strict, "dry_run": args.dry_run});
    if let Some(workspace) = &args.workspace {
        raw["workspace"] = workspace.clone().into();
    }
    let raw = raw.as_object().cloned().unwrap_or_default();
    let mut bar = Bar::of_command(Unit::Lines, args.common.json);
    let (structured, text) = match args.common.start_alone()? {
        Some(Started { parts, .. }) => {
            let answer = alone(&parts, &raw, &mut bar)?;
            (answer.structured, answer.text)
        }
        None => {
            let remote = Remote::find(&args.common.data()?)?;
            let mut told = remote.follow("/operator/import", &Value::Object(raw), |step| {
                let done = step["done"].as_u64().unwrap_or_default();
                bar.advance("importing", done, step["total"].as_u64());
            })?;
            (told["structured"].take(), told["text"].as_str().unwrap_or_default().to_owned())
        }
    };
    drop(bar);
    if args.common.json {
        tell_line(&structured)?;
    } else {
        tell_line(&text)?;
    }
    match structured["bad_count"].as_u64() {
        Some(0) => Ok(()),
        bad => {
            let bad = bad.unwrap_or_default();
            let rest = if args.strict { "nothing was imported" } else { "the rest was imported" };
            let rest = if args.dry_run { "this was a dry run" } else { rest };
            Err(Failure::No(format!("{bad} bad lines; {rest}; correct them and import again")))
        }
    }
}

fn real_path(file: &Path) -> Result<String, Failure> {
    let there = file.canonicalize();
    let there = there.map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    there.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::Usage(format!("{} is not UTF-8, which paths must be", file.display()))
    })
}

fn alone(parts: &Parts, raw: &Map<String, Value>, bar: &mut Bar) -> Result<Answer, Failure> {
    let wanted = Import::parse(raw).map_err(|error| Failure::Usage(error.to_string()))?;
    let caller = Caller::local_operator(&parts.local.name);
    let whose = Whose::of(parts, &caller, named(&wanted.workspace)).map_err(Failure::could)?;
    let bar = Mutex::new(bar);
    let tell = |done: u64, total: u64, _file: &str| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.advance("importing", done, Some(total));
    };
    let context = Context {
        parts,
        workspace: &whose.workspace,
        caller: &whose.caller,
        cancel: &Cancel::new(),
        deadline: Instant::now() + operator::INGEST_TIME_MAX,
        progress: Some(&tell),
    };
    let answer = operator::import_as_operator(&context, raw, &wanted).map_err(Failure::could)?;
    // Nobody else is there to go on with what the file erases. This seals, too, where it does.
    let store = &whose.workspace.store;
    store.erase_pending(&FullSpeed).map_err(Failure::could)?;
    store.seal().map_err(Failure::could)?;
    Ok(answer)
}

/// What is not a file that can be read twice, as one: standard input, a pipe, the output of another
/// command.
fn spooled(file: &Path) -> Result<Option<File>, Failure> {
    if file == Path::new("-") {
        return spool(&mut io::stdin().lock()).map(Some);
    }
    let wrong = |why: &dyn std::fmt::Display| Failure::Usage(format!("{}: {why}", file.display()));
    let about = fs::metadata(file).map_err(|error| wrong(&error))?;
    if about.is_file() {
        return Ok(None);
    }
    if about.is_dir() {
        return Err(wrong(&"is a folder; name a file of JSON Lines"));
    }
    let mut input = File::open(file).map_err(|error| wrong(&error))?;
    spool(&mut input).map(Some)
}

/// Lines as a file, since they are read twice. It loses its name before it has a byte, so it is gone
/// with this process, however that ends.
fn spool(input: &mut impl Read) -> Result<File, Failure> {
    let path = std::env::temp_dir().join(format!("recalld-import-{}.jsonl", std::process::id()));
    let could = |error| Failure::Could(format!("{}: {error}; set TMPDIR", path.display()));
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
    let mut file = opened.map_err(could)?;
    fs::remove_file(&path).map_err(could)?;
    io::copy(input, &mut file).map_err(could)?;
    Ok(file)
}

/// Where this process, or a server of the same user, opens a file that has no name.
fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}
