//! `recalld import`: imports JSON Lines (`format-spec/export.md`) or another program's export, in-process or through
//! the running server.

use std::cell::{Cell, RefCell};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use engine::NoThrottle;
use serde_json::{Map, Value, json};

use super::common::Common;
use super::failure::Failure;
use super::remote::{Remote, show_step};
use super::tell::tell_line;
use crate::app::Started;
use recalld_api::app_state::AppState;
use recalld_api::operator::{Import, Whose, named};
use recalld_common::cancel::CancellationToken;
use recalld_common::counted::{agreed, counted};
use recalld_common::keys::one_of;
use recalld_common::wants::Wants;
use recalld_embedding::model::{Bar, Progress, Unit};
use recalld_interchange::foreign;
use recalld_interchange::foreign::{ForeignError, Shape, Translated};
use recalld_policy::Caller;
use recalld_tool_framework::{Answer, ToolContext};

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    #[command(flatten)]
    common: Common,
    /// The input; `-` is standard input. Lines of `export`, or another program's export: a file, an archive, or a
    /// folder of notes.
    file: PathBuf,
    /// The input's format: recalld, mcp-memory, mem0, mcp-memory-service, vault, chatgpt, claude or plain [default:
    /// detected from its content].
    #[arg(long, value_name = "SHAPE", value_parser = shape)]
    from: Option<From>,
    /// Import nothing if any line is invalid.
    #[arg(long)]
    strict: bool,
    /// Report the changes without making them.
    #[arg(long)]
    dry_run: bool,
    /// Use this tenant's store, as the operator; the call is recorded in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

/// The requested input format.
#[derive(Debug, Clone, Copy)]
pub(super) enum From {
    /// Our own export lines.
    Recalld,
    /// Another program's export.
    Foreign(Shape),
}

/// Parses the name of a format.
pub(super) fn shape(name: &str) -> Result<From, String> {
    const OWN: &str = "recalld";
    if name == OWN {
        return Ok(From::Recalld);
    }
    Shape::of(name).map(From::Foreign).ok_or_else(|| {
        let names: Vec<&str> = Shape::ALL.map(Shape::name).into_iter().chain([OWN]).collect();
        format!("give {}", one_of(name, &names))
    })
}

impl std::convert::From<ForeignError> for Failure {
    fn from(error: ForeignError) -> Self {
        match error {
            ForeignError::Wrong(why) => Self::Usage(why),
            ForeignError::Reading(..) => Self::Usage(error.to_string()),
            other => Self::Could(other.to_string()),
        }
    }
}

/// Converts another program's export to lines in an unnamed file, with a summary; `None` if the input already has our
/// own lines.
fn translated(
    args: &ImportArgs,
    spooled: Option<&File>,
) -> Result<Option<(File, Translated)>, Failure> {
    let path = match spooled {
        Some(spool) => PathBuf::from(path_of(spool)),
        None => PathBuf::from(real_path(&args.file)?),
    };
    let shape = match args.from {
        Some(From::Recalld) => return Ok(None),
        Some(From::Foreign(shape)) => Some(shape),
        None => foreign::shape_of(&path)?,
    };
    let Some(shape) = shape else { return Ok(None) };
    let mut lines = nameless()?;
    let name = match spooled {
        Some(_) => "standard input".into(),
        None => path.file_name().unwrap_or_default().to_string_lossy(),
    };
    // The converter polls this before each item.
    let (items, bar) = (Cell::new(0), RefCell::new(Bar::of_command(Unit::Items, args.common.json)));
    let is_over = || {
        items.set(items.get() + 1);
        bar.borrow_mut().advance("reading", items.get(), None);
        false
    };
    let done = foreign::translate(&path, &name, shape, &mut lines, &is_over)?;
    Ok(Some((lines, done)))
}

