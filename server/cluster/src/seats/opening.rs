//! Start and end of a workspace's replica slot on this node.
//!
//! A slot exists only while its workspace is open or being opened. An epoch acquired for the slot is released again, or
//! remembered as not released. Must not know who opens a workspace, nor which other parts a workspace has.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use engine::{Options, Store};
use recalld_replication::core::{Claim, Given, Mark, Retention};
use recalld_replication::limits::TENANTS_MAX;
use recalld_replication::{
    Carrier, CarryHow, CarryWhen, GivenUp, Halt, Head, NotSeated, Over, Role, Seat, Taken, Tenant,
    Tracker,
};

use super::table::{At, Seats, locked, seen, tenant_of};
use super::whereabouts::peer;
use crate::whereabouts::{Peer, Where, Whereabouts};
use recalld_common::cancel::CancellationToken;
use recalld_config::remote::Safe;
use recalld_telemetry::log;
use recalld_telemetry::log::{Level, Value};

/// Pause of a starting replica between two looks for something to follow.
const NOTHING_PAUSE: Duration = Duration::from_secs(2);
/// Maximum wait of a closing slot until all writes are in the record log and the epoch is released.
pub const GIVE_WAIT_MAX: Duration = Duration::from_secs(20);

/// Reason why a workspace is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The workspace will be opened again, here or elsewhere: all writes are uploaded first.
    Kept,
    /// The workspace was deleted: a further upload would only mark the workspace as alive.
    Deleted,
}

impl Seats {
    /// Opens the store of a workspace in the directory `home`. If there is nothing to follow or acquire yet, waits
    /// until `stopping` is cancelled; without a token, fails at once. A workspace that failed to open a moment ago is
    /// not tried again yet.
    ///
    /// # Errors
    /// The workspace did not open: there is no slot for the workspace, and an epoch acquired for it is released. The
    /// epoch is retained if only this disk may have acknowledged writes (`durability = local`).
    pub fn open_store(
        &self,
        name: &str,
        home: &Path,
        options: Options,
        stopping: Option<&CancellationToken>,
    ) -> Result<Arc<Store>, NotSeated> {
        if let Some(why) = self.failing.why(name, self.driver.ticks.now()) {
            return Err(NotSeated::Here(why));
        }
        let at = self.place(name, home, options)?;
        // Publish before the first byte is here, so that an erasure waits for this node.
        let announced = self.announce(name, home);
        let opened = announced.and_then(|()| open_at(name, &mut locked(&at), stopping));
        if opened.is_err() {
            self.unplace(name);
        }
        self.came_to(name, &at, opened)
    }

    fn place(
        &self,
        name: &str,
        home: &Path,
        options: Options,
    ) -> Result<Arc<RwLock<At>>, NotSeated> {
        let tenant = tenant_of(name)?;
        let (keep, fine) = self.settings.keep;
        let when = match self.settings.durability {
            Safe::Remote => CarryWhen::Acknowledging,
            Safe::Local => CarryWhen::Following(self.settings.delay),
        };
        let (lag, moves) = (Arc::clone(&self.lag), self.moves.clone());
        let seat = Seat {
            driver: self.driver.clone(),
            node: self.node.clone(),
            tenant,
            home: home.to_owned(),
            options,
            how: CarryHow { when, retention: Retention { full: keep, fine } },
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            observer: Arc::new(move |delays| {
                delays.iter().for_each(|&delay| lag.record(delay));
                moves.advance();
            }),
            cache: Arc::clone(&self.cache),
            taken: Taken::default(),
        };
        let claim = self.node.as_ref().map(|node| Claim::new(node.writer().clone(), node.lease()));
        let at = Arc::new(RwLock::new(At { seat, claim, role: None, tracker: None }));
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let before = places.insert(name.to_owned(), Arc::clone(&at));
        drop(places);
        // The drop joins threads of the old slot: lookups of other workspaces must not wait for them.
        drop(before);
        Ok(at)
    }

