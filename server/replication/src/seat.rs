//! Replica of a workspace on this node: opens its store as leader or follower, and changes between the two roles.
//!
//! The module owns the order of steps: find the head of the log, decide which local data counts, set local data aside,
//! decide who may acquire. The role of an open store never changes: the owner closes the store and opens it again.

mod erasing;
mod error;
mod following;
mod held;
mod here;
pub(crate) mod holdings;
mod memo;

pub use erasing::{Erasing, Owed};
pub use error::NotSeated;
pub use following::{Age, Following, RecordObserver};

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use engine::os::clock::{Clock, Random};
use engine::{Env, Options, Store};

use self::here::Here;
use self::memo::Memo;
use crate::carry::{CARRIED_FILE, Carried, Carrier, CarryHow};
use crate::core::{Claim, Found, Holder, Mark, Port, Stamp, Took, find};
use crate::driver::Driver;
use crate::follow::{Cache, Moved, NotApplied, PartialDisk, Tracker};
use crate::hex::Nonce;
use crate::holds::Holding;
use crate::limits::OPEN_TRIES_MAX;
use crate::names::Tenant;
use crate::node::Node;
use crate::record::{Head, Kind, Record};

limit_table::limits! {
    pub(crate) const LIMITS = [holdings, memo];
}

/// Replica of a workspace on this node.
pub struct Seat {
    /// Executor of requests to the record log and the object store.
    pub driver: Driver,
    /// Membership of this node; `None` if this node may not write.
    pub node: Option<Arc<Node>>,
    /// The workspace.
    pub tenant: Tenant,
    /// Local directory of the workspace; its store is in `store`.
    pub home: PathBuf,
    /// Options with which the store is opened.
    pub options: Options,
    /// Shipper configuration, used by the leader.
    pub how: CarryHow,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Source of randomness.
    pub random: Arc<dyn Random>,
    /// Observer of followed records.
    pub observer: RecordObserver,
    /// Cache of files that other nodes wrote.
    pub cache: Arc<Cache>,
    /// Local directory, once opened.
    pub taken: Taken,
}

/// Local directory of a workspace, if this process has acquired it.
#[derive(Debug, Default)]
pub struct Taken(Mutex<Option<Here>>);

/// Open store of a workspace.
#[derive(Debug)]
pub struct Seated {
    /// The store.
    pub store: Arc<Store>,
    /// Role of this node.
    pub role: Role,
}

/// Role of this node for a workspace.
#[derive(Debug)]
pub enum Role {
    /// Leader: this node writes the workspace.
    Leads(Arc<Carrier>),
    /// Follower: another node writes the workspace.
    Follows(Following),
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// Returns true if the store in a workspace's directory follows another node's store. Such a store may be written only
/// through its remote.
///
/// # Errors
/// The role file is invalid or cannot be read.
pub fn is_followed(home: &Path) -> Result<bool, String> {
    Ok(Memo::read(home)?.is_some_and(|memo| memo.follows()))
}

/// Holding of a workspace's directory: its record and the count of set-aside stores. `None` if the workspace has no
/// remote.
///
/// # Errors
/// The role file is invalid, or the file or the directory cannot be read.
pub fn held_in(home: &Path) -> Result<Option<Holding>, String> {
    let Some(memo) = Memo::read(home)? else { return Ok(None) };
    let left = here::left(home).map_err(|error| format!("{}: {error}", home.display()))?;
    Ok(Some(Holding { record: memo.record, left: u32::try_from(left.len()).unwrap_or(u32::MAX) }))
}

/// Returns true if the directory of a workspace may contain its data, even if only a part was fetched.
#[must_use]
pub fn may_have_bytes(home: &Path) -> bool {
    here::has_bytes(home).unwrap_or(true)
}

/// Clears the remote state in the directory of a workspace whose store is gone for good. Set-aside stores are removed
/// first, and the role file last. A repeated call removes the rest.
///
/// # Errors
/// A file or directory cannot be removed.
pub fn forget(home: &Path) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    here::left(home)?.into_iter().try_for_each(|left| gone(fs::remove_dir_all(left)))?;
    let files = [CARRIED_FILE, erasing::FILE, memo::FILE].into_iter();
    files.map(|file| home.join(file)).try_for_each(|file| gone(fs::remove_file(file)))
}

