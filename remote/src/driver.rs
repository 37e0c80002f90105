//! Runs the machines of the protocol on a thread, against a real storage.

use std::rc::Rc;
use std::time::Duration;

use crate::chain::Chain;
use crate::core::{Ask, Machine, Port, Step};
use crate::names::Tenant;
use crate::objects::Objects;
use crate::ticks::TickSource;

/// What a machine needs besides itself. Each run of one takes the thread until it ends.
#[derive(Clone, Copy)]
pub struct Driver<'a> {
    /// The workspace.
    pub tenant: &'a Tenant,
    /// Where its chain is.
    pub chain: &'a dyn Chain,
    /// Where its objects are.
    pub objects: &'a dyn Objects,
    /// The time.
    pub ticks: &'a dyn TickSource,
    /// Waits; false where it was told to stop meanwhile.
    pub wait: &'a dyn Fn(Duration) -> bool,
}

impl std::fmt::Debug for Driver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tenant, chain, objects, ticks, wait: _ } = self;
        f.debug_struct("Driver")
            .field("tenant", tenant)
            .field("chain", chain)
            .field("objects", objects)
            .field("ticks", ticks)
            .finish_non_exhaustive()
    }
}

impl Driver<'_> {
    /// Runs a machine to its end; `None` where a wait was told to stop.
    pub fn run<'body, T, F>(&self, body: impl FnOnce(Rc<Port>) -> F) -> Option<T>
    where
        F: Future<Output = T> + 'body,
    {
        let mut machine = Machine::new(self.tenant.clone(), self.chain.guards_edge(), body);
        let mut answer = None;
        loop {
            let ask = match machine.step(answer, self.ticks.now()) {
                Step::Done(end) => return Some(end),
                Step::Ask(ask) => ask,
            };
            if let Ask::Wait(length) = ask
                && !(self.wait)(length)
            {
                return None;
            }
            answer = Some(ask.perform(self.tenant, self.chain, self.objects));
        }
    }
}
