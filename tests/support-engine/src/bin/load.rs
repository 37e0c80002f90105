//! The load program for kills, power cuts and failing system calls, and its checker.
//!
//! ```text
//! load write FOLDER TAG WRITERS BATCHES [unsynced]    writes; says on standard output what is acknowledged
//! load check FOLDER FILE                              opens the store and compares with what was said
//! ```
//!
//! Exits with 1 and an error if writing stopped, or if the store differs from the acknowledged writes.

use std::path::Path;
use std::process::ExitCode;

use support_engine::load::{Heard, Plan, check, run};

const USAGE: &str =
    "usage: load write FOLDER TAG WRITERS BATCHES [unsynced] | load check FOLDER FILE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["write", folder, tag, writers, batches] => write(folder, tag, writers, batches, false),
        ["write", folder, tag, writers, batches, "unsynced"] => {
            write(folder, tag, writers, batches, true)
        }
        ["check", folder, file] => compare(folder, file),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn write(
    folder: &str,
    tag: &str,
    writers: &str,
    batches: &str,
    is_unsynced: bool,
) -> Result<(), String> {
    let number = |text: &str| text.parse::<usize>().map_err(|_| USAGE.to_owned());
    let (writers, batches) = (number(writers)?, number(batches)?);
    let plan = Plan { tag: tag.to_owned(), writers, batches, is_unsynced };
    run(Path::new(folder), &plan, std::io::stdout()).map_err(|error| error.to_string())
}

fn compare(folder: &str, file: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let mut heard = Heard::default();
    heard.hear_all(&text);
    let seq = check(Path::new(folder), &heard)?;
    println!("{} commits acknowledged, {seq} there", heard.commits());
    Ok(())
}
