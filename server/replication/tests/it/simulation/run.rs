//! Run of one seed: the world, its faults, and the long time without faults at the end.

use std::rc::Rc;
use std::time::Duration;

use recalld_replication::core::{Machine, Port, Retention, Step, find};

use super::dice::Dice;
use super::history::Counts;
use super::node::{Disk, Node};
use super::store::{Flavour, View};
use super::toy::Toy;
use super::world::{Ground, SECOND, World, seconds};

/// End of the faults, and end of a run, in seconds.
pub(crate) const TROUBLE: u64 = 2_000;
const END: u64 = TROUBLE + 1_700;
/// End of a run in which a clock may be three times as slow, as the garbage collector's waits then last longer.
const FAR_END: u64 = TROUBLE + 2_400;

/// Kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rates of clocks differ by up to a quarter.
    Near(Flavour),
    /// Clocks run up to nine times as fast as others: guarantees that depend on leases are not checked.
    Far(Flavour),
}

pub(crate) fn run(seed: u64, kind: Kind) -> Result<Counts, String> {
    let mut dice = Dice::new(seed);
    let (flavour, rates): (_, &[f64]) = match kind {
        Kind::Near(flavour) => (flavour, &[0.9, 1.0, 1.12]),
        Kind::Far(flavour) => (flavour, &[1.0 / 3.0, 1.0, 3.0]),
    };
    let nodes = 2 + dice.below(3);
    let fine = dice.pick(&[0, 60, 300]);
    let full = dice.pick(&[0, 100, 900]);
    let retention = Retention { full: Duration::from_secs(full), fine: Duration::from_secs(fine) };
    let ground = Ground::new(flavour, dice);
    let mut world = World::new(Rc::clone(&ground));
    for number in 0..nodes {
        let rate = ground.dice.borrow_mut().pick(rates);
        let node = Node::new(&ground, usize::try_from(number).unwrap(), rate, retention);
        node.exact.set(matches!(kind, Kind::Near(_)));
        node.start(&ground);
        ground.nodes.borrow_mut().push(Rc::clone(&node));
        world.nodes.push(node);
    }
    world.at(0, trouble);
    world.run(TROUBLE * SECOND);
    heal(&mut world);
    let end = if matches!(kind, Kind::Near(_)) { END } else { FAR_END };
    world.run(end * SECOND);
    ends(&ground, &world);
    let history = ground.history.borrow();
    match &history.violation {
        None => Ok(history.counts),
        Some(why) => Err(why.clone()),
    }
}

/// Causes a fault, and schedules the next one.
fn trouble(world: &mut World) {
    if world.ground.is_quiet.get() {
        return;
    }
    let (node, length, which) = {
        let mut dice = world.ground.dice.borrow_mut();
        let node =
            Rc::clone(&world.nodes[usize::try_from(dice.below(world.nodes.len() as u64)).unwrap()]);
        let lengths = [1.0, 3.0, 6.0, 15.0, 15.0, 40.0, 40.0, 80.0, 330.0, 450.0];
        let length = dice.pick(&lengths) * dice.within(0.8, 1.2);
        (node, seconds(length), dice.below(100))
    };
    match which {
        0..45 => node.paused_until.set(node.paused_until.get().max(world.now + length)),
        45..60 => crash(world, &node),
        60..75 => node.cut_until.set(world.now + length),
        75..82 => world.down_until = world.now + length / 8,
        82..90 => world.slow_until = world.now + length / 2,
        _ => *node.earlier.borrow_mut() = node.disk.borrow().clone(),
    }
    let next = seconds(world.ground.dice.borrow_mut().within(1.0, 40.0));
    world.at(next, trouble);
}

/// Ends a process and starts another with the current disk, an empty one, or an earlier one.
fn crash(world: &mut World, node: &Rc<Node>) {
    node.crash();
    match world.ground.dice.borrow_mut().below(4) {
        0 => *node.disk.borrow_mut() = Disk::default(),
        1 => {
            *node.disk.borrow_mut() = node.earlier.borrow().clone();
            // Erased data returns with the earlier disk, whatever the node has published.
            node.is_rolled_back.set(true);
        }
        _ => {}
    }
    let (life, node) = (node.life.get(), Rc::clone(node));
    let after = seconds(world.ground.dice.borrow_mut().within(0.5, 60.0));
    world.at(after, move |world| {
        if node.life.get() == life {
            node.start(&world.ground);
        }
    });
}

fn heal(world: &mut World) {
    world.ground.is_quiet.set(true);
    (world.down_until, world.slow_until) = (0, 0);
    for node in &world.nodes {
        node.paused_until.set(0);
        node.cut_until.set(0);
    }
}

/// Checks the state after a long time without faults.
fn ends(ground: &Rc<Ground>, world: &World) {
    if ground.history.borrow().violation.is_some() {
        return;
    }
    let Some((newest, toy)) = newest(ground) else {
        return ground.wrong("the newest state cannot be read");
    };
    let settled = (TROUBLE + 400) * SECOND;
    let (tokens, now) = (toy.tokens(), world.now);
    let mut history = ground.history.borrow_mut();
    history.ends(&tokens, &newest, &ground.store.state(), settled);
    if history.last_acknowledged < now - 100 * SECOND {
        let last = history.last_acknowledged / SECOND;
        history.wrong(format!("C8: nothing was written after {last} s"));
    }
    let erased = history.erased_before(settled);
    for node in &world.nodes {
        let name = &node.name;
        if node.fresh.get() < now - 60 * SECOND && node.exact.get() {
            let fresh = node.fresh.get() / SECOND;
            history.wrong(format!("C8: {name} is as of {fresh} s"));
        }
        if let Some(token) = erased.iter().find(|token| node.disk.borrow().toy.has(**token)) {
            history.wrong(format!("C7: {name} still has {token}"));
        }
    }
}

/// Newest state, read by an outside reader.
fn newest(ground: &Rc<Ground>) -> Option<(recalld_replication::core::Mark, Toy)> {
    let node = recalld_replication::NodeId::new("reader").unwrap();
    let store = std::sync::Arc::clone(&ground.store);
    let view =
        View { store, node, run: recalld_replication::Nonce::NONE, looked: None, has_body: false };
    let read = |port: Rc<Port>| async move {
        let found = find(&port, None).await.ok()??;
        let mut toy = Toy::default();
        for record in &found.records {
            toy.apply(&port, record).await.ok()?;
        }
        Some((found.newest, toy))
    };
    let mut machine = Machine::new(ground.tenant.clone(), false, read);
    let mut answer = None;
    loop {
        match machine.step(answer, recalld_replication::Ticks(0)) {
            Step::Done(end) => return end,
            Step::Ask(ask) => answer = Some(view.perform(&ground.tenant, &ask)),
        }
    }
}