/// Role that was decided for a workspace.
enum Decided {
    Lead { holder: Box<Holder>, records: Vec<Record> },
    Follow { tracker: Box<Tracker>, newest: Box<Mark> },
}

/// Adopts partial files of an earlier process that the newest full record references.
fn adopt(here: &Here, records: &[Record]) -> Result<(), NotSeated> {
    let files = records.iter().filter_map(|record| match &record.kind {
        Kind::Full(full) => Some(&full.files[..]),
        _ => None,
    });
    let mut files = files.map(|files| here.kept.adopt(files));
    files.try_for_each(|adopted| adopted).map_err(|why| match why {
        NotApplied::Disk(error) => error.into(),
        other => NotSeated::Away(other.to_string()),
    })
}

impl Seat {
    /// Opens the store. If `claim` is given and no other node writes the workspace, the store is opened as leader, else
    /// as follower. If this process followed the workspace before, `tracker` is its log tailer from then.
    ///
    /// # Errors
    /// The store cannot be opened. No local write is lost: commits that are not in the record log are set aside.
    pub fn open(
        &self,
        tracker: Option<Tracker>,
        claim: Option<&mut Claim>,
    ) -> Result<Seated, NotSeated> {
        let here = self.here()?;
        if claim.is_some() && !here.has_store()? && self.find()?.is_none() {
            // The first record names the id of its store, so the store must exist.
            drop(Store::open(self.ground(&here), self.options)?);
        }
        match self.decide(&here, tracker, claim)? {
            Decided::Lead { holder, records } => self.lead(&here, *holder, &records),
            Decided::Follow { tracker, newest } => self.follow(&here, *tracker, *newest),
        }
    }

    /// Returns true if the leader of the followed workspace released it, or shows no sign of life. A node that observes
    /// no other nodes considers the leader alive.
    #[must_use]
    pub fn may_be_gone(&self, age: &Age) -> bool {
        let is_silent = |node: &Node| !node.may_live(&age.at, age.at_for);
        age.given.is_some() || self.node.as_deref().is_some_and(is_silent)
    }

    /// Returns true if this node may acquire the followed workspace: its leader released it or seems to be dead. The
    /// check is cheap; the next opening decides.
    #[must_use]
    pub fn may_be_free(&self, age: &Age) -> bool {
        let node = self.node.as_ref();
        node.is_some_and(|node| node.may_be_free(&age.at, age.given.as_ref(), age.at_for))
    }

