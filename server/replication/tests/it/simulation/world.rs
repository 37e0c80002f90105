//! Scheduler: the pending events, the order in which they happen, and the faults.
//!
//! A task is a protocol task of a process. Each of its requests becomes an operation that reaches the storage some time
//! later, or twice, or never. The response returns some time after the operation, or is lost.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use recalld_replication::core::{Answer, Ask, Machine, Port, Step};
use recalld_replication::{Tenant, Tried};

use super::dice::Dice;
use super::history::History;
use super::node::Node;
use super::store::{Flavour, Store, View};

pub(crate) const SECOND: u64 = 1_000_000_000;
/// Timeout of a request.
const DEADLINE: u64 = 5 * SECOND;

/// Converts seconds to world time.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn seconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Environment of all nodes' tasks.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) tenant: Tenant,
    pub(crate) store: Arc<Store>,
    pub(crate) dice: RefCell<Dice>,
    pub(crate) history: RefCell<History>,
    pub(crate) is_quiet: Cell<bool>,
    /// All nodes, for the checker of their disks.
    pub(crate) nodes: RefCell<Vec<Rc<Node>>>,
    spawned: RefCell<Vec<Task>>,
}

/// A task of a process.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) node: Rc<Node>,
    life: u64,
    machine: Machine<'static, ()>,
}

type Event = Box<dyn FnOnce(&mut World)>;

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) ground: Rc<Ground>,
    pub(crate) nodes: Vec<Rc<Node>>,
    events: BTreeMap<(u64, u64), Event>,
    tasks: BTreeMap<u64, Task>,
    count: u64,
    /// End of the current outage, and of the current slowness, of the storage.
    pub(crate) down_until: u64,
    pub(crate) slow_until: u64,
}

/// Fate of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    /// Not executed, and reported as failed.
    Failed,
    /// Executed, and reported as failed.
    Doubted,
    /// Executed, and the response is lost.
    Unheard,
    Lost,
    /// Executed long after the timeout of the request.
    Late,
    /// Executed now, and once more later.
    Twice,
    /// Executed for half of the keys.
    Half,
    /// Rejected by the storage.
    Denied,
}

impl Ground {
    pub(crate) fn new(flavour: Flavour, dice: Dice) -> Rc<Self> {
        let (history, is_quiet, nodes, spawned) = Default::default();
        let tenant = Tenant::new("local").unwrap();
        let dice = RefCell::new(dice);
        Rc::new(Self {
            tenant,
            store: Store::new(flavour),
            dice,
            history,
            is_quiet,
            nodes,
            spawned,
        })
    }

    /// Starts a task of a node's process.
    pub(crate) fn spawn<F>(&self, node: &Rc<Node>, body: impl FnOnce(Rc<Port>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let is_guarded = self.store.flavour == Flavour::Guarded;
        let machine = Machine::new(self.tenant.clone(), is_guarded, body);
        let task = Task { node: Rc::clone(node), life: node.life.get(), machine };
        self.spawned.borrow_mut().push(task);
    }

    pub(crate) fn wrong(&self, why: impl Into<String>) {
        self.history.borrow_mut().wrong(why);
    }

    pub(crate) fn chance(&self, share: f64) -> bool {
        self.dice.borrow_mut().chance(share)
    }

    pub(crate) fn within(&self, from: f64, to: f64) -> Duration {
        Duration::from_secs_f64(self.dice.borrow_mut().within(from, to))
    }
}

impl World {
    pub(crate) fn new(ground: Rc<Ground>) -> Self {
        let (events, tasks, nodes) = Default::default();
        Self { now: 0, ground, nodes, events, tasks, count: 0, down_until: 0, slow_until: 0 }
    }

    pub(crate) fn at(&mut self, delay: u64, event: impl FnOnce(&mut Self) + 'static) {
        self.count += 1;
        self.events.insert((self.now + delay, self.count), Box::new(event));
    }

    /// Runs all events up to a time, or to the first violation.
    pub(crate) fn run(&mut self, until: u64) {
        self.begin_spawned();
        while let Some(first) = self.events.first_entry() {
            let time = first.key().0;
            if time > until || self.ground.history.borrow().violation.is_some() {
                break;
            }
            let event = first.remove();
            self.now = time;
            let mut history = self.ground.history.borrow_mut();
            history.now = time;
            history.counts.events += 1;
            drop(history);
            event(self);
            self.begin_spawned();
        }
        self.now = self.now.max(until);
        self.ground.history.borrow_mut().now = self.now;
    }

