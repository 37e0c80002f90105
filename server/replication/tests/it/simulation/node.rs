//! A node: its clock, its disk, and the tasks of its process. The node follows; at random it acquires the workspace,
//! writes, collects garbage, and releases the workspace or loses it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use recalld_replication::core::{
    Beating, Claim, Collector, Follower, Held, Holder, Lost, Mark, Noted, Observer, Polled, Port,
    Retention, Took, Writer, find, reached,
};
use recalld_replication::limits::HOLDS_PACE;
use recalld_replication::{
    Away, Beat, DataKey, Hex, Holding, Holds, Key, NodeId, Nonce, Record, Ticks,
};

use super::history::Shown;
use super::toy::{NotApplied, Toy};
use super::world::Ground;
use super::writing;

pub(crate) const LEASE_SECONDS: u32 = 10;

/// State that survives a process.
#[derive(Debug, Default, Clone)]
pub(crate) struct Disk {
    pub(crate) at: Option<Mark>,
    pub(crate) toy: Toy,
    /// Upload of a writer for a record that may not be in the log: its epoch, the token and the object.
    pub(crate) carried: Option<(u64, u64, DataKey)>,
    /// Visible tokens, once computed.
    shown: Option<Rc<Shown>>,
}

impl Disk {
    pub(crate) fn shown(&mut self) -> Rc<Shown> {
        let toy = &self.toy;
        Rc::clone(self.shown.get_or_insert_with(|| Rc::new(Shown::new(toy.tokens()))))
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: NodeId,
    /// Rate of the clock, and its time at the start.
    rate: f64,
    offset: u64,
    /// Error of the wall clock, in seconds.
    date: i64,
    pub(crate) retention: Retention,
    /// Rises with each process.
    pub(crate) life: Cell<u64>,
    pub(crate) run: Cell<Nonce>,
    pub(crate) paused_until: Cell<u64>,
    pub(crate) cut_until: Cell<u64>,
    pub(crate) disk: RefCell<Disk>,
    pub(crate) earlier: RefCell<Disk>,
    /// State of the process: its lease window, its epoch, and the records that its garbage collector does not know yet.
    pub(crate) held: Cell<Option<Held>>,
    pub(crate) epoch: Cell<u64>,
    /// Time just before the newest record was sent, while the node is the leader.
    pub(crate) known: Cell<Option<Ticks>>,
    pub(crate) noted: RefCell<Vec<Noted>>,
    /// Objects that the writer still needs, in the current epoch.
    pub(crate) live: RefCell<Rc<RefCell<BTreeSet<DataKey>>>>,
    observer: RefCell<Observer>,
    /// True if the disk was ever reset to an earlier state.
    pub(crate) is_rolled_back: Cell<bool>,
    /// Freshness of the last answer.
    pub(crate) fresh: Cell<u64>,
    /// True if the clocks' rates are close enough for a leader's reads to be current.
    pub(crate) exact: Cell<bool>,
}

impl Node {
    pub(crate) fn new(ground: &Ground, number: usize, rate: f64, retention: Retention) -> Rc<Self> {
        let mut dice = ground.dice.borrow_mut();
        let days = dice.pick(&[0, 0, 0, -40, -2, 3, 90]);
        Rc::new(Self {
            name: NodeId::new(format!("n{number}")).unwrap(),
            rate,
            offset: 1_000_000_000_000 * (1 + dice.below(50)),
            date: days * 86_400,
            retention,
            life: Cell::default(),
            run: Cell::new(Nonce::NONE),
            paused_until: Cell::default(),
            cut_until: Cell::default(),
            disk: RefCell::default(),
            earlier: RefCell::default(),
            held: Cell::default(),
            epoch: Cell::default(),
            known: Cell::default(),
            noted: RefCell::default(),
            live: RefCell::default(),
            observer: RefCell::default(),
            is_rolled_back: Cell::default(),
            fresh: Cell::default(),
            exact: Cell::new(true),
        })
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(crate) fn ticks(&self, world: u64) -> Ticks {
        Ticks(self.offset + (world as f64 * self.rate) as u64)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(crate) fn to_world(&self, length: Duration) -> u64 {
        (length.as_nanos() as f64 / self.rate) as u64
    }

    /// World time at which the node's clock showed these ticks, or just before.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub(crate) fn world_at(&self, ticks: Ticks) -> u64 {
        ((ticks.0.saturating_sub(self.offset) as f64 / self.rate) as u64).saturating_sub(1000)
    }

    /// Wall clock of the node, in microseconds.
    pub(crate) fn date(&self, world: u64) -> i64 {
        (1_800_000_000 + self.date) * 1_000_000 + (world / 1000).cast_signed()
    }

    pub(crate) fn writer(&self) -> Writer {
        Writer { node: self.name.clone(), run: self.run.get(), url: String::new() }
    }

    /// Interval between two reads of heartbeats.
    fn pace(&self) -> Duration {
        self.observer.borrow().pace(Duration::from_secs(LEASE_SECONDS.into()))
    }

    pub(crate) fn holds_lease(&self, now: Ticks) -> bool {
        self.held.get().is_some_and(|held| held.covers(now, now))
    }

    pub(crate) fn start(self: &Rc<Self>, ground: &Rc<Ground>) {
        let run = ground.dice.borrow_mut().bytes();
        self.run.set(Hex(run));
        self.held.set(None);
        self.epoch.set(0);
        self.known.set(None);
        *self.observer.borrow_mut() = Observer::default();
        let (node, at) = (self, ground);
        at.spawn(node, |port| beat(port, Rc::clone(node)));
        at.spawn(node, |port| look(port, Rc::clone(node)));
        at.spawn(node, |port| serve(port, Rc::clone(at), Rc::clone(node)));
        at.spawn(node, |port| role(port, Rc::clone(at), Rc::clone(node)));
        at.spawn(node, |port| report(port, Rc::clone(node)));
        at.spawn(node, |port| super::restoring::restore(port, Rc::clone(at), Rc::clone(node)));
    }

    /// Ends the process, and any pause of it.
    pub(crate) fn crash(&self) {
        self.life.set(self.life.get() + 1);
        self.paused_until.set(0);
    }
}

async fn beat(port: Rc<Port>, node: Rc<Node>) {
    let (run, url) = (node.run.get(), String::new());
    let first = Beat { node: node.name.clone(), run, count: 1, url, lease_s: LEASE_SECONDS };
    let mut beating = Beating::new(first);
    loop {
        let (beat, sent) = beating.next(port.now());
        if port.beat(beat).await.is_ok() {
            beating.confirmed(sent, port.now());
            node.held.set(beating.held());
        }
        port.wait(beating.pace()).await;
    }
}

async fn look(port: Rc<Port>, node: Rc<Node>) {
    loop {
        look_once(&port, &node).await;
        let pace = node.pace();
        port.wait(pace).await;
    }
}

async fn look_once(port: &Port, node: &Node) {
    let began = port.now();
    if let Ok(beats) = port.beats().await {
        node.observer.borrow_mut().saw(beats, began, port.now());
    }
}

/// Publishes the inventory after each change.
async fn report(port: Rc<Port>, node: Rc<Node>) {
    let mut told = None;
    loop {
        let holds = holds(&port, &node);
        if told.as_ref() != Some(&holds) && tell(&port, &holds).await.is_ok() {
            told = Some(holds);
        }
        port.wait(HOLDS_PACE).await;
    }
}

fn holds(port: &Port, node: &Node) -> Holds {
    let record = node.disk.borrow().at.as_ref().map_or(0, |at| at.head.number);
    let workspaces = [(port.tenant().clone(), Holding { record, left: 0 })].into();
    Holds { node: node.name.clone(), workspaces }
}

async fn tell(port: &Port, holds: &Holds) -> Result<(), Away> {
    port.put(Key::Holds(holds.node.clone()), holds.encode().into()).await
}

async fn role(port: Rc<Port>, ground: Rc<Ground>, node: Rc<Node>) {
    // Publish the inventory before the first byte is here.
    while tell(&port, &holds(&port, &node)).await.is_err() {
        port.wait(Duration::from_secs(1)).await;
    }
    let mut claim = Claim::new(node.writer(), Duration::from_secs(LEASE_SECONDS.into()));
    loop {
        let holder = follow(&port, &ground, &node, &mut claim).await;
        ground.history.borrow_mut().taken();
        ground.history.borrow_mut().counts.takes += 1;
        node.epoch.set(holder.epoch());
        node.known.set(Some(holder.known()));
        node.noted.take();
        node.live.take();
        ground.spawn(&node, |port| collect(port, Rc::clone(&ground), Rc::clone(&node)));
        writing::hold(&port, &ground, &node, holder).await;
        node.epoch.set(0);
        node.known.set(None);
    }
}

/// Answers reads while the node is the leader, even while its writer waits: the local copy is complete.
async fn serve(port: Rc<Port>, ground: Rc<Ground>, node: Rc<Node>) {
    loop {
        port.wait(ground.within(0.2, 3.0)).await;
        let (Some(held), Some(known)) = (node.held.get(), node.known.get()) else { continue };
        if held.covers(known, port.now()) && node.exact.get() {
            let mut history = ground.history.borrow_mut();
            let now = history.now;
            node.fresh.set(now);
            history.answers(&node.disk.borrow_mut().shown(), now, node.name.as_str());
        }
    }
}

/// Follows until the node has acquired the workspace.
async fn follow(port: &Port, ground: &Ground, node: &Node, claim: &mut Claim) -> Box<Holder> {
    let most = ground.dice.borrow_mut().pick(&[1, 3, 256]);
    let new_follower = || Follower::new(node.disk.borrow().at.clone()).bringing(most);
    let mut follower = new_follower();
    loop {
        match follower.poll(port).await {
            Polled::Newest | Polled::Empty | Polled::Away(_) => {}
            Polled::Damage(damage) => ground.wrong(format!("C2: {} meets {damage}", node.name)),
            Polled::Records(records) => match apply(port, node, &records).await {
                Ok(()) => follower.applied(),
                Err(NotApplied::Wrong(why)) => ground.wrong(format!("C2: {}: {why}", node.name)),
                Err(NotApplied::Gone(_) | NotApplied::Away) => follower.begin_again(),
            },
        }
        if let Some(at) = follower.at() {
            claim.saw(at, port.now());
            ground.history.borrow_mut().saw(at, node.name.as_str());
            node.disk.borrow_mut().at = Some(at.clone());
        }
        if let Some(fresh) = follower.fresh() {
            let fresh = node.world_at(fresh);
            node.fresh.set(fresh);
            let shown = node.disk.borrow_mut().shown();
            ground.history.borrow_mut().answers(&shown, fresh, node.name.as_str());
        }
        if ground.chance(0.25) && node.holds_lease(port.now()) {
            match take(port, ground, node, claim).await {
                Some(holder) => return holder,
                None => follower = new_follower(),
            }
        }
        port.wait(ground.within(0.3, 5.0)).await;
    }
}

/// Applies records in order; if one of them fails, nothing is changed.
pub(crate) async fn apply(port: &Port, node: &Node, records: &[Record]) -> Result<(), NotApplied> {
    let mut toy = node.disk.borrow().toy.clone();
    for record in records {
        toy.apply(port, record).await?;
    }
    let mut disk = node.disk.borrow_mut();
    (disk.toy, disk.shown) = (toy, None);
    Ok(())
}

async fn take(port: &Port, ground: &Ground, node: &Node, claim: &mut Claim) -> Option<Box<Holder>> {
    let mine = node.disk.borrow().at.clone();
    let found = match find(port, mine.as_ref()).await {
        Ok(found) => found,
        Err(Lost::Away(_)) => return None,
        Err(Lost::Damage(damage)) => {
            ground.wrong(format!("C2: {} finds {damage}", node.name));
            return None;
        }
    };
    if let Some(found) = &found {
        ground.history.borrow_mut().saw(&found.newest, node.name.as_str());
        let looked = node.observer.borrow().looked();
        if looked <= Some(found.as_of) {
            look_once(port, node).await;
        }
        if !claim.may_take(found, &node.observer.borrow(), port.now()) {
            return None;
        }
    }
    let stamp = writing::stamp(ground, node);
    let store = Hex(ground.dice.borrow_mut().bytes());
    let holder = match claim.take(port, found.as_ref(), store, stamp).await {
        Took::Held(holder) => holder,
        Took::Again | Took::Unsure(_) | Took::Refused(_) => return None,
        Took::Lost(lost) => {
            ground.wrong(format!("{} cannot take: {lost:?}", node.name));
            return None;
        }
    };
    let records = found.map(|found| found.records).unwrap_or_default();
    for _ in 0..20 {
        match apply(port, node, &records).await {
            Ok(()) => {
                ground.history.borrow_mut().saw(holder.newest(), node.name.as_str());
                node.disk.borrow_mut().at = Some(holder.newest().clone());
                return Some(holder);
            }
            Err(NotApplied::Wrong(why)) => ground.wrong(format!("C2: {}: {why}", node.name)),
            // A later leader has collected garbage.
            Err(NotApplied::Gone(_)) => return None,
            Err(NotApplied::Away) => port.wait(Duration::from_secs(1)).await,
        }
    }
    None
}

async fn collect(port: Rc<Port>, ground: Rc<Ground>, node: Rc<Node>) {
    let (epoch, live) = (node.epoch.get(), Rc::clone(&node.live.borrow()));
    let mut collector = Collector::new(epoch, node.retention);
    while node.epoch.get() == epoch {
        for noted in node.noted.take() {
            live.borrow_mut().retain(|key| !noted.keys.contains(key));
            collector.note(noted, port.now());
        }
        let date = node.date(ground.history.borrow().now);
        let is_live = |key: &DataKey| live.borrow().contains(key);
        match collector.collect(&port, date, &is_live).await {
            Ok(collected) => {
                ground.history.borrow_mut().collected(&collected);
                let _told_by_the_next = collector.tell_gone(&port, &collected).await;
                if let Ok(Some(far)) = reached(&port).await {
                    let nodes = ground.nodes.borrow();
                    ground.history.borrow_mut().everywhere(&far, &ground.store.state(), &nodes);
                }
            }
            Err(Lost::Away(_)) => {}
            Err(Lost::Damage(damage)) => ground.wrong(format!("{} collects {damage}", node.name)),
        }
        port.wait(ground.within(30.0, 60.0)).await;
    }
}
