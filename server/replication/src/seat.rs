//! A workspace's place at this node: whether its store here is written or followed, and the way from one to the
//! other.
//!
//! Owns the order of things: what is found in the chain, what of this disk counts, what is set aside, who may take.
//! A role never changes in an open store; whoever has it lets go of it and opens it anew.

mod erasing;
mod error;
mod following;
mod held;
mod here;
pub(crate) mod holdings;
mod memo;

pub use erasing::{Erasing, Owed};
pub use error::NotSeated;
pub use following::{Age, Following, Lag};

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use engine::os::clock::{Clock, Random};
use engine::{Ground, Options, Store};

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

/// A workspace's place at this node.
pub struct Seat {
    /// Where chains and objects are.
    pub driver: Driver,
    /// This node, if it may write.
    pub node: Option<Arc<Node>>,
    /// The workspace.
    pub tenant: Tenant,
    /// Its folder here; its store is in `store`.
    pub home: PathBuf,
    /// How its store is opened.
    pub options: Options,
    /// How it is carried, where it is written here.
    pub how: CarryHow,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Told how long after its making each record is shown that is followed.
    pub lag: Lag,
    /// What of others' files is on this machine.
    pub cache: Arc<Cache>,
    /// Its folder, once it was opened.
    pub taken: Taken,
}

/// A workspace's folder that this process has, or not yet.
#[derive(Debug, Default)]
pub struct Taken(Mutex<Option<Here>>);

/// A workspace's store, open.
#[derive(Debug)]
pub struct Seated {
    /// The store.
    pub store: Arc<Store>,
    /// What this node is to it.
    pub role: Role,
}

/// What this node is to a workspace.
#[derive(Debug)]
pub enum Role {
    /// It writes it.
    Leads(Arc<Carrier>),
    /// It follows what another one writes.
    Follows(Following),
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// Whether the store in a workspace's folder follows another node's: then nobody may write to it but by way of
/// its remote.
///
/// # Errors
/// What is wrong with the file that would tell.
pub fn is_followed(home: &Path) -> Result<bool, String> {
    Ok(Memo::read(home)?.is_some_and(|memo| memo.follows()))
}

/// What a workspace's folder has of it; `None` where it has nothing to do with a remote.
///
/// # Errors
/// What is wrong with the file that would tell, or with the folder.
pub fn held_in(home: &Path) -> Result<Option<Holding>, String> {
    let Some(memo) = Memo::read(home)? else { return Ok(None) };
    let left = here::left(home).map_err(|error| format!("{}: {error}", home.display()))?;
    Ok(Some(Holding { record: memo.record, left: u32::try_from(left.len()).unwrap_or(u32::MAX) }))
}

/// Whether bytes of a workspace may be in its folder: of one that was only begun to be fetched, too.
#[must_use]
pub fn may_have_bytes(home: &Path) -> bool {
    here::has_bytes(home).unwrap_or(true)
}

/// Has the folder of a workspace whose store is gone for good forget what it was to a remote: what was set aside goes,
/// and what says that anything is here goes last. Done again, it removes what is left.
///
/// # Errors
/// What cannot be removed.
pub fn forget(home: &Path) -> io::Result<()> {
    let gone = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    here::left(home)?.into_iter().try_for_each(|left| gone(fs::remove_dir_all(left)))?;
    let files = [CARRIED_FILE, erasing::FILE, memo::FILE].into_iter();
    files.map(|file| home.join(file)).try_for_each(|file| gone(fs::remove_file(file)))
}

/// What was decided about a workspace.
enum Decided {
    Lead { holder: Box<Holder>, records: Vec<Record> },
    Follow { tracker: Box<Tracker>, newest: Box<Mark> },
}

/// Goes on with what an earlier process had in part of the files that the newest full record names.
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
    /// Opens the store: to be written here where nobody else writes it and `claim` is given, else to follow it.
    /// `tracker` is of the time before, where this process followed it.
    ///
    /// # Errors
    /// Why not. Nothing that was written here is lost: what the chain does not have of it is set aside.
    pub fn open(
        &self,
        tracker: Option<Tracker>,
        claim: Option<&mut Claim>,
    ) -> Result<Seated, NotSeated> {
        let here = self.here()?;
        if claim.is_some() && !here.has_store()? && self.find()?.is_none() {
            // The first record names the store that it is of.
            drop(Store::open(self.ground(&here), self.options)?);
        }
        match self.decide(&here, tracker, claim)? {
            Decided::Lead { holder, records } => self.lead(&here, *holder, &records),
            Decided::Follow { tracker, newest } => self.follow(&here, *tracker, *newest),
        }
    }

    /// Whether the writer of what is followed gave it away, or gives no sign of life. A node that watches no others
    /// takes it for alive.
    #[must_use]
    pub fn may_be_gone(&self, age: &Age) -> bool {
        let is_silent = |node: &Node| !node.may_live(&age.at, age.at_for);
        age.given.is_some() || self.node.as_deref().is_some_and(is_silent)
    }

