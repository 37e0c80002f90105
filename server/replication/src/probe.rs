//! Probe of a storage at a start: many threads race conditional puts of the same objects, over warm connections. The
//! protocol code in [`core`](crate::core) judges the results.

use engine::os::clock::SystemRandom;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;

use crate::chain::objects::ObjectChain;
use crate::core::{Raced, Racing, Verdict, judge, manners, race};
use crate::driver::Driver;
use crate::hex::Nonce;
use crate::limits::{LISTED_TOGETHER, PROBE_RACERS, PROBE_ROUNDS, PROBE_SECONDS_MAX};
use crate::names::{Key, Tenant};
use crate::objects::{About, Away, Objects};
use crate::open::Reached;
use crate::ticks::BootClock;

/// Reason why a node must not write to a storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// True if the coordinator failed, false if the object store did.
    pub is_coordinator: bool,
    /// Finding.
    pub verdict: Verdict,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_coordinator { "the coordinator" } else { "the store" };
        let advice = match self.verdict {
            Verdict::Dishonest(_) if !self.is_coordinator => {
                ". Chains cannot be kept there: name a coordinator (etcd://...), or another store. A replica \
                 of it may be served"
            }
            _ => "",
        };
        write!(f, "{what} cannot be used: {}{advice}", self.verdict)
    }
}

impl std::error::Error for Unfit {}

impl Reached {
    /// Checks that a node may write to this remote: races puts on the storage of the record logs, and checks that
    /// objects are retained, read, listed and removed. Sends about 150 requests.
    ///
    /// # Errors
    /// The part of the remote that must not be used, and why.
    pub fn probe(&self) -> Result<(), Unfit> {
        let is_coordinator = !Arc::ptr_eq(&self.raced, &self.objects);
        fit(probe(&self.raced, true), is_coordinator)?;
        if is_coordinator { fit(probe(&self.objects, false), false) } else { Ok(()) }
    }
}

fn fit(verdict: Verdict, is_coordinator: bool) -> Result<(), Unfit> {
    match verdict {
        Verdict::Honest => Ok(()),
        verdict => Err(Unfit { is_coordinator, verdict }),
    }
}

/// Probes a store. The race runs only if the store `has_chains`. Probe objects are removed afterwards, as far as the
/// store responds.
#[must_use]
pub fn probe(objects: &Arc<dyn Objects>, has_chains: bool) -> Verdict {
    let [raced, kept] = [(), ()].map(|()| Nonce::drawn(&SystemRandom));
    if has_chains {
        let verdict = Rounds::new(objects, raced).run();
        let keys: Vec<Key> = (0..PROBE_ROUNDS).map(|round| Key::Probe(raced, round)).collect();
        let removed = objects.remove(&keys);
        if verdict != Verdict::Honest {
            return verdict;
        }
        if let Err(away) = removed {
            return of(away);
        }
    }
    let verdict = drive(objects, |port| async move { manners(&port, kept, has_chains).await });
    if verdict != Verdict::Honest {
        // After success the object was removed on the way.
        let _left = objects.remove(&[Key::Probe(kept, PROBE_ROUNDS)]);
    }
    verdict
}

/// Removes the remains of interrupted probes. Returns the number of removed objects.
///
/// # Errors
/// The storage did not respond.
pub fn clear_probes(objects: &dyn Objects) -> Result<usize, Away> {
    let listed = objects.list("probe/", None, LISTED_TOGETHER)?;
    let is_old = |about: &About| about.age_s > PROBE_SECONDS_MAX;
    let old: Vec<Key> = listed.into_iter().filter(is_old).map(|about| about.key).collect();
    objects.remove(&old)?;
    Ok(old.len())
}

fn of(away: Away) -> Verdict {
    if away.may_pass { Verdict::Unsure(away.why) } else { Verdict::Refused(away.why) }
}

/// State of one race, shared by all racers.
struct Rounds<'a> {
    objects: &'a Arc<dyn Objects>,
    probe: Nonce,
    /// Barrier of all racers and the judge, passed at the start and the end of each round.
    barrier: Barrier,
    ended: AtomicBool,
    raced: Mutex<Vec<Raced>>,
}

impl<'a> Rounds<'a> {
    fn new(objects: &'a Arc<dyn Objects>, probe: Nonce) -> Self {
        let barrier = Barrier::new(PROBE_RACERS + 1);
        let (ended, raced) = (AtomicBool::new(false), Mutex::default());
        Self { objects, probe, barrier, ended, raced }
    }

    fn run(&self) -> Verdict {
        thread::scope(|scope| {
            for _ in 0..PROBE_RACERS {
                scope.spawn(|| self.racer());
            }
            self.judge_all()
        })
    }

    fn racing(&self, round: u32) -> Racing {
        Racing::Object(Key::Probe(self.probe, round))
    }

    /// Runs each round until the race has ended. Must not panic: the other threads would wait for ever.
    fn racer(&self) {
        // All racers send a request at once, so that each gets a connection of its own.
        self.barrier.wait();
        let warm = self.objects.get(&Key::Probe(self.probe, PROBE_ROUNDS), None, 1);
        if let Err(away) = warm {
            self.note(if away.may_pass {
                Raced::Unsure(away.why)
            } else {
                Raced::Refused(away.why)
            });
        }
        self.barrier.wait();
        for round in 0..PROBE_ROUNDS {
            self.barrier.wait();
            if self.ended.load(SeqCst) {
                return;
            }
            let racing = self.racing(round);
            let mark = Nonce::drawn(&SystemRandom);
            let raced = drive(self.objects, |port| async move { race(&port, &racing, mark).await });
            self.note(raced);
            self.barrier.wait();
        }
    }

    fn note(&self, raced: Raced) {
        self.raced.lock().unwrap_or_else(PoisonError::into_inner).push(raced);
    }

    fn take(&self) -> Vec<Raced> {
        std::mem::take(&mut *self.raced.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn judge_all(&self) -> Verdict {
        self.barrier.wait();
        self.barrier.wait();
        let mut verdict = match self.take().into_iter().next() {
            Some(Raced::Refused(why)) => Verdict::Refused(why),
            Some(Raced::Unsure(why)) => Verdict::Unsure(why),
            Some(_) | None => Verdict::Honest,
        };
        for round in 0..PROBE_ROUNDS {
            if verdict != Verdict::Honest {
                self.ended.store(true, SeqCst);
                self.barrier.wait();
                return verdict;
            }
            self.barrier.wait();
            self.barrier.wait();
            let (racing, raced) = (self.racing(round), self.take());
            verdict =
                drive(self.objects, |port| async move { judge(&port, &racing, &raced).await });
        }
        verdict
    }
}

/// Runs one protocol task; its record log is never used.
fn drive<T, F>(
    objects: &Arc<dyn Objects>,
    body: impl FnOnce(std::rc::Rc<crate::core::Port>) -> F,
) -> T
where
    F: Future<Output = T>,
{
    let tenant = Tenant::new("probe").expect("five small letters");
    let driver = Driver {
        chain: Arc::new(ObjectChain::new(Arc::clone(objects))),
        objects: Arc::clone(objects),
        ticks: Arc::new(BootClock),
        halt: Arc::default(),
    };
    driver.run(&tenant, body).expect("nobody raises this halt")
}