    fn begin_spawned(&mut self) {
        for task in self.ground.spawned.take() {
            self.count += 1;
            let id = self.count;
            self.tasks.insert(id, task);
            self.at(0, move |world| world.step(id, None));
        }
    }

    /// Resumes a task with its response, once its process is not paused.
    fn step(&mut self, id: u64, answer: Option<Answer>) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let node = Rc::clone(&task.node);
        if task.life != node.life.get() {
            self.tasks.remove(&id);
            return;
        }
        if node.paused_until.get() > self.now {
            let delay = node.paused_until.get() - self.now;
            self.at(delay, move |world| world.step(id, answer));
            return;
        }
        match task.machine.step(answer, node.ticks(self.now)) {
            Step::Done(()) => drop(self.tasks.remove(&id)),
            Step::Ask(Ask::Wait(length)) => {
                let delay = node.to_world(length);
                self.at(delay, move |world| world.step(id, Some(Answer::Waited)));
            }
            Step::Ask(ask) => self.send(id, &node, ask),
        }
    }

    fn send(&mut self, id: u64, node: &Rc<Node>, ask: Ask) {
        let fate = self.fate(node, &ask);
        self.stop_at(node, &ask);
        let slow = if self.slow_until > self.now { 40.0 } else { 1.0 };
        let mut dice = self.ground.dice.borrow_mut();
        let there = seconds(dice.within(0.002, 0.06) * slow);
        let later =
            seconds(dice.pick(&[1.0, 6.0, 25.0, 60.0, 330.0, 420.0]) * dice.within(0.8, 1.2));
        drop(dice);
        let view = View {
            store: Arc::clone(&self.ground.store),
            node: node.name.clone(),
            run: node.run.get(),
            looked: None,
            has_body: false,
        };
        let ask = Rc::new(ask);
        match fate {
            Fate::Lost => self.give_up(id, &ask, DEADLINE),
            Fate::Failed => self.give_up(id, &ask, there),
            Fate::Denied => {
                let answer = Answer::Tried(Tried::Refused("403".into()));
                self.at(there, move |world| world.step(id, Some(answer)));
            }
            Fate::Late | Fate::Unheard => {
                let at = if fate == Fate::Late { later } else { there };
                self.give_up(id, &ask, DEADLINE);
                self.at(at, move |world| drop(world.perform(&view, &ask)));
            }
            Fate::Fine | Fate::Doubted | Fate::Twice | Fate::Half => {
                if fate == Fate::Twice {
                    let (view, ask) = (view.clone(), Rc::clone(&ask));
                    self.at(later, move |world| drop(world.perform(&view, &ask)));
                }
                let (node, life) = (Rc::clone(node), node.life.get());
                if self.ground.store.flavour == Flavour::Racy && fate == Fate::Fine {
                    self.at(there, move |world| world.look_first(id, node, view, ask));
                    return;
                }
                let is_told = !matches!(fate, Fate::Doubted | Fate::Half);
                if let Some((key, bytes)) = view.body_before(&self.ground.tenant, &ask) {
                    let put = move |world: &mut Self| {
                        world.perform(&view, &Ask::Put(key, bytes));
                        let view = View { has_body: true, ..view };
                        world.create_behind(id, node, life, view, ask, is_told);
                    };
                    return self.at(there, put);
                }
                let ask = if fate == Fate::Half { Rc::new(half(&ask)) } else { ask };
                self.at(there, move |world| world.arrive(id, &node, life, view, ask, is_told));
            }
        }
    }

    /// At random, pauses a process right before its request, for longer than a lease or than the retention of records.
    fn stop_at(&self, node: &Node, ask: &Ask) {
        let share = match ask {
            Ask::Create { .. } | Ask::RaiseEdge(_) | Ask::RemoveRecords(_) | Ask::Remove(_) => 0.02,
            Ask::Read(_) | Ask::Numbers { .. } => 0.001,
            _ => 0.0,
        };
        if !self.ground.is_quiet.get() && self.ground.chance(share) {
            let length = self.ground.dice.borrow_mut().pick(&[15.0, 40.0, 350.0, 450.0]);
            node.paused_until.set(node.paused_until.get().max(self.now + seconds(length)));
        }
    }

