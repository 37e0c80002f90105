//! Membership of a node: publishes its heartbeats, and observes those of other nodes.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::beat::Beat;
use crate::core::{Beating, Claim, Found, Given, Held, Mark, Observer, Writer};
use crate::driver::Driver;
use crate::limits::LEASE_SECONDS;
use crate::objects::Away;
use crate::record::Head;
use crate::ticks::Ticks;

/// A node that may write: publishes heartbeats and observes other nodes until dropped.
#[derive(Debug)]
pub struct Node {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    driver: Driver,
    writer: Writer,
    lease: Duration,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    held: Option<Held>,
    seen: Arc<Observer>,
    trouble: Option<String>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("node", &self.writer.node).finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a node with a lease of `lease_s` seconds. The node has a shutdown signal of its own, which its drop
    /// raises.
    ///
    /// # Errors
    /// The operating system cannot create a thread.
    pub fn start(driver: Driver, writer: Writer, lease_s: u32) -> io::Result<Self> {
        let lease_s = lease_s.clamp(*LEASE_SECONDS.start(), *LEASE_SECONDS.end());
        let first = Beat {
            node: writer.node.clone(),
            run: writer.run,
            count: 0,
            url: writer.url.clone(),
            lease_s,
        };
        let shared = Arc::new(Shared {
            driver: Driver { halt: Arc::default(), ..driver },
            writer,
            lease: Duration::from_secs(lease_s.into()),
            known: Mutex::default(),
        });
        let (beats, watches) = (Arc::clone(&shared), Arc::clone(&shared));
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let threads = vec![
            spawn("beat").spawn(move || beats.beat(Beating::new(first)))?,
            spawn("watch").spawn(move || watches.watch())?,
        ];
        Ok(Self { shared, threads })
    }

    /// Identity of this node in records.
    #[must_use]
    pub fn writer(&self) -> &Writer {
        &self.shared.writer
    }

