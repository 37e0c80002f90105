//! What the thread that writes records does next.

use std::sync::Arc;
use std::time::Duration;

use engine::Seq;

use super::state::{Folding, INDEX, Keys, Log, Named, Outline, PieceOf, State};
use crate::limits::{FOLDS_MAX, INLINE_BYTES_MAX, LOGS_MAX, STEP_BYTES};
use crate::parts::Upload;
use crate::record::{FarFile, FarLog};
use crate::ticks::Ticks;

/// What the chain is ready for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    /// It has a full record.
    pub(super) has_full: bool,
    /// One is due.
    pub(super) wants_full: bool,
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Next {
    /// Write a step.
    Step(StepOf),
    /// Write a full record.
    Full(FullOf),
    /// Nothing before this much time, or before something is told.
    Wait(Option<Duration>),
}

/// A step to be written.
#[derive(Debug)]
pub(super) struct StepOf {
    pub(super) pieces: Vec<PieceOf>,
    pub(super) seq: Seq,
}

/// A full record to be written. Of each log, the bytes behind its objects.
#[derive(Debug)]
pub(super) struct FullOf {
    pub(super) number: u64,
    pub(super) manifest: Vec<u8>,
    pub(super) files: Vec<FarFile>,
    pub(super) logs: Vec<(FarLog, Option<PieceOf>)>,
    pub(super) seq: Seq,
    pub(super) ends_erasure: bool,
}

impl State {
    /// What to do next. `delay` is how long log bytes wait for company; none where writes wait for them.
    pub(super) fn next(
        &mut self,
        chain: Chain,
        delay: Duration,
        keys: &dyn Keys,
        now: Ticks,
    ) -> Next {
        let is_new = self.manifest.as_ref().is_some_and(|it| it.number > self.in_chain);
        let is_asked = chain.wants_full || self.full_first || self.owes_erasure;
        let is_due = is_new || is_asked || self.has_new_index();
        if is_due && let Some(full) = self.full(keys) {
            return Next::Full(full);
        }
        if !chain.has_full || self.full_first {
            return Next::Wait(None);
        }
        let Some(step) = self.step() else { return Next::Wait(None) };
        let waited = self.unsent_since.map_or(Duration::ZERO, |since| now - since);
        if waited >= delay || self.unsent_bytes() >= STEP_BYTES {
            return Next::Step(step);
        }
        Next::Wait(Some(delay - waited))
    }

    /// Whether an index is there that the newest full record does not name.
    fn has_new_index(&self) -> bool {
        self.files.iter().any(|(name, sent)| sent.is_new_index(name))
    }

    /// All that logs have grown by, as far as it can be read without a manifest that is still to come.
    fn step(&self) -> Option<StepOf> {
        let leading = self.manifest.as_ref().filter(|it| it.must_lead && it.number > self.in_chain);
        let end = |log: &Log| match leading {
            None => log.mark,
            // A log that this manifest does not know comes after it.
            Some(it) => {
                let mark = it.logs.iter().find(|mark| mark.log == log.mark.log).copied();
                mark.unwrap_or(engine::far::LogMark { end: 0, seq: 0, ..log.mark })
            }
        };
        let mut seq = self.seq;
        let mut pieces = Vec::new();
        for (&number, log) in &self.logs {
            let (Some(file), mark) = (&log.file, end(log)) else { continue };
            if mark.end > log.sent && pieces.len() < LOGS_MAX {
                let (from, to, file) = (log.sent, mark.end, Arc::clone(file));
                pieces.push(PieceOf { number, first_seq: mark.first_seq, from, to, file });
                seq = seq.max(mark.seq);
            }
        }
        (!pieces.is_empty()).then_some(StepOf { pieces, seq })
    }

    /// The full record for the newest manifest, once its files are there and its logs are short enough.
    fn full(&mut self, keys: &dyn Keys) -> Option<FullOf> {
        let manifest = self.manifest.as_ref()?;
        let mut files = Vec::new();
        for file in &manifest.files {
            files.push(self.files.get(&file.name)?.named(&file.name)?);
        }
        let indexes = self.files.iter().filter(|(name, _)| name.starts_with(INDEX));
        files.extend(indexes.filter_map(|(name, sent)| sent.named(name)));
        files.sort_by(|one, other| one.name.cmp(&other.name));
        let rests: u64 = self.logs_of(manifest).map(|(log, to)| to - log.folded_to()).sum();
        if rests > INLINE_BYTES_MAX as u64 {
            self.fold(keys);
            return None;
        }
        let manifest = self.manifest.as_ref()?;
        let logs = self.logs_of(manifest).map(|(log, to)| far(log, to)).collect();
        let folded = self.logs_of(manifest).map(|(log, _)| log.folded_seq);
        let seq = folded.fold(self.seq.max(manifest.last_seq), Seq::max);
        Some(FullOf {
            number: manifest.number,
            manifest: manifest.bytes.clone(),
            files,
            logs,
            seq,
            ends_erasure: self.owes_erasure
                || manifest.ends_erasure && manifest.number > self.in_chain,
        })
    }

    /// The logs that go with a manifest, and how far: to where they are in the chain, or were when it was made, or
    /// are as objects.
    fn logs_of<'a>(&'a self, manifest: &'a Outline) -> impl Iterator<Item = (&'a Log, u64)> {
        let floor = manifest.floor;
        self.logs.range(floor..).filter_map(move |(number, log)| {
            let told = manifest.logs.iter().find(|mark| mark.log == *number);
            let to = log.sent.max(log.folded_to()).max(told.map_or(0, |mark| mark.end));
            (to > 0 && log.file.is_some()).then_some((log, to))
        })
    }

    /// What of the logs is no object yet becomes one, as far as it is on disk.
    fn fold(&mut self, keys: &dyn Keys) {
        let folds: usize = self.logs.values().map(|log| log.folds.len()).sum();
        if folds >= FOLDS_MAX {
            return;
        }
        for log in self.logs.values_mut() {
            let (from, to) = (log.folded_to(), log.mark);
            if log.folding.is_none() && log.file.is_some() && to.end > from {
                let key = keys.key();
                let upload = Arc::new(Upload::new(key, from, to.end));
                log.folding = Some(Folding { key, from, to, upload });
            }
        }
    }
}

impl FullOf {
    /// What it names.
    pub(super) fn named(&self) -> Named {
        let to = |(log, rest): &(FarLog, Option<PieceOf>)| {
            (log.number, rest.as_ref().map_or(log.folded(), |rest| rest.to))
        };
        Named {
            files: self.files.iter().map(|file| file.key).collect(),
            logs: self.logs.iter().map(to).collect(),
            ends_erasure: self.ends_erasure,
        }
    }
}

/// A log as a full record names it, without the bytes behind its objects; and where those are.
fn far(log: &Log, to: u64) -> (FarLog, Option<PieceOf>) {
    let (number, first_seq, from) = (log.mark.log, log.mark.first_seq, log.folded_to());
    let rest = log.file.as_ref().filter(|_| to > from);
    let rest = rest.map(|file| PieceOf { number, first_seq, from, to, file: Arc::clone(file) });
    (FarLog { number, first_seq, folds: log.folds.clone(), rest: Vec::new() }, rest)
}