    fn unplace(&self, name: &str) -> Option<Arc<RwLock<At>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    /// Records the outcome of an opening.
    fn came_to(
        &self,
        name: &str,
        at: &RwLock<At>,
        opened: Result<Arc<Store>, NotSeated>,
    ) -> Result<Arc<Store>, NotSeated> {
        match &opened {
            Ok(_) => {
                self.failing.opened(name);
                if self.is_settled(&seen(at)) {
                    self.note_given(name);
                }
            }
            Err(why) => self.did_not_open(name, at, why),
        }
        self.moves.advance();
        opened
    }

    fn did_not_open(&self, name: &str, at: &RwLock<At>, why: &NotSeated) {
        let (was_taken, writer) = self.left_to_others(name, at, why);
        self.failing.failed(name, why.to_string(), was_taken, writer, self.driver.ticks.now());
    }

    /// Releases the epoch of a workspace that failed to open, so that another node can acquire it. The epoch is
    /// retained if this disk may have rows that `durability = local` acknowledged and that are nowhere else. Returns
    /// true if other nodes may have seen the acquisition, and the leader meanwhile, if known.
    fn left_to_others(&self, name: &str, at: &RwLock<At>, why: &NotSeated) -> (bool, Option<Peer>) {
        let Some(node) = &self.node else { return (false, None) };
        let lives = |head: &Head| head.node != self.name && node.may_live(head, Duration::ZERO);
        let writer =
            |newest: Head| lives(&newest).then(|| peer(newest.node.to_string(), newest.url));
        match why {
            NotSeated::Nothing => return (false, None),
            NotSeated::NotCarried(newest) => return (false, writer((**newest).clone())),
            _ => self.note_not_given(name),
        }
        // The remote was not reached, or the opening was cancelled before any acquisition.
        if matches!(why, NotSeated::Away(_) | NotSeated::Over) {
            return (false, None);
        }
        if self.keeps_what_it_has(at) {
            return (true, None);
        }
        match self.give_up_one(name, &self.driver.halt) {
            Some(GivenUp::NotOurs(newest)) => (false, newest.and_then(|newest| writer(*newest))),
            _ => (true, None),
        }
    }

    fn keeps_what_it_has(&self, at: &RwLock<At>) -> bool {
        self.settings.durability == Safe::Local && seen(at).seat.may_be_ahead()
    }

    /// Returns true unless the newest record names this process as leader of a workspace that it does not write.
    fn is_settled(&self, at: &At) -> bool {
        match &at.role {
            Some(Role::Leads(_)) => true,
            Some(Role::Follows(following)) => {
                let age = following.age();
                !self.is_own(&age.at, age.given.as_ref())
            }
            None => {
                let newest = at.tracker.as_ref().and_then(Tracker::at);
                let is_other = |newest: &Mark| !self.is_own(&newest.head, newest.given.as_ref());
                self.node.is_none() || newest.is_some_and(is_other)
            }
        }
    }

    fn is_own(&self, newest: &Head, given: Option<&Given>) -> bool {
        self.node.is_some() && given.is_none() && newest.node == self.name
    }

    /// Reopens the store of a workspace in the role that is available now. `old` is the store so far: it releases the
    /// directory first and rejects writes from then on. `put` publishes the new store to readers before the new role is
    /// visible.
    ///
    /// # Errors
    /// The store did not open, or `put` failed. The workspace retains its slot and is tried again.
    pub fn reopen(
        &self,
        name: &str,
        old: &Store,
        put: impl FnOnce(Arc<Store>) -> Result<(), String>,
    ) -> Result<(), NotSeated> {
        let at = self.at(name).ok_or(NotSeated::Nothing)?;
        let opened = {
            let mut at = locked(&at);
            at.let_go();
            old.release("its role changed: ask again");
            at.open().and_then(|store| {
                put(Arc::clone(&store)).map(|()| store).map_err(|why| {
                    at.let_go();
                    NotSeated::Here(why)
                })
            })
        };
        self.came_to(name, &at, opened).map(drop)
    }

    /// Closes a workspace whose store was dropped: commits its writes to the record log and releases the epoch. If the
    /// workspace was deleted, the epoch is released without further uploads.
    pub fn close(&self, name: &str, ending: Ending) {
        let Some(at) = self.unplace(name) else { return };
        self.moves.advance();
        let mut at = locked(&at);
        let is_given = match &at.role {
            Some(Role::Leads(carrier)) => ended(name, carrier, ending),
            _ => self.is_settled(&at),
        };
        at.let_go();
        if !is_given {
            self.note_not_given(name);
        }
    }