    /// Lease of this node's heartbeats.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.shared.lease
    }

    /// Returns true while no other node can consider this one gone.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let now = self.shared.driver.ticks.now();
        self.shared.known().held.is_some_and(|held| now < held.until)
    }

    /// Time for which another node may have written this node's workspace, if this node's newest record was in the
    /// record log at `known` ([`Holder::known`](crate::core::Holder::known)). `None` while no other node can: the local
    /// copy is complete.
    #[must_use]
    pub fn lapsed_for(&self, known: Ticks) -> Option<Duration> {
        let now = self.shared.driver.ticks.now();
        Held::lapsed_for(self.shared.known().held, known, now)
    }

    /// Returns true if no other node can have written this node's workspace since `known`.
    #[must_use]
    pub fn covers(&self, known: Ticks) -> bool {
        self.lapsed_for(known).is_none()
    }

    /// Returns true if this node may acquire the workspace from the writer of the newest record. If the heartbeats were
    /// not read since the record was found, they are read first.
    #[must_use]
    pub fn may_take(&self, claim: &mut Claim, found: &Found) -> bool {
        let looked = self.shared.known().seen.looked();
        if looked <= Some(found.as_of)
            && let Err(away) = self.shared.look()
        {
            self.shared.known().trouble = Some(away.why);
        }
        let seen = Arc::clone(&self.shared.known().seen);
        claim.may_take(found, &seen, self.shared.driver.ticks.now())
    }

    /// Returns true unless the writer of a record known for `at_for` is known to be gone.
    #[must_use]
    pub fn may_live(&self, at: &Head, at_for: Duration) -> bool {
        let known = self.shared.driver.ticks.now() - at_for;
        !self.shared.known().seen.has_lapsed(&at.node, at.run, known)
    }

    /// Returns true if this node can probably acquire a record log whose newest record is known for `at_for`: its
    /// writer released it or seems gone. A cheap check without requests; the acquisition itself decides.
    #[must_use]
    pub fn may_be_free(&self, at: &Head, given: Option<&Given>, at_for: Duration) -> bool {
        let own = self.writer();
        match given {
            Some(Given { to: Some(to) }) if *to != own.node => at_for > self.lease(),
            Some(_) => true,
            None => at.node == own.node || !self.may_live(at, at_for),
        }
    }

    /// Longest time to learn if this node may acquire a record log, when its writer was not observed before.
    #[must_use]
    pub fn knows_after(&self, newest: &Mark) -> Duration {
        let seen = Arc::clone(&self.shared.known().seen);
        match &newest.given {
            Some(_) => self.lease(),
            None => {
                let lease = seen.lease(&newest.head.node).unwrap_or_default();
                lease + lease / 4 + 2 * seen.pace(self.lease())
            }
        }
    }

    /// Last error, until a heartbeat succeeds.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.shared.known().trouble.clone()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.driver.halt.raise();
        for thread in self.threads.drain(..) {
            let _its_panic_is_on_stderr = thread.join();
        }
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn beat(&self, mut beating: Beating) {
        loop {
            let (beat, sent) = beating.next(self.driver.ticks.now());
            let told = self.driver.chain.beat(&beat);
            if told.is_ok() {
                beating.confirmed(sent, self.driver.ticks.now());
            }
            let mut known = self.known();
            known.held = beating.held();
            known.trouble = told.err().map(|away| away.why);
            drop(known);
            if self.driver.halt.wait(beating.pace()) {
                return;
            }
        }
    }

    fn watch(&self) {
        loop {
            if let Err(away) = self.look() {
                self.known().trouble = Some(away.why);
            }
            let pace = self.known().seen.pace(self.lease);
            if self.driver.halt.wait(pace) {
                return;
            }
        }
    }

    /// Reads the heartbeats of all nodes.
    fn look(&self) -> Result<(), Away> {
        // A heartbeat that is published during the read may be missing from its result, so the result counts from its
        // start.
        let began = self.driver.ticks.now();
        let beats = self.driver.chain.beats()?;
        let now = self.driver.ticks.now();
        let mut known = self.known();
        let mut seen = (*known.seen).clone();
        seen.saw(beats, began, now);
        known.seen = Arc::new(seen);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::chain::objects::ObjectChain;
    use crate::hex::Hex;
    use crate::names::{Key, NodeId};
    use crate::objects::{About, Objects, Tried};
    use crate::ticks::TickSource;

    #[derive(Debug, Default)]
    struct Seconds(AtomicU64);

    impl TickSource for Seconds {
        fn now(&self) -> Ticks {
            Ticks(self.0.load(Ordering::SeqCst) * 1_000_000_000)
        }
    }

    /// An empty object store that takes three seconds for each list.
    #[derive(Debug)]
    struct Slow(Arc<Seconds>);

    impl Objects for Slow {
        fn put(&self, _: &Key, _: &[u8]) -> Result<(), Away> {
            unreachable!("nothing is put here")
        }

        fn put_new(&self, _: &Key, _: &[u8]) -> Tried {
            unreachable!("nothing is put here")
        }

        fn get(&self, _: &Key, _: Option<Range<u64>>, _: u64) -> Result<Option<Vec<u8>>, Away> {
            unreachable!("there is nothing to get")
        }

        fn head(&self, _: &Key) -> Result<Option<About>, Away> {
            unreachable!("there is nothing to ask about")
        }

        fn list(&self, _: &str, _: Option<&Key>, _: usize) -> Result<Vec<About>, Away> {
            self.0.0.fetch_add(3, Ordering::SeqCst);
            Ok(Vec::new())
        }

        fn remove(&self, _: &[Key]) -> Result<(), Away> {
            unreachable!("there is nothing to remove")
        }
    }

    #[test]
    fn what_is_said_while_beats_are_looked_at_may_be_missing_among_them() {
        let ticks = Arc::new(Seconds::default());
        let objects: Arc<dyn Objects> = Arc::new(Slow(Arc::clone(&ticks)));
        let chain = Arc::new(ObjectChain::new(Arc::clone(&objects)));
        let shared = Shared {
            driver: Driver { chain, objects, ticks, halt: Arc::default() },
            writer: Writer {
                node: NodeId::new("n2").unwrap(),
                run: Hex([1; 16]),
                url: String::new(),
            },
            lease: Duration::from_secs(5),
            known: Mutex::default(),
        };
        shared.look().unwrap();
        // A writer may have published a heartbeat and a record after the first second.
        assert_eq!(shared.known().seen.looked(), Some(Ticks(0)));
    }
}
