//! `recalld export`: the whole store as JSON Lines (`format-spec/export.md`).

use std::fs::{self, DirBuilder};
use std::io::{self, BufReader, BufWriter, ErrorKind, IsTerminal, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::CorruptionError;
use serde_json::{Value, json};

use super::common::Common;
use super::cut::Cut;
use super::failure::Failure;
use super::fresh::Fresh;
use super::import::nameless;
use super::remote::Remote;
use super::tell::{say, tell_line};
use recalld_common::counted::counted;
use recalld_embedding::model::{Bar, Progress, Unit};
use recalld_fs_util::start_error::StartError;
use recalld_interchange::lines::{LINES_MAX, write};
use recalld_interchange::vault;
use recalld_store_admin::Alone;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    common: Common,
    /// Output file; `-` is standard output.
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Replace FILE if it exists.
    #[arg(long)]
    force: bool,
    /// Write a folder of Markdown notes instead of lines, one note per current memory, for people and for programs such
    /// as Obsidian. The folder must be missing or empty.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "force"])]
    vault: Option<PathBuf>,
    /// Use this tenant's store, as the operator; the call is recorded in the tenant's ledger.
    #[arg(long, value_name = "SLUG")]
    workspace: Option<String>,
}

const EXPORTING: &str = "exporting";

pub(super) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let data = args.common.data()?;
    if let Some(folder) = &args.vault {
        return vault(args, &data, folder);
    }
    if args.file == Path::new("-") {
        // On a terminal the lines themselves show progress.
        let is_quiet = args.common.json || io::stdout().is_terminal();
        let mut out = Watched::new(io::stdout().lock(), EXPORTING, is_quiet);
        let workspace = args.workspace.as_deref();
        let told =
            lines(&data, workspace, &mut out).and_then(|told| Ok(out.flush().map(|()| told)?));
        drop(out);
        return match told {
            Ok(told) => {
                say(&readable(&told));
                warn_if_many(total(&told));
                Ok(())
            }
            // A reader such as `head` may close the pipe early.
            Err(Cut::Writing(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(cut) => Err(cut.failure("standard output", damaged)),
        };
    }
    let mut fresh = Fresh::create(&args.file, args.force)?;
    let named = args.file.display().to_string();
    let mut out = Watched::new(&mut fresh.file, EXPORTING, args.common.json);
    let told = lines(&data, args.workspace.as_deref(), &mut out);
    drop(out);
    let told = told.map_err(|cut| cut.failure(&named, damaged))?;
    fresh.put_in_place().map_err(|error| Cut::Writing(error).failure(&named, damaged))?;
    warn_if_many(total(&told));
    if args.common.json {
        tell_line(&told)
    } else {
        tell_line(&format_args!("{} to {named}", readable(&told)))
    }
}

/// Writes the vault from an unnamed spool file of lines: a note needs other lines that refer to its item.
fn vault(args: &ExportArgs, data: &Path, folder: &Path) -> Result<(), Failure> {
    let named = folder.display();
    let failed = |error: io::Error| Failure::Could(format!("{named}: {error}"));
    let is_free = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => return Err(failed(error)),
    };
    if !is_free {
        let why = format!("{named} is not empty; name a new folder, or an empty one");
        return Err(Failure::Usage(why));
    }
    let mut spool = nameless()?;
    let mut out = Watched::new(BufWriter::new(&spool), EXPORTING, args.common.json);
    let spooled = "the lines that it is made of";
    lines(data, args.workspace.as_deref(), &mut out)
        .and_then(|_| Ok(out.flush()?))
        .map_err(|cut| cut.failure(spooled, damaged))?;
    drop(out);
    spool.rewind().map_err(failed)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let cut = |error| {
        let remedy = "remove what was written there, and try again";
        Failure::Could(format!("{named}: {error}; {remedy}"))
    };
    let mut bar = Bar::of_command(Unit::Files, args.common.json);
    let mut tell = |done, total| bar.advance("writing notes", done, Some(total));
    let report = vault::write(&mut BufReader::new(spool), folder, &mut tell).map_err(cut)?;
    drop(bar);
    if args.common.json {
        return tell_line(&report.to_json());
    }
    let vault::Report { notes, links, earlier } = report;
    let (notes, links) = (counted(notes, "note"), counted(links, "link"));
    tell_line(&format_args!("{notes}, {links}, {} to {named}", counted(earlier, "earlier version")))
}

/// A writer with a progress bar of unknown total.
pub(super) struct Watched<W> {
    out: W,
    what: &'static str,
    bar: Bar,
    done: u64,
}

impl<W: Write> Watched<W> {
    pub(super) fn new(out: W, what: &'static str, json: bool) -> Self {
        Self { out, what, bar: Bar::of_command(Unit::Bytes, json), done: 0 }
    }
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.done += count as u64;
        self.bar.advance(self.what, self.done, None);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A number in a report, 0 if absent.
fn count(told: &Value, name: &str) -> u64 {
    told[name].as_u64().unwrap_or_default()
}

fn total(told: &Value) -> u64 {
    ["sources", "items", "edges", "tombstones"].iter().map(|name| count(told, name)).sum()
}

/// If the lines exceed the limit of one import, prints how to split the import.
pub(super) fn warn_if_many(lines: u64) {
    if let Some(advice) = in_parts(lines) {
        say(&advice);
    }
}

fn in_parts(lines: u64) -> Option<String> {
    let most = u64::from(LINES_MAX);
    (lines > most).then(|| {
        format!(
            "one import takes {most} lines, and these are {lines}: import them in {} parts, in their \
             order (split -l {most} FILE part., then `recalld import` of each); what that changes is \
             in format-spec/export.md, In parts",
            lines.div_ceil(most),
        )
    })
}

fn damaged(damage: &CorruptionError) -> String {
    format!(
        "the store is damaged: {damage}; restore a backup of the data directory, or bring out what can \
         be read with `recalld salvage`"
    )
}

/// Writes all lines and returns the number per type, in-process or through the server that has the store.
fn lines(data: &Path, workspace: Option<&str>, out: &mut impl Write) -> Result<Value, Cut> {
    match Alone::open(data) {
        Ok(alone) => {
            let told = alone.export(workspace, |snapshot| {
                write::all(snapshot, |lines| out.write_all(lines).map_err(Cut::from))
            });
            Ok(json!(told.map_err(Failure::from)??))
        }
        Err(StartError::Busy(_)) => {
            // A failed write ends the response; its error is retained in `failed`.
            let mut failed = None;
            let asked = workspace.map_or(json!({}), |name| json!({"workspace": name}));
            let told = Remote::find(data)?.lines("/operator/export", &asked, |line| {
                let written = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
                written.map_err(|error| {
                    let why = Failure::could(&error);
                    failed = Some(error);
                    why
                })
            });
            match failed {
                Some(error) => Err(Cut::Writing(error)),
                None => Ok(told?),
            }
        }
        Err(error) => Err(Failure::could(error).into()),
    }
}

fn readable(told: &Value) -> String {
    let count = |name: &str| count(told, name);
    format!(
        "{}, {}, {}, {}",
        counted(count("sources"), "source"),
        counted(count("items"), "item"),
        counted(count("edges"), "edge"),
        counted(count("tombstones"), "tombstone")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_import_does_not_take_is_said_with_the_way_to_do_it() {
        assert_eq!(in_parts(u64::from(LINES_MAX)), None);
        let advice = in_parts(u64::from(LINES_MAX) + 1).unwrap();
        assert!(advice.contains("in 2 parts") && advice.contains("split -l 4194304 "), "{advice}");
    }
}
