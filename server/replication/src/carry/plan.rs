//! Decides the next action of the thread that writes records.

use std::sync::Arc;
use std::time::Duration;

use engine::Seq;

use super::state::{Folding, INDEX, Keys, Log, Named, Outline, PieceOf, State};
use crate::limits::{FOLDS_MAX, INLINE_BYTES_MAX, LOGS_MAX, STEP_BYTES};
use crate::parts::Upload;
use crate::record::{FarFile, FarLog};
use crate::ticks::Ticks;

/// State of the record log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    pub(super) has_full: bool,
    /// True if a full record is due.
    pub(super) wants_full: bool,
}

/// Next action of the thread that writes records.
#[derive(Debug)]
pub(super) enum Next {
    Step(StepOf),
    Full(FullOf),
    /// Wait until the store reports something, at most for this duration.
    Wait(Option<Duration>),
}

/// Plan of a step record.
#[derive(Debug)]
pub(super) struct StepOf {
    pub(super) pieces: Vec<PieceOf>,
    pub(super) seq: Seq,
}

/// Plan of a full record. Each log is paired with the bytes after its log objects.
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
    /// Decides the next action. `delay` is how long WAL bytes wait for more bytes; zero if writes wait for the upload.
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

    /// Returns true if the newest full record does not reference an uploaded index.
    fn has_new_index(&self) -> bool {
        self.files.iter().any(|(name, sent)| sent.is_new_index(name))
    }

    /// Plans a step with all new WAL bytes, except for bytes that a reader could not apply before a pending manifest.
    fn step(&self) -> Option<StepOf> {
        let leading = self.manifest.as_ref().filter(|it| it.must_lead && it.number > self.in_chain);
        let end = |log: &Log| match leading {
            None => log.mark,
            // A log that is not in this manifest comes after the manifest.
            Some(it) => {
                let mark = it.logs.iter().find(|mark| mark.log == log.mark.log).copied();
                mark.unwrap_or(engine::replication_sink::WalPosition { end: 0, seq: 0, ..log.mark })
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

    /// Plans the full record of the newest manifest. Returns `None` until the manifest's files are uploaded and the
    /// bytes after the log objects fit into the record. If only the bytes do not fit, the call starts new log objects.
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

    /// Logs of a manifest, each with the end to include. The end is the highest of three: the log's end in the record
    /// log, its end when the manifest was made, and the end of its log objects.
    fn logs_of<'a>(&'a self, manifest: &'a Outline) -> impl Iterator<Item = (&'a Log, u64)> {
        let floor = manifest.floor;
        self.logs.range(floor..).filter_map(move |(number, log)| {
            let told = manifest.logs.iter().find(|mark| mark.log == *number);
            let to = log.sent.max(log.folded_to()).max(told.map_or(0, |mark| mark.end));
            (to > 0 && log.file.is_some()).then_some((log, to))
        })
    }

    /// Starts a log object for the bytes of each log that are on disk and not in a log object yet.
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
    /// Objects and log ends that the record references.
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

/// Splits a log up to `to` into the log objects that a full record references, and the location of the bytes after the
/// last one.
fn far(log: &Log, to: u64) -> (FarLog, Option<PieceOf>) {
    let (number, first_seq, from) = (log.mark.log, log.mark.first_seq, log.folded_to());
    let rest = log.file.as_ref().filter(|_| to > from);
    let rest = rest.map(|file| PieceOf { number, first_seq, from, to, file: Arc::clone(file) });
    (FarLog { number, first_seq, folds: log.folds.clone(), rest: Vec::new() }, rest)
}
