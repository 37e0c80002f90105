//! Replication thread of the metastore: follows the record log, and acquires it if there is no leader.
//!
//! Decides the order of local writes, and which local state counts.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::os::disk::FsDisk;
use recalld_replication::core::{Claim, Follower, Mark, Polled};
use recalld_replication::limits::LEFT_MAX;
use recalld_replication::{Away, Bytes, FarLog, Full, Kind, LogPiece, Record, Shelf};

use super::leading::SINCE_BYTES_MAX;
use super::marker::{self, Marker};
use super::place::{self, Place, Tables};
use super::rows::{self, Reading};
use super::sealed::Stands;
use super::shared::{Known, Shared, tell};
use super::taking::{Taking, give_away};
use recalld_fs_util::copies;
use recalld_metastore::{Control, ControlError, Operation, TablesDigest, parse};
use recalld_telemetry::log::Level;

/// Interval between two polls of the record log.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Minimum pause between two polls, however many callers request one.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Maximum polls without a pause while the record log has more.
const POLLS_MAX: usize = 64;
const DIGEST_BYTES: usize = 32;
const DIFFERS: &str =
    "what is here of the control store is not what its writer has; it is fetched anew";

pub(super) struct Reader {
    pub(super) data: PathBuf,
    pub(super) shared: Arc<Shared>,
    pub(super) control: Arc<Control>,
    pub(super) taking: Taking,
    pub(super) follower: Follower,
    /// Position of the local metastore; `None` if the record log does not know its state.
    pub(super) place: Option<Place>,
    /// Marker on disk: the record log that the local metastore belongs to, or is about to start.
    pub(super) noted: Option<Marker>,
    is_final: bool,
    /// True if the local rows differ from the leader's: the metastore restarts from a full record.
    pub(super) differs: Cell<bool>,
}

/// A decoded commit.
struct Commit {
    digest: TablesDigest,
    operations: Vec<Operation>,
}

impl Reader {
    pub(super) fn open(
        data: &Path,
        shared: &Arc<Shared>,
        control: &Arc<Control>,
        claim: Option<Claim>,
    ) -> Result<Self, String> {
        let mut reader = Self {
            data: data.to_owned(),
            shared: Arc::clone(shared),
            control: Arc::clone(control),
            taking: Taking::new(claim),
            follower: Follower::new(None),
            place: None,
            noted: None,
            is_final: false,
            differs: Cell::new(false),
        };
        reader.begin_anew()?;
        if let Some(store) = reader.noted.as_ref().map(|noted| noted.store) {
            // Rewrites the marker, as the node may have a new name.
            reader.note(store)?;
        }
        reader.check_rows()?;
        Ok(reader)
    }

    /// Checks that no other program wrote to the file while it was closed.
    fn check_rows(&mut self) -> Result<(), String> {
        let Some(place) = &self.place else { return Ok(()) };
        let found = self.control.copy_state(&mut || Ok(()), &mut |_, _, _| Ok(()));
        if found.map_err(|error| error.to_string())? == place.digest() {
            return Ok(());
        }
        tell(Level::Warn, "the control store has other rows than it was left with", DIFFERS);
        // If the record log has no full record yet, it starts with the local rows.
        let is_begun = place.mark.head.base > 0;
        self.differs.set(is_begun);
        let place = self.place.take().filter(|_| is_begun);
        self.follower = Follower::new(None);
        self.place = place;
        Ok(())
    }

    /// Returns true if a retry cannot succeed.
    pub(super) fn is_final(&self) -> bool {
        self.is_final
    }

    pub(super) fn run(mut self) {
        let mut told = None;
        loop {
            let is_ended = self.wait();
            if is_ended {
                break;
            }
            let why = self.turn().err().or_else(|| self.awaited());
            if let Some(why) = why.as_ref().filter(|_| why != told) {
                tell(Level::Warn, "the control store does not go on with its chain", why);
            }
            self.shared.known().trouble.clone_from(&why);
            told = why;
        }
        give_away(&self.shared);
        let mut known = self.shared.known();
        (known.fresh, known.is_over) = (None, true);
        drop(known);
        self.shared.changed.notify_all();
    }

    /// Waits until the next poll is due. Returns true at shutdown.
    fn wait(&self) -> bool {
        self.shared.with.driver.halt.wait(LOOK_PAUSE_MIN);
        let known = self.shared.known();
        let waits = |known: &mut Known| !known.is_wanted && !known.is_ended;
        let waited = self.shared.changed.wait_timeout_while(known, LOOK_EVERY, waits);
        let mut known = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        known.is_wanted = false;
        known.is_ended
    }

