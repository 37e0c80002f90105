//! Imports a file of lines into a store in two passes: the first plans, the second imports.
//!
//! A batch is stored whole or not at all. If an import ends early, even by SIGKILL, the earlier batches remain stored,
//! and the next attempt reports their lines as unchanged. Must not know the origin of the file or the caller.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::error::ImportError;
use super::pass::Pass;
use super::plan::{At, Plan};
use super::report::Report;
use recalld_common::cancel::CallScope;
use recalld_embedding::encoders::Encoders;
use recalld_embedding::inflow::Inflow;

/// Destination and options of an import.
pub struct Import<'a> {
    /// The store, and the encoder that embeds searchable items.
    pub encoders: &'a Encoders,
    /// Author of tombstones for rows whose line is marked as tombstoned without a tombstone line.
    pub by: &'a str,
    /// If true, nothing is written when any line is bad.
    pub strict: bool,
    /// If true, nothing is written.
    pub dry_run: bool,
    /// Call on whose behalf the import runs; its cancellation ends the import.
    pub call: CallScope<'a>,
    /// Receives the number of finished lines and the number of all lines.
    pub progress: &'a dyn Fn(u64, u64),
}

impl Import<'_> {
    /// Imports a file.
    pub fn run(&self, file: &File) -> Result<Report, ImportError> {
        let plan = Plan::of(&mut BufReader::new(file))?;
        if self.dry_run || self.strict {
            let mut found = self.pass(file, &plan, false)?;
            if self.dry_run || found.bad.count > 0 {
                found.nothing_written = true;
                return Ok(found);
            }
        }
        self.pass(file, &plan, true)
    }

    fn pass(&self, file: &File, plan: &Plan, writes: bool) -> Result<Report, ImportError> {
        std::thread::scope(|scope| {
            let inflow = writes.then(|| Inflow::start(scope, self.encoders));
            let mut lines = Lines { file: BufReader::new(file), at: None };
            let mut pass = Pass::new(self, plan, inflow)?;
            for &at in &plan.order {
                if self.call.is_over() {
                    return Err(ImportError::Cancelled);
                }
                let text = lines.read(plan, at)?;
                pass.line(at, &text)?;
            }
            pass.end()
        })
    }
}

/// Reads lines at their offsets, which are mostly consecutive.
struct Lines<'a> {
    file: BufReader<&'a File>,
    at: Option<u64>,
}

impl Lines<'_> {
    fn read(&mut self, plan: &Plan, at: At) -> io::Result<String> {
        let entry = plan.entries[at as usize];
        match self.at {
            Some(here) => {
                let to = i64::try_from(entry.at).ok().zip(i64::try_from(here).ok());
                let (to, here) = to.ok_or_else(|| io::Error::other("the file is too long"))?;
                self.file.seek_relative(to - here)?;
            }
            None => drop(self.file.seek(SeekFrom::Start(entry.at))?),
        }
        self.at = Some(entry.at + u64::from(entry.bytes));
        let mut bytes = vec![0; entry.bytes as usize];
        self.file.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| io::Error::other("the file changes while it is read"))
    }
}