    /// Second request of a create, sent only if the process is alive and not paused.
    fn create_behind(
        &mut self,
        id: u64,
        node: Rc<Node>,
        life: u64,
        view: View,
        ask: Rc<Ask>,
        is_told: bool,
    ) {
        let stopped = node.paused_until.get().saturating_sub(self.now);
        let between = seconds(self.ground.dice.borrow_mut().within(0.004, 0.1));
        self.at(stopped + between, move |world| {
            if node.life.get() == life {
                world.arrive(id, &node, life, view, ask, is_told);
            }
        });
    }

    /// Executes a request at the storage, or delays it if its process was paused just before sending.
    fn arrive(
        &mut self,
        id: u64,
        node: &Rc<Node>,
        life: u64,
        view: View,
        ask: Rc<Ask>,
        is_told: bool,
    ) {
        let stopped = node.paused_until.get();
        if stopped > self.now && self.ground.chance(0.5) {
            let (delay, node) = (stopped - self.now + seconds(0.03), Rc::clone(node));
            self.at(delay, move |world| {
                if node.life.get() == life {
                    world.arrive(id, &node, life, view, ask, is_told);
                }
            });
            return;
        }
        let answer = self.perform(&view, &ask);
        let answer = if is_told { answer } else { ask.unanswered("500") };
        let back = seconds(self.ground.dice.borrow_mut().within(0.002, 0.06));
        self.at(back, move |world| world.step(id, Some(answer)));
    }

    /// Storage that checks the condition, and writes a little or much later.
    fn look_first(&mut self, id: u64, node: Rc<Node>, mut view: View, ask: Rc<Ask>) {
        view.looked = view.is_free(&ask);
        let mut dice = self.ground.dice.borrow_mut();
        let longest = if dice.chance(0.1) { 10.0 } else { 0.02 };
        let between = seconds(dice.within(0.0, longest));
        drop(dice);
        let life = node.life.get();
        self.at(between, move |world| world.arrive(id, &node, life, view, ask, true));
    }

    fn give_up(&mut self, id: u64, ask: &Ask, delay: u64) {
        let answer = ask.unanswered("no answer");
        self.at(delay, move |world| world.step(id, Some(answer)));
    }

    fn perform(&mut self, view: &View, ask: &Ask) -> Answer {
        view.store.state().now = self.now;
        let answer = view.perform(&self.ground.tenant, ask);
        for happened in view.store.happened() {
            let edge = view.store.state().edge(&self.ground.tenant);
            self.ground.history.borrow_mut().happens(happened, &edge);
        }
        answer
    }

    fn fate(&self, node: &Node, ask: &Ask) -> Fate {
        let mut dice = self.ground.dice.borrow_mut();
        if node.cut_until.get() > self.now {
            return Fate::Lost;
        }
        if self.down_until > self.now {
            return dice.pick(&[Fate::Failed, Fate::Failed, Fate::Lost]);
        }
        if self.ground.is_quiet.get() || !dice.chance(0.06) {
            return Fate::Fine;
        }
        match ask {
            Ask::Put(..) | Ask::Beat(_) => dice.pick(&[
                Fate::Failed,
                Fate::Doubted,
                Fate::Lost,
                Fate::Unheard,
                Fate::Late,
                Fate::Twice,
            ]),
            Ask::Create { .. } | Ask::RaiseEdge(_) | Ask::PutNew(..) => dice.pick(&[
                Fate::Failed,
                Fate::Doubted,
                Fate::Lost,
                Fate::Unheard,
                Fate::Late,
                Fate::Late,
                Fate::Denied,
            ]),
            Ask::Remove(_) | Ask::RemoveRecords(_) => {
                dice.pick(&[Fate::Failed, Fate::Doubted, Fate::Half, Fate::Late])
            }
            _ => dice.pick(&[Fate::Failed, Fate::Lost]),
        }
    }
}

/// Removal of the first half of the keys.
fn half(ask: &Ask) -> Ask {
    match ask {
        Ask::Remove(keys) => Ask::Remove(keys[..keys.len() / 2].to_vec()),
        Ask::RemoveRecords(numbers) => Ask::RemoveRecords(numbers[..numbers.len() / 2].to_vec()),
        ask => ask.clone(),
    }
}
