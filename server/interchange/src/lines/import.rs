//! A file of lines into a store: read once for what it holds, and once more to import it.
//!
//! A batch is stored whole or not at all; an import that ends early, by a kill too, leaves the batches
//! before, and finds their lines unchanged when it is begun again. Must not know where the file came
//! from, nor who asked.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::error::ImportError;
use super::pass::Pass;
use super::plan::{At, Plan};
use super::report::Report;
use recalld_common::cancel::CallScope;
use recalld_embedding::encoders::Encoders;
use recalld_embedding::inflow::Inflow;

/// Where lines go, and how.
pub struct Import<'a> {
    /// The store, and what makes embeddings of searchable items.
    pub encoders: &'a Encoders,
    /// Who hides what a line only says is tombstoned.
    pub by: &'a str,
    /// Nothing is written when any line is bad.
    pub strict: bool,
    /// Nothing is written.
    pub dry_run: bool,
    /// The call whose work it is.
    pub call: CallScope<'a>,
    /// Told of lines done, and of how many there are.
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

/// Reads lines at their places, which mostly follow one another.
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