    /// Runs the work that is due.
    pub(super) fn turn(&mut self) -> Result<(), String> {
        self.shared.known().looks.0 += 1;
        let done = self.act();
        let mut known = self.shared.known();
        known.looks.1 = known.looks.0;
        drop(known);
        self.shared.changed.notify_all();
        self.shared.with.moves.advance();
        done
    }

    fn act(&mut self) -> Result<(), String> {
        if self.shared.lead().is_some() {
            return self.tend();
        }
        if self.taking.ended() {
            // This node was the leader until now and may have written more than it knows.
            self.begin_anew()?;
        }
        self.follow()?;
        self.take()
    }

    /// Restarts from the local position.
    pub(super) fn begin_anew(&mut self) -> Result<(), String> {
        self.noted = marker::read(&self.data)?;
        self.place = if self.noted.is_some() { self.kept()? } else { None };
        let place = self.place.as_ref().filter(|_| !self.differs.get());
        self.follower = Follower::new(place.map(|place| place.mark.clone()));
        Ok(())
    }

    /// Position stored in the local metastore.
    fn kept(&self) -> Result<Option<Place>, String> {
        if !self.control.exists() {
            return Ok(None);
        }
        let kept = self.control.place().map_err(|error| error.to_string())?;
        let place = kept.map(|bytes| Place::read(&bytes)).transpose();
        place.map_err(|error| error.to_string())
    }

    /// Polls the record log until its end.
    fn follow(&mut self) -> Result<(), String> {
        for _ in 0..POLLS_MAX {
            let follower = &mut self.follower;
            let driver = &self.shared.with.driver;
            let polled = driver.run(&self.shared.tenant, async |port| follower.poll(&port).await);
            match polled {
                None => return Ok(()),
                Some(Polled::Newest | Polled::Empty) => return self.seen(),
                Some(Polled::Away(Away { why, .. })) => return Err(why),
                Some(Polled::Damage(damage)) => return Err(damage.to_string()),
                Some(Polled::Records(records)) => {
                    let done = self.take_in(&records);
                    if done.is_err() {
                        let again = self.begin_anew();
                        return done.and(again);
                    }
                }
            }
        }
        self.seen()
    }

    /// Updates the known freshness of the local metastore.
    fn seen(&mut self) -> Result<(), String> {
        let is_free = self.is_free();
        let at = self.follower.at().cloned();
        if let (Some(at), Some(place)) = (&at, &mut self.place)
            && at.hash != place.mark.hash
        {
            // Acquisition and release records change no rows.
            place.mark = at.clone();
            let kept = self.control.keep_place(&|| Some(place.bytes()));
            kept.map_err(|error| error.to_string())?;
        }
        let mut known = self.shared.known();
        known.fresh = self.follower.fresh();
        known.is_whole = self.place.as_ref().is_some_and(|place| place.mark.head.base > 0);
        known.is_free = is_free;
        known.at = at.map(|mark| mark.head);
        Ok(())
    }

    /// Applies these records to the local metastore.
    fn take_in(&mut self, records: &[Record]) -> Result<(), String> {
        // Acquisition and release records change no rows.
        let brings = |record: &Record| matches!(record.kind, Kind::Step(_) | Kind::Full(_));
        let records = records.iter().position(brings).map_or(&[][..], |at| &records[at..]);
        let Some((first, rest)) = records.split_first() else {
            self.follower.applied();
            return Ok(());
        };
        let is_ours = |place: &Place| place.mark.head.store == first.head.store;
        if !self.place.as_ref().is_some_and(is_ours) {
            self.set_aside(&first.head)?;
            self.place = None;
        }
        // Write the marker first: a metastore of the record log must never be mistaken for this node's own.
        self.note(first.head.store)?;
        self.follower.applied();
        let at = self.follower.at().cloned().ok_or("the chain has no record")?;
        let known = self.place.clone();
        let differs = self.differs.get();
        let is_known = |full: &Record| {
            known.as_ref().is_some_and(|place| !differs && place.mark.head.seq == full.head.seq)
        };
        let done = match &first.kind {
            Kind::Full(full) if !is_known(first) => self.load(full, rest, at),
            _ => self.step(records, at),
        };
        self.place = Some(done?);
        self.differs.set(false);
        Ok(())
    }