    /// Notes that all commits up to `seq` are in the record log with `record`. If this leader comes back as a follower,
    /// nothing up to `seq` is set aside.
    ///
    /// # Errors
    /// The role file could not be written; more than necessary is set aside then.
    pub fn note_carried(&self, seq: u64, record: u64) -> Result<(), NotSeated> {
        match Memo::read(&self.home).map_err(NotSeated::Here)? {
            Some(memo) if memo.carried < seq || memo.record < record => {
                Ok(memo.with_carried(seq, record).write(&self.home)?)
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the local disk may have commits that are not in the record log, also if this cannot be
    /// determined.
    #[must_use]
    pub fn may_be_ahead(&self) -> bool {
        let is_ahead = || {
            let memo = Memo::read(&self.home).map_err(NotSeated::Here)?;
            self.here()?.is_ahead(memo.as_ref())
        };
        is_ahead().unwrap_or(true)
    }

    /// Local directory of the workspace, which this process retains from the first opening on.
    fn here(&self) -> Result<Here, NotSeated> {
        let mut taken = self.taken.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = &*taken {
            return Ok(here.clone());
        }
        let far = (Arc::clone(&self.driver.objects), self.tenant.clone());
        let here = Here::take(&self.home, far, &self.cache)?;
        Ok(taken.insert(here).clone())
    }

    /// Decides the role, and prepares the local files for it.
    fn decide(
        &self,
        here: &Here,
        tracker: Option<Tracker>,
        mut claim: Option<&mut Claim>,
    ) -> Result<Decided, NotSeated> {
        let memo = Memo::read(&self.home).map_err(NotSeated::Here)?;
        let mut is_followed = tracker.is_some();
        let mut tracker = tracker.unwrap_or_else(|| self.tracker(&here.kept));
        // The previous driver of the log tailer has been shut down.
        tracker.drive_with(self.driver.clone());
        if let (Some(claim), Some(at)) = (claim.as_deref_mut(), tracker.at()) {
            claim.saw(at, tracker.at_since());
        }
        for _ in 0..OPEN_TRIES_MAX {
            let Some(found) = self.find()? else {
                let claim = claim.as_deref_mut().ok_or(NotSeated::Nothing)?;
                let store = here.store_id()?.ok_or(NotSeated::Nothing)?;
                if let Some(holder) = self.take(claim, None, store)? {
                    return Ok(Decided::Lead { holder: Box::new(holder), records: Vec::new() });
                }
                continue;
            };
            let newest = &found.newest.head;
            adopt(here, &found.records)?;
            let has_store = here.check_store(newest.store)?;
            // The lease is read once, since two decisions below depend on it.
            let is_heard = self.node.as_ref().is_none_or(|node| node.is_held());
            let may_take = is_heard && self.may_take(claim.as_deref_mut(), &found);
            let wrote = memo.as_ref().is_some_and(|memo| memo.leads(newest));
            let leads = !is_followed && has_store && wrote;
            if leads && !is_heard && here.is_ahead(memo.as_ref()).unwrap_or(true) {
                let why =
                    "this node is not heard yet, and has commits that the remote may not have";
                return Err(NotSeated::Away(why.into()));
            }
            if !(leads && may_take) {
                // Before the first full record, the log has nothing that could replace the local store.
                if !is_followed && newest.base > 0 {
                    self.follows_from_here(here, memo.as_ref())?;
                    is_followed = true;
                }
                self.catch_up(&mut tracker, &found, may_take)?;
                // A follower may start at any position, since its staleness is known.
                let at = tracker.at().filter(|at| !may_take || at.head.number == newest.number);
                let Some(at) = at.cloned() else { continue };
                if !may_take {
                    return Ok(Decided::Follow {
                        tracker: Box::new(tracker),
                        newest: Box::new(at),
                    });
                }
                // Before the first full record, only the first node knows the content of its store.
                if here.store_id()? != Some(newest.store) {
                    return Err(NotSeated::NotCarried(Box::new(newest.clone())));
                }
            }
            // A node that may acquire the workspace has a claim.
            let Some(claim) = claim.as_deref_mut() else { continue };
            if let Some(holder) = self.take(claim, Some(&found), newest.store)? {
                if is_followed {
                    tracker.sync()?;
                }
                return Ok(Decided::Lead { holder: Box::new(holder), records: found.records });
            }
        }
        Err(NotSeated::Away("others write its chain faster than it can be read".into()))
    }

    /// Sets the local store aside if it may have commits that are not in the record log, and marks it as a follower's
    /// from then on. So if catching up is cut short, the store counts neither as the complete log nor as commits to set
    /// aside again.
    fn follows_from_here(&self, here: &Here, memo: Option<&Memo>) -> Result<(), NotSeated> {
        here.set_aside(memo)?;
        match memo {
            Some(memo) if memo.writes => Ok(memo.followed().write(&self.home)?),
            _ => Ok(()),
        }
    }

    fn find(&self) -> Result<Option<Found>, NotSeated> {
        Ok(self.run(async |port| find(&port, None).await)??)
    }

    /// Returns true if the writer of the workspace leaves it to this node.
    fn may_take(&self, claim: Option<&mut Claim>, found: &Found) -> bool {
        let (Some(claim), Some(node)) = (claim, &self.node) else { return false };
        node.may_take(claim, found)
    }

    /// Acquires the workspace; `None` if the head of the log must be found again.
    fn take(
        &self,
        claim: &Claim,
        found: Option<&Found>,
        store: Nonce,
    ) -> Result<Option<Holder>, NotSeated> {
        let stamp = Stamp { at: self.clock.now().0, nonce: Nonce::drawn(&*self.random) };
        match self.run(async |port| claim.take(&port, found, store, stamp).await)? {
            Took::Held(holder) => Ok(Some(*holder)),
            Took::Again => Ok(None),
            Took::Unsure(why) | Took::Refused(why) => Err(NotSeated::Away(why)),
            Took::Lost(lost) => Err(lost.into()),
        }
    }

    /// Catches the local files up with the newest record, as a future leader needs it. A follower starts with the
    /// records of one poll: a leader may write as fast as its records can be read, and the follower's staleness is
    /// reported.
    fn catch_up(
        &self,
        tracker: &mut Tracker,
        found: &Found,
        to_the_end: bool,
    ) -> Result<(), NotSeated> {
        let mut moved = match tracker.at() {
            None => tracker.start(found.clone()),
            Some(_) => tracker.look(),
        };
        loop {
            match moved {
                Moved::Newest => return Ok(()),
                Moved::On(_) => {
                    tracker.settled()?;
                    if !to_the_end && tracker.is_store() {
                        return Ok(());
                    }
                }
                Moved::Empty => return Err(NotSeated::Nothing),
                Moved::Away(why) => return Err(NotSeated::Away(why)),
                Moved::Damage(damage) => return Err(NotSeated::Damage(damage)),
                Moved::Disk(why) => return Err(NotSeated::Here(why)),
                Moved::Over => return Err(NotSeated::Over),
            }
            moved = tracker.look();
        }
    }

    fn lead(&self, here: &Here, holder: Holder, records: &[Record]) -> Result<Seated, NotSeated> {
        self.remember(&holder.newest().head, true)?;
        here.kept.leads();
        let with = (Arc::clone(&self.clock), Arc::clone(&self.random));
        let carried = Carried::of(&self.home, holder.newest().head.store, holder.epoch());
        let how = (self.how, Some(carried));
        let carrier = Carrier::start(self.driver.clone(), holder, records, with, how)?;
        if Erasing::of(&self.home).map_err(NotSeated::Here)?.is_some_and(|list| list.owes()) {
            carrier.owes_erasure();
        }
        let ground = Env { replication_sink: Some(carrier.far()), ..self.ground(here) };
        let store = Arc::new(Store::open(ground, self.options)?);
        carrier.carry_for(&store);
        Ok(Seated { store, role: Role::Leads(Arc::new(carrier)) })
    }

    fn follow(&self, here: &Here, tracker: Tracker, newest: Mark) -> Result<Seated, NotSeated> {
        if !tracker.is_store() {
            return Err(NotSeated::NotCarried(Box::new(newest.head)));
        }
        self.remember(&newest.head, false)?;
        let why = format!("node {} writes this workspace; this one follows it", newest.head.node);
        let store = Arc::new(Store::open_replica(self.ground(here), self.options, why)?);
        here.kept.follows(&store);
        let told = (Arc::clone(&self.clock), Arc::clone(&self.observer));
        let followed = Arc::clone(&store);
        let kept = (followed, Arc::clone(&here.kept));
        let following = Following::start(self.driver.clone(), tracker, kept, newest, told)?;
        Ok(Seated { store, role: Role::Follows(following) })
    }

    /// Writes the role file to disk before this node assumes the role.
    fn remember(&self, head: &Head, writes: bool) -> Result<(), NotSeated> {
        let node = match &self.node {
            Some(node) => node.writer().node.clone(),
            None => head.node.clone(),
        };
        Ok(Memo::new(head, node, writes).write(&self.home)?)
    }

    fn tracker(&self, kept: &Arc<PartialDisk>) -> Tracker {
        Tracker::filling(self.driver.clone(), self.tenant.clone(), Arc::clone(kept))
    }

    fn ground(&self, here: &Here) -> Env {
        let (disk, clock, random) =
            (Arc::clone(&here.disk), Arc::clone(&self.clock), Arc::clone(&self.random));
        Env { disk, clock, random, replication_sink: None }
    }

    fn run<'a, T, F>(&self, body: impl FnOnce(Rc<Port>) -> F) -> Result<T, NotSeated>
    where
        F: Future<Output = T> + 'a,
    {
        self.driver.run(&self.tenant, body).ok_or(NotSeated::Over)
    }
}
