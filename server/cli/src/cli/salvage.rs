//! `recalld salvage`: recovers everything readable from a damaged store, as lines for `import`.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use engine::os::disk::FsDisk;
use engine::{CorruptionError, DroppedCounts, OpenError, RecordCounts, Salvage, SalvageReport};
use serde_json::{Value, json};

use super::common::Common;
use super::cut::Cut;
use super::export::{Watched, warn_if_many};
use super::failure::Failure;
use super::fresh::Fresh;
use super::tell::{shell_word, tell};
use super::verify::{Checking, place_of};
use recalld_common::counted::counted;
use recalld_interchange::lines::write;

/// Bytes of lines per write.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Debug, Args)]
pub(super) struct SalvageArgs {
    #[command(flatten)]
    common: Common,
    /// Output file of the lines; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Replace FILE if it exists.
    #[arg(long)]
    force: bool,
    /// A backup, another data directory, or a copy of a store, instead of the data directory.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

pub(super) fn run(args: &SalvageArgs) -> Result<(), Failure> {
    let folder = place_of(args.folder.as_deref(), &args.common)?.store();
    let disk = FsDisk::open(&folder).map_err(Failure::could)?;
    let mut reading = Checking::new(&folder, "reading", args.common.json);
    let salvage = Salvage::read(&disk, &mut |name| reading.tell(name));
    drop(reading);
    let salvage = salvage.map_err(|error| could(&folder, &error))?;
    let report = if args.to == Path::new("-") {
        let mut out = io::stdout().lock();
        match lines(&salvage, &mut out) {
            // A reader such as `head` may close the pipe early.
            Err(Cut::Writing(error)) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            other => other.map_err(|cut| cut.failure("standard output", damaged))?,
        }
    } else {
        let named = args.to.display().to_string();
        let mut fresh = Fresh::create(&args.to, args.force)?;
        let mut out = Watched::new(&mut fresh.file, "bringing out", args.common.json);
        let report = lines(&salvage, &mut out).map_err(|cut| cut.failure(&named, damaged))?;
        drop(out);
        fresh.put_in_place().map_err(|error| Cut::Writing(error).failure(&named, damaged))?;
        report
    };
    let told = if args.common.json {
        format!("{}\n", to_json(&report))
    } else {
        readable(&report, &args.to)
    };
    warn_if_many(report.recovered.total());
    // A JSON report goes to standard output if the lines go to a file. Otherwise the report goes to standard error, so
    // that it never mixes with lines.
    if args.common.json && args.to != Path::new("-") {
        return tell(&told);
    }
    let _unheard = io::stderr().lock().write_all(told.as_bytes());
    Ok(())
}

fn could(folder: &Path, error: &OpenError) -> Failure {
    let advice = match error {
        OpenError::NoStore => "say where the store is with --data DIR, or name its folder",
        _ => "make sure that its files can be read, or salvage a copy of them",
    };
    Failure::Could(format!("{}: {error}; {advice}", folder.display()))
}

fn damaged(damage: &CorruptionError) -> String {
    format!("a row that could be read cannot be read any more: {damage}; try again")
}

fn lines(salvage: &Salvage, out: &mut impl Write) -> Result<SalvageReport, Cut> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    let report = salvage.records(&mut |salvage, record| {
        write::salvaged(salvage, &record, &mut chunk)?;
        if chunk.len() >= CHUNK_BYTES {
            out.write_all(&chunk)?;
            chunk.clear();
        }
        Ok::<_, Cut>(())
    })?;
    out.write_all(&chunk)?;
    out.flush()?;
    Ok(report)
}

fn rows(rows: RecordCounts) -> Value {
    json!({
        "sources": rows.sources, "items": rows.items, "edges": rows.edges,
        "tombstones": rows.tombstones,
    })
}

fn to_json(report: &SalvageReport) -> Value {
    let left = report.dropped;
    let file = |file: &engine::FileReport| {
        json!({
            "name": file.name, "rows": rows(file.rows), "lost": rows(file.lost),
            "more_lost": file.has_unknown_losses,
            "reasons": file.reasons, "more_reasons": file.more_reasons,
        })
    };
    json!({
        "whole": report.is_lossless(),
        "given": rows(report.recovered),
        "left_out": {
            "erased": left.erased, "edges_without_an_end": left.edges,
            "unnamed_sources": left.sources,
            "supersedes_without_target": left.supersedes,
            "names_of_lost_sources": left.source_references,
            "items_whose_successors_are_lost": left.successors,
        },
        "files": report.files.iter().map(file).collect::<Vec<_>>(),
    })
}

fn told(rows: RecordCounts) -> String {
    format!(
        "{}, {}, {}, {}",
        counted(rows.sources, "source"),
        counted(rows.items, "item"),
        counted(rows.edges, "edge"),
        counted(rows.tombstones, "tombstone")
    )
}

fn readable(report: &SalvageReport, to: &Path) -> String {
    let mut out = format!("brought out: {}\n", told(report.recovered));
    for file in &report.files {
        if file.lost.total() > 0 || !file.reasons.is_empty() {
            out += &match (file.lost.total(), file.has_unknown_losses) {
                (0, true) => format!("{}: lost an unknown number of rows\n", file.name),
                (_, more) => {
                    let more = if more { ", and an unknown number of others" } else { "" };
                    let (lost, rows) = (told(file.lost), told(file.rows));
                    format!("{}: lost {lost} of {rows}{more}\n", file.name)
                }
            };
            for why in &file.reasons {
                out += &format!("  {why}\n");
            }
            if file.more_reasons > 0 {
                out += &format!("  and {} more\n", file.more_reasons);
            }
        }
    }
    let DroppedCounts {
        erased,
        edges,
        sources,
        supersedes,
        source_references: source_names,
        successors,
    } = report.dropped;
    for (count, one, what) in [
        (erased, "row", "left out, of what was to be erased or may have been"),
        (edges, "edge", "left out, of which an end is lost"),
        (sources, "source", "left out, which nothing names"),
        (supersedes, "lost item", "that others replaced, and do not name any longer"),
        (source_names, "lost source", "that rows named, and do not name any longer"),
        (successors, "item", "whose successors are lost: current again now"),
    ] {
        if count > 0 {
            out += &format!("{} {what}\n", counted(count, one));
        }
    }
    let next = format!("recalld import {} --data NEW_DIR", shell_word(to));
    out + &format!("to make a new store of it: {next}\n")
}