    /// Applies step records to the current rows.
    fn step(&self, records: &[Record], at: Mark) -> Result<Place, String> {
        let known = self.place.clone();
        let mut place = known.ok_or("the chain begins with no full record")?;
        let commits = self.commits(records, &mut place)?;
        place.mark = at;
        let Some(last) = commits.last() else {
            let kept = self.control.keep_place(&|| Some(place.bytes()));
            return kept.map(|()| place).map_err(|error| error.to_string());
        };
        let wanted = last.digest;
        let mut digest = place.digest();
        place.digest = place::hash_of(wanted);
        let all: Vec<Operation> =
            commits.into_iter().flat_map(|commit| commit.operations).collect();
        let applied = self.control.apply(&all, |turned| {
            digest.add(&turned);
            self.check(digest, wanted)?;
            Ok(place.bytes())
        });
        applied.map(|()| place).map_err(|error| error.to_string())
    }

    /// Replaces all rows with those of a full record and the records behind it.
    fn load(&self, full: &Full, behind: &[Record], at: Mark) -> Result<Place, String> {
        let tables = Tables::read(&full.manifest)?;
        let log = full.logs.first().ok_or("a full record has no log")?;
        let mut seq = tables.seq;
        let mut commits = self.frames(&self.whole(log)?, &mut seq)?;
        let mut place = Place { mark: at, log: log.number, to: log.to(), digest: tables.digest };
        commits.append(&mut self.commits_from(behind, &mut place, seq)?);
        let wanted = commits.last().map_or(TablesDigest(tables.digest.0), |commit| commit.digest);
        place.digest = place::hash_of(wanted);
        let disk = FsDisk::open(&self.shared.folder).map_err(|error| error.to_string())?;
        let loaded = self.load_from(full, tables.seq, &disk, commits, (&place, wanted));
        rows::forget(&disk);
        loaded.map(|()| place)
    }

    fn load_from(
        &self,
        full: &Full,
        seq: u64,
        disk: &FsDisk,
        commits: Vec<Commit>,
        (place, wanted): (&Place, TablesDigest),
    ) -> Result<(), String> {
        let file = full.files.first().ok_or("a full record has no tables")?;
        let shared = &self.shared;
        let shelf = Shelf { objects: &*shared.with.driver.objects, tenant: &shared.tenant };
        let into = rows::fresh(disk)?;
        let goes_on = || !shared.known().is_ended;
        let fetched = shelf.fetch(file.key, (file.bytes, file.sha256), &*into, &goes_on);
        fetched.map_err(|why| why.to_string())?;
        let file = rows::written(disk)?;
        let mut reading = Reading::begin(&*file, seq, &shared.seals);
        let mut commits = commits.into_iter();
        let mut next = || match reading.next()? {
            Some(rows) => Ok(Some(rows)),
            None => Ok(commits.next().map(|commit| commit.operations)),
        };
        let loaded = self.control.become_other(&mut next, |digest| {
            self.check(digest, wanted)?;
            Ok(place.bytes())
        });
        loaded.map_err(|error| error.to_string())
    }

    /// Decodes the commits of these records, which follow on the local position.
    fn commits(&self, records: &[Record], place: &mut Place) -> Result<Vec<Commit>, String> {
        let seq = place.mark.head.seq;
        self.commits_from(records, place, seq)
    }

    fn commits_from(
        &self,
        records: &[Record],
        place: &mut Place,
        mut seq: u64,
    ) -> Result<Vec<Commit>, String> {
        let mut commits = Vec::new();
        for record in records {
            match &record.kind {
                Kind::Take | Kind::Give { .. } => {}
                Kind::Step(pieces) => {
                    for piece in pieces {
                        let bytes = self.piece(piece, place)?;
                        commits.append(&mut self.frames(&bytes, &mut seq)?);
                    }
                }
                // All rows of the full record are already here: only its digest is compared.
                Kind::Full(full) => {
                    let tables = Tables::read(&full.manifest)?;
                    let digest = commits.last().map_or(place.digest(), |last| last.digest);
                    self.check(digest, TablesDigest(tables.digest.0))
                        .map_err(|error| error.to_string())?;
                    let log = full.logs.first().ok_or("a full record has no log")?;
                    (place.log, place.to) = (log.number, log.to());
                }
            }
            if record.head.seq != seq && !matches!(record.kind, Kind::Take | Kind::Give { .. }) {
                let (number, said) = (record.head.number, record.head.seq);
                return Err(format!(
                    "record {number} is as of commit {said}, and brings up to {seq}"
                ));
            }
        }
        Ok(commits)
    }