    /// Closes a workspace whose store opened but whose other parts failed, for this reason. The epoch is released, and
    /// the workspace is not tried again for a while.
    pub fn give_back(&self, name: &str, why: &str) {
        let was_taken = self.leads(name);
        let writer = match self.of(name) {
            Where::Follows { writer, .. } => writer,
            Where::Here | Where::Elsewhere { .. } => None,
        };
        self.close(name, Ending::Kept);
        let now = self.driver.ticks.now();
        self.failing.failed(name, why.to_owned(), was_taken, writer, now);
    }

    /// Stops following a workspace, so that its store can be dropped.
    pub fn end_following(&self, name: &str) {
        if let Some(at) = self.at(name) {
            let mut at = locked(&at);
            if matches!(at.role, Some(Role::Follows(_))) {
                at.let_go();
            }
        }
    }

    /// Retries the release of deleted workspaces that this process may still lease.
    pub fn give_up(&self, is_deleted: &dyn Fn(&str) -> bool, halt: &Arc<Halt>) {
        let not_given = self.not_given.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for name in not_given.iter().filter(|name| self.at(name).is_none() && is_deleted(name)) {
            self.give_up_one(name, halt);
        }
    }

    /// Releases a closed workspace without further uploads, if this process leases it; `None` if unknown.
    fn give_up_one(&self, name: &str, halt: &Arc<Halt>) -> Option<GivenUp> {
        let (node, tenant) = (self.node.as_ref()?, Tenant::new(name).ok()?);
        let given = self.sweeper(node, halt).give_up(&tenant);
        match &given {
            Ok(GivenUp::NotOurs(_) | GivenUp::Given) => self.note_given(name),
            Ok(GivenUp::NotYet) => {}
            Err(why) => {
                let fields = [("workspace", Value::Text(&name)), ("why", Value::Text(why))];
                log::event(Level::Warn, "a workspace that is not open was not given away", &fields);
            }
        }
        given.ok()
    }

    fn note_not_given(&self, name: &str) {
        let mut names = self.not_given.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < TENANTS_MAX {
            names.insert(name.to_owned());
        }
    }

    fn note_given(&self, name: &str) {
        self.not_given.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

fn open_at(
    name: &str,
    at: &mut At,
    stopping: Option<&CancellationToken>,
) -> Result<Arc<Store>, NotSeated> {
    let mut told = String::new();
    loop {
        let opened = at.open();
        let (Err(why @ (NotSeated::Nothing | NotSeated::NotCarried(_))), Some(stopping)) =
            (&opened, stopping)
        else {
            return opened;
        };
        let why = why.to_string();
        if why != told {
            let fields = [("workspace", Value::Text(&name)), ("why", Value::Text(&why))];
            log::event(Level::Warn, "a workspace waits for the remote", &fields);
            told = why;
        }
        // The remote sends no events, so it is polled.
        if stopping.wait(NOTHING_PAUSE) {
            return opened;
        }
    }
}

/// Ends the leadership of a workspace. Returns true if the epoch was released.
fn ended(name: &str, carrier: &Carrier, ending: Ending) -> bool {
    let (is_given, what) = match ending {
        Ending::Kept => {
            (carrier.give(None, GIVE_WAIT_MAX), "not all that was written here is on the remote")
        }
        Ending::Deleted => {
            (carrier.give_up(GIVE_WAIT_MAX), "a deleted workspace was not given away")
        }
    };
    if !is_given {
        let standing = carrier.standing();
        let why = match standing.over {
            Some(Over::Fenced(why) | Over::Broken(why)) => why,
            _ => standing.trouble.unwrap_or_else(|| "it was slow".to_owned()),
        };
        let fields = [("workspace", Value::Text(&name)), ("why", Value::Text(&why))];
        log::event(Level::Warn, what, &fields);
    }
    is_given
}

impl Drop for Seats {
    /// Releases all open workspaces: after a failed start no other code knows of them.
    fn drop(&mut self) {
        for name in self.open_names() {
            self.close(&name, Ending::Kept);
        }
    }
}