pub(super) fn run(args: &ImportArgs) -> Result<(), Failure> {
    // Kept open until the import ends: the unnamed files have no other reference.
    let spooled = spooled(&args.file)?;
    let translated = translated(args, spooled.as_ref())?;
    let (spooled, foreign) = match translated {
        Some((lines, done)) => (Some(lines), Some(done)),
        None => (spooled, None),
    };
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
            let mut answer = alone(&parts, &raw, &mut bar)?;
            (answer.take_content(), answer.text)
        }
        None => {
            let remote = Remote::find(&args.common.data()?)?;
            let mut told = remote.follow("/operator/import", &Value::Object(raw), |step| {
                show_step(&mut bar, "importing", step);
            })?;
            (told["structured"].take(), told["text"].as_str().unwrap_or_default().to_owned())
        }
    };
    drop(bar);
    if args.common.json {
        let mut structured = structured.clone();
        if let Some(foreign) = &foreign {
            structured["foreign"] = foreign.to_json();
        }
        tell_line(&structured)?;
    } else {
        if let Some(foreign) = &foreign {
            tell_line(&foreign.readable())?;
        }
        tell_line(&text)?;
    }
    match structured["bad_count"].as_u64() {
        Some(0) => Ok(()),
        bad => {
            let bad = bad.unwrap_or_default();
            let rest = if args.strict { "nothing was imported" } else { "the rest was imported" };
            let rest = if args.dry_run { "this was a dry run" } else { rest };
            let (lines, them) = (counted(bad, "bad line"), agreed(bad, "it", "them"));
            Err(Failure::No(format!("{lines}; {rest}; correct {them} and import again")))
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

fn alone(parts: &AppState, raw: &Map<String, Value>, bar: &mut Bar) -> Result<Answer, Failure> {
    let wanted = Import::parse(raw).map_err(|error| Failure::Usage(error.to_string()))?;
    let caller = Caller::local_operator(parts.local.name());
    let cancel = &CancellationToken::new();
    let whose = Whose::of(parts, &caller, named(&wanted.workspace), Wants::Writes, cancel)
        .map_err(Failure::could)?;
    let bar = Mutex::new(bar);
    let tell = |done: u64, total: u64, _file: &str| {
        let mut bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
        bar.advance("importing", done, Some(total));
    };
    let context = ToolContext {
        services: parts.tool_services(),
        workspace: &whose.workspace,
        caller: &whose.caller,
        cancel,
        deadline: Instant::now() + recalld_api::operator::INGEST_TIME_MAX,
        progress: Some(&tell),
    };
    let answer = recalld_api::operator::import_as_operator(&context, raw, &wanted)
        .map_err(Failure::could)?;
    // No background worker runs here to finish the erasures that the file requested. If any ran, they also seal the
    // store.
    let store = &whose.workspace.store;
    store.erase_pending(&NoThrottle).map_err(Failure::could)?;
    store.seal().map_err(Failure::could)?;
    Ok(answer)
}

/// Spools an input that cannot be read twice: standard input, a pipe, another command's output. `None` for a file or a
/// folder.
fn spooled(file: &Path) -> Result<Option<File>, Failure> {
    if file == Path::new("-") {
        return spool(&mut io::stdin().lock()).map(Some);
    }
    let wrong = |why: &dyn std::fmt::Display| Failure::Usage(format!("{}: {why}", file.display()));
    let about = fs::metadata(file).map_err(|error| wrong(&error))?;
    if about.is_file() || about.is_dir() {
        return Ok(None);
    }
    let mut input = File::open(file).map_err(|error| wrong(&error))?;
    spool(&mut input).map(Some)
}

/// Copies the input to a file, because the importer reads its lines twice.
fn spool(input: &mut impl Read) -> Result<File, Failure> {
    let mut file = nameless()?;
    io::copy(input, &mut file)
        .map_err(|error| Failure::Could(format!("what was read: {error}; set TMPDIR")))?;
    Ok(file)
}

/// Creates a temporary file and unlinks it before the first byte, so it disappears with this process, however that
/// ends.
pub(super) fn nameless() -> Result<File, Failure> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let nth = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("recalld-import-{}-{nth}.jsonl", std::process::id());
    let path = std::env::temp_dir().join(name);
    let could = |error| Failure::Could(format!("{}: {error}; set TMPDIR", path.display()));
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = opened.map_err(could)?;
    fs::remove_file(&path).map_err(could)?;
    Ok(file)
}

/// The path by which this process, or a server of the same user, opens an unnamed file.
fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}
