//! The probe of a start, against correct and flawed storages.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use recalld_replication::core::{Port, Raced, Racing, Retention, Verdict, judge, manners, race};
use recalld_replication::limits::{PROBE_RACERS, PROBE_ROUNDS};
use recalld_replication::{Hex, Key, Nonce};

use super::dice::Dice;
use super::node::Node;
use super::store::Flavour;
use super::world::{Ground, SECOND, World};

/// A probe, with its results.
struct Probe {
    ground: Rc<Ground>,
    node: Rc<Node>,
    name: Nonce,
    raced: RefCell<Vec<Raced>>,
    verdict: RefCell<Option<Verdict>>,
}

/// Verdict of a complete probe on a storage without faults.
pub(crate) fn probe(seed: u64, flavour: Flavour, is_chain: bool) -> Verdict {
    let ground = Ground::new(flavour, Dice::new(seed));
    ground.is_quiet.set(true);
    let mut world = World::new(Rc::clone(&ground));
    let never = Retention { full: Duration::ZERO, fine: Duration::ZERO };
    let node = Node::new(&ground, 0, 1.0, never);
    let name = Hex(ground.dice.borrow_mut().bytes());
    let (raced, verdict) = Default::default();
    let probe = Rc::new(Probe { ground: Rc::clone(&ground), node, name, raced, verdict });
    let whole = Rc::clone(&probe);
    ground.spawn(&probe.node, |port| async move { whole.all(port, is_chain).await });
    world.run(10_000 * SECOND);
    probe.verdict.take().unwrap()
}

impl Probe {
    async fn all(self: Rc<Self>, port: Rc<Port>, is_chain: bool) {
        let mut verdict = manners(&port, self.name, true).await;
        for round in 0..PROBE_ROUNDS {
            if verdict != Verdict::Honest {
                break;
            }
            let racing = match is_chain {
                true => Racing::Record(u64::from(round) + 1),
                false => Racing::Object(Key::Probe(self.name, round)),
            };
            verdict = Rc::clone(&self).round(&port, racing).await;
        }
        *self.verdict.borrow_mut() = Some(verdict);
    }

    async fn round(self: Rc<Self>, port: &Port, racing: Racing) -> Verdict {
        for _ in 0..PROBE_RACERS {
            let (probe, racing) = (Rc::clone(&self), racing.clone());
            let mark = Hex(self.ground.dice.borrow_mut().bytes());
            self.ground.spawn(&self.node, |port| async move {
                let raced = race(&port, &racing, mark).await;
                probe.raced.borrow_mut().push(raced);
            });
        }
        while self.raced.borrow().len() < PROBE_RACERS {
            port.wait(Duration::from_secs(1)).await;
        }
        let raced = self.raced.take();
        judge(port, &racing, &raced).await
    }
}
