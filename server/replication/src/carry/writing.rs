use std::time::Duration;

use engine::Seq;

use super::plan::{Chain, FullOf, Next, StepOf};
use super::shared::{CarryWhen, Over, Shared};
use super::state::{Keys, Named, PieceOf};
use crate::core::{Committed, Fenced, Holder};
use crate::limits::{GIVE_STEPS_MAX, INLINE_BYTES_MAX, PAUSE_MAX, PAUSE_MIN};
use crate::names::NodeId;
use crate::parts::{Shelf, Untransferred, Upload, hash_of};
use crate::record::{Bytes, FarLog, Full, Kind, LogPiece};

/// Effect of the record in flight, to be applied once the record is in the log.
enum Brings {
    Step(Vec<(u64, u64)>, Seq),
    Full(u64, Named, Seq),
    Nothing,
}

/// Writes records until the shipper stops.
pub(super) fn run(shared: &Shared, holder: Holder) {
    let mut writing = Writing { shared, holder, open: Brings::Nothing, pause: PAUSE_MIN };
    while shared.goes_on() {
        writing.next();
    }
}

struct Writing<'a> {
    shared: &'a Shared,
    holder: Holder,
    /// Effect of the record whose outcome is unknown.
    open: Brings,
    pause: Duration,
}

impl Writing<'_> {
    fn next(&mut self) {
        if self.holder.is_open() {
            return self.settle();
        }
        match self.wait() {
            Some(Next::Step(step)) => self.step(&step),
            Some(Next::Full(full)) => self.full(full),
            Some(Next::Wait(_)) => {}
            None => self.give(),
        }
    }

    /// Waits for the next action. Returns `None` if the epoch is to be released: everything is in the record log, or no
    /// more is to be uploaded.
    fn wait(&self) -> Option<Next> {
        let shared = self.shared;
        let delay = match shared.when {
            CarryWhen::Acknowledging => Duration::ZERO,
            CarryWhen::Following(delay) => delay,
        };
        let has_full = self.holder.newest().head.base > 0;
        let mut inner = shared.lock();
        if inner.gives_up {
            return None;
        }
        let leaves_much = inner.give.is_some() && self.holder.steps_behind() > GIVE_STEPS_MAX;
        let wants_full = self.holder.wants_full() || leaves_much || inner.confirms;
        let chain = Chain { has_full, wants_full };
        // Before a release, nothing waits for more bytes.
        let delay = if inner.give.is_some() { Duration::ZERO } else { delay };
        let next = inner.state.next(chain, delay, shared, shared.driver.ticks.now());
        let Next::Wait(longest) = next else { return Some(next) };
        if inner.give.is_some() && !inner.state.has_unsent() {
            return None;
        }
        // Wakes the other thread, since planning may have started uploads.
        shared.changed.notify_all();
        if !inner.goes_on() {
            return Some(next);
        }
        let changed = &shared.changed;
        match longest {
            Some(longest) => drop(changed.wait_timeout(inner, longest)),
            None => drop(changed.wait(inner)),
        }
        Some(next)
    }

    fn step(&mut self, step: &StepOf) {
        self.shared.lock().state.naming.clear();
        match self.pieces(&step.pieces) {
            Ok(pieces) => {
                let logs = step.pieces.iter().map(|piece| (piece.number, piece.to)).collect();
                self.commit(Kind::Step(pieces), step.seq, Brings::Step(logs, step.seq));
            }
            Err(why) => self.trouble(why),
        }
    }

    /// Prepares the pieces of a step: inline as far as there is room, the others as objects.
    fn pieces(&self, pieces: &[PieceOf]) -> Result<Vec<LogPiece>, Untransferred> {
        let mut room = INLINE_BYTES_MAX as u64;
        let mut made = Vec::new();
        for piece in pieces {
            let length = piece.to - piece.from;
            let bytes = if length <= room {
                room -= length;
                Bytes::Here(piece.read().map_err(disk)?)
            } else {
                self.object(piece)?
            };
            let PieceOf { number, first_seq, from, to, .. } = *piece;
            made.push(LogPiece { number, first_seq, from, to, bytes });
        }
        Ok(made)
    }

    /// Uploads a piece that is too large for a record.
    fn object(&self, piece: &PieceOf) -> Result<Bytes, Untransferred> {
        let shared = self.shared;
        let key = shared.key();
        let sha256 = hash_of(&*piece.file, piece.from, piece.to)?;
        let upload = Upload::new(key, piece.from, piece.to);
        shared.lock().state.naming.insert(key);
        let sent = upload.send(self.shelf(), &*piece.file, &|| shared.sends(), &|_| ());
        sent.map(|()| Bytes::Object { key, sha256 })
    }

    fn shelf(&self) -> Shelf<'_> {
        Shelf { objects: &*self.shared.driver.objects, tenant: &self.shared.tenant }
    }

    fn full(&mut self, full: FullOf) {
        let named = full.named();
        let FullOf { number, manifest, files, logs, seq, ends_erasure } = full;
        let folds = logs.iter().flat_map(|(log, _)| &log.folds).map(|fold| fold.key);
        let naming = files.iter().map(|file| file.key).chain(folds).collect();
        self.shared.lock().state.naming = naming;
        let logs = logs.into_iter().map(|(log, rest)| {
            let rest = rest.map_or(Ok(Vec::new()), |rest| rest.read())?;
            Ok(FarLog { rest, ..log })
        });
        let erased = if ends_erasure { self.holder.newest().head.number } else { 0 };
        match logs.collect::<Result<Vec<_>, _>>().map_err(disk) {
            Ok(logs) => {
                let kind = Kind::Full(Full { manifest, files, logs, erased });
                self.commit(kind, seq, Brings::Full(number, named, seq));
            }
            Err(why) => self.trouble(why),
        }
    }

    fn give(&mut self) {
        let to: Option<NodeId> = self.shared.lock().give.clone().flatten();
        let seq = self.holder.newest().head.seq;
        self.commit(Kind::Give { to }, seq, Brings::Nothing);
    }

    fn commit(&mut self, kind: Kind, seq: Seq, brings: Brings) {
        self.open = brings;
        let (shared, holder) = (self.shared, &mut self.holder);
        let stamp = shared.stamp();
        let committed = shared.driver.run_telling(&shared.tenant, &tell(shared), async |port| {
            holder.commit(&port, kind, seq, stamp).await
        });
        self.told(committed);
    }

    fn settle(&mut self) {
        let (shared, holder) = (self.shared, &mut self.holder);
        let committed = shared
            .driver
            .run_telling(&shared.tenant, &tell(shared), async |port| holder.settle(&port).await);
        self.told(committed);
    }

    /// Handles the outcome of a record; `None` if the shipper stopped first.
    fn told(&mut self, committed: Option<Committed>) {
        let over = match committed {
            None => return,
            Some(Committed::Done(noted)) => return self.done(noted),
            Some(Committed::Unsure(why)) => return self.trouble(why),
            Some(Committed::Refused(why)) => {
                self.open = Brings::Nothing;
                return self.trouble(format!("it refuses: {why}"));
            }
            Some(Committed::FullFirst) => {
                return self.shared.change(|inner| inner.state.full_first = true);
            }
            Some(Committed::Wrong(damage)) => Over::Broken(damage.to_string()),
            Some(Committed::Given) => Over::Given,
            Some(Committed::Fenced(fenced)) => Over::Fenced(told_of(&fenced)),
        };
        self.shared.change(|inner| inner.over = Some(over));
    }

    fn done(&mut self, noted: crate::core::Noted) {
        self.pause = PAUSE_MIN;
        let brings = std::mem::replace(&mut self.open, Brings::Nothing);
        let (known, was_given) = (self.holder.known(), self.holder.newest().given.is_some());
        self.shared.change(|inner| {
            inner.record = noted.number;
            inner.known = known;
            inner.confirms = false;
            inner.noted.push(noted);
            inner.trouble = None;
            match brings {
                Brings::Nothing => {}
                Brings::Step(logs, seq) => inner.state.committed_step(&logs, seq),
                Brings::Full(number, named, seq) => {
                    inner.state.committed_full(number, &named, seq);
                }
            }
            if was_given {
                inner.over = Some(Over::Given);
            }
        });
        self.shared.show();
    }

    /// Notes an error that may be transient, and waits before the next attempt.
    fn trouble(&mut self, why: impl ToString) {
        self.shared.change(|inner| inner.trouble = Some(why.to_string()));
        self.shared.driver.halt.wait(self.pause);
        self.pause = PAUSE_MAX.min(self.pause * 2);
    }
}

/// Returns a reporter of the errors of a request that is being retried.
fn tell(shared: &Shared) -> impl Fn(&str) {
    |why| shared.change(|inner| inner.trouble = Some(why.to_owned()))
}

fn disk(error: engine::DiskError) -> Untransferred {
    Untransferred::Disk(error.to_string())
}

/// Describes the present writer of the workspace, as text for a person.
fn told_of(fenced: &Fenced) -> String {
    match fenced {
        Fenced::By(head) => {
            let (node, epoch, number) = (&head.node, head.epoch, head.number);
            format!("node {node} writes it by now (epoch {epoch}, record {number})")
        }
        Fenced::Below(number) => {
            format!("another node writes it by now: record {number} is history")
        }
        Fenced::Damage(damage) => format!("the chain cannot be read: {damage}"),
    }
}