    /// Bytes that a step record appends to a log.
    fn piece(&self, piece: &LogPiece, place: &mut Place) -> Result<Vec<u8>, String> {
        let LogPiece { number, from, to, .. } = *piece;
        let here = if number == place.log { place.to } else { 0 };
        if number < place.log || from != here {
            return Err(format!(
                "REM-04: log {number} goes on at {from}, and {here} bytes of it are here"
            ));
        }
        (place.log, place.to) = (number, to);
        match &piece.bytes {
            Bytes::Here(bytes) => Ok(bytes.clone()),
            Bytes::Object { key, sha256 } => {
                let shared = &self.shared;
                let shelf = Shelf { objects: &*shared.with.driver.objects, tenant: &shared.tenant };
                shelf.small(*key, to - from, *sha256).map_err(|why| why.to_string())
            }
        }
    }

    /// Whole log of a full record.
    fn whole(&self, log: &FarLog) -> Result<Vec<u8>, String> {
        if log.to() > SINCE_BYTES_MAX as u64 {
            return Err(format!("REM-02: a full record has a log of {} bytes", log.to()));
        }
        let shared = &self.shared;
        let shelf = Shelf { objects: &*shared.with.driver.objects, tenant: &shared.tenant };
        let mut bytes = Vec::new();
        for fold in &log.folds {
            let more = shelf.small(fold.key, fold.to - fold.from, fold.sha256);
            bytes.append(&mut more.map_err(|why| why.to_string())?);
        }
        bytes.extend_from_slice(&log.rest);
        Ok(bytes)
    }

    fn frames(&self, mut bytes: &[u8], seq: &mut u64) -> Result<Vec<Commit>, String> {
        let mut commits = Vec::new();
        while !bytes.is_empty() {
            *seq += 1;
            let opened = self.shared.seals.open(Stands::Commit(*seq), &mut bytes);
            let opened =
                opened.map_err(|why| format!("commit {seq} of the control store: {why}"))?;
            let (digest, operations) =
                opened.split_first_chunk::<DIGEST_BYTES>().ok_or("a commit is cut off")?;
            let operations = parse(operations).map_err(|error| error.to_string())?;
            commits.push(Commit { digest: TablesDigest(*digest), operations });
        }
        Ok(commits)
    }

    fn check(&self, found: TablesDigest, wanted: TablesDigest) -> Result<(), ControlError> {
        if found == wanted {
            return Ok(());
        }
        self.differs.set(true);
        Err(ControlError::far(DIFFERS))
    }

    /// Copies a local metastore that does not belong to this record log to a file beside it. A metastore with tenants
    /// is an error instead.
    fn set_aside(&mut self, head: &recalld_replication::Head) -> Result<(), String> {
        if !self.control.exists() {
            return Ok(());
        }
        let tenants = self.control.count_tenants().map_err(|error| error.to_string())?;
        if tenants > 0 {
            self.is_final = true;
            let is_noted = self.noted.is_some() && !self.has_noted(head.store);
            if is_noted && self.kept()?.is_none() {
                // This node was about to start a record log, and another node was faster.
                marker::withdraw(&self.data)?;
                self.noted = None;
            }
            return Err(format!(
                "{} has {tenants} tenants of its own, and the remote has a control store of other nodes: two are never \
                 made one. Serve these tenants with a prefix of their own; or, to give them up on this node, move {} \
                 away",
                self.data.display(),
                self.data.join(recalld_fs_util::data_dir::CONTROL_FILE).display()
            ));
        }
        let name = format!("control.left-{}-{}.redb", head.epoch, head.number);
        let (left, path) = (self.left()?, self.data.join(&name));
        if path.exists() {
            return Ok(());
        }
        if left >= LEFT_MAX {
            self.is_final = true;
            let data = self.data.display();
            return Err(format!(
                "{left} control stores that were set aside are in {data}; remove one of control.left-*"
            ));
        }
        self.control.copy_to(&path, true).map_err(|error| error.to_string())?;
        tell(Level::Warn, "the control store of before was set aside", &name);
        Ok(())
    }

    fn left(&self) -> Result<usize, String> {
        let names = fs::read_dir(&self.data).map_err(copies::at(&self.data))?;
        let is_left =
            |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("control.left-");
        Ok(names.flatten().filter(is_left).count())
    }
}