    /// Whether a workspace that is followed may be had for writing: its writer gave it away, or seems to be
    /// gone. Cheap; the next opening finds out.
    #[must_use]
    pub fn may_be_free(&self, age: &Age) -> bool {
        let node = self.node.as_ref();
        node.is_some_and(|node| node.may_be_free(&age.at, age.given.as_ref(), age.at_for))
    }

    /// All up to a commit is in the chain, with this record: what ends as a writer and comes back as a follower has
    /// nothing to set aside up to it.
    ///
    /// # Errors
    /// It could not be remembered; more is set aside then than had to be.
    pub fn note_carried(&self, seq: u64, record: u64) -> Result<(), NotSeated> {
        match Memo::read(&self.home).map_err(NotSeated::Here)? {
            Some(memo) if memo.carried < seq || memo.record < record => {
                Ok(memo.with_carried(seq, record).write(&self.home)?)
            }
            _ => Ok(()),
        }
    }

    /// Whether this disk has commits that the chain may not have, or nobody can tell.
    #[must_use]
    pub fn may_be_ahead(&self) -> bool {
        let is_ahead = || {
            let memo = Memo::read(&self.home).map_err(NotSeated::Here)?;
            self.here()?.is_ahead(memo.as_ref())
        };
        is_ahead().unwrap_or(true)
    }

    /// The folder, which stays this process's from the first opening on.
    fn here(&self) -> Result<Here, NotSeated> {
        let mut taken = self.taken.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(here) = &*taken {
            return Ok(here.clone());
        }
        let far = (Arc::clone(&self.driver.objects), self.tenant.clone());
        let here = Here::take(&self.home, far, &self.cache)?;
        Ok(taken.insert(here).clone())
    }

    /// Finds out what is to be done, and brings this disk to it.
    fn decide(
        &self,
        here: &Here,
        tracker: Option<Tracker>,
        mut claim: Option<&mut Claim>,
    ) -> Result<Decided, NotSeated> {
        let memo = Memo::read(&self.home).map_err(NotSeated::Here)?;
        let mut is_followed = tracker.is_some();
        let mut tracker = tracker.unwrap_or_else(|| self.tracker(&here.kept));
        // What drove it before is over.
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
            // Asked once: what is decided below hangs on it twice.
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
                // Before there is a full record the chain brings nothing that could take the place of what is here.
                if !is_followed && newest.base > 0 {
                    self.follows_from_here(here, memo.as_ref())?;
                    is_followed = true;
                }
                self.catch_up(&mut tracker, &found, may_take)?;
                // Whoever only follows goes on from anywhere: how old that is, is known.
                let at = tracker.at().filter(|at| !may_take || at.head.number == newest.number);
                let Some(at) = at.cloned() else { continue };
                if !may_take {
                    return Ok(Decided::Follow {
                        tracker: Box::new(tracker),
                        newest: Box::new(at),
                    });
                }
                // Before there is a full record nobody but the first node knows what is in its store.
                if here.store_id()? != Some(newest.store) {
                    return Err(NotSeated::NotCarried(Box::new(newest.clone())));
                }
            }
            // Who may take it has a claim.
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

    /// What was written here is set aside where the chain may not have it, and from then on counts as another's: where
    /// bringing it to the newest record is cut short, it is neither all that the chain has nor to be set aside again.
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

    /// Whether its writer leaves it to this node.
    fn may_take(&self, claim: Option<&mut Claim>, found: &Found) -> bool {
        let (Some(claim), Some(node)) = (claim, &self.node) else { return false };
        node.may_take(claim, found)
    }

    /// Takes it; `None` where the chain is to be looked at anew.
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

    /// Brings the files here to the newest record, as whoever is to write must have it. Who follows begins with what
    /// one look brings: a writer may write as fast as its records can be read, and the age of what is here is told.
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
        let ground = Ground { far: Some(carrier.far()), ..self.ground(here) };
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
        let store = Arc::new(Store::follow(self.ground(here), self.options, why)?);
        here.kept.follows(&store);
        let told = (Arc::clone(&self.clock), Arc::clone(&self.lag));
        let followed = Arc::clone(&store);
        let kept = (followed, Arc::clone(&here.kept));
        let following = Following::start(self.driver.clone(), tracker, kept, newest, told)?;
        Ok(Seated { store, role: Role::Follows(following) })
    }

    /// What this node was to the workspace is on disk before it is that.
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

    fn ground(&self, here: &Here) -> Ground {
        let (disk, clock, random) =
            (Arc::clone(&here.disk), Arc::clone(&self.clock), Arc::clone(&self.random));
        Ground { disk, clock, random, far: None }
    }

    fn run<'a, T, F>(&self, body: impl FnOnce(Rc<Port>) -> F) -> Result<T, NotSeated>
    where
        F: Future<Output = T> + 'a,
    {
        self.driver.run(&self.tenant, body).ok_or(NotSeated::Over)
    }
}
