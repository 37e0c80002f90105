//! Where workspaces are, by their places on a remote.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use recalld_replication::{Carrier, Node, Role};

use super::table::{At, Seats};
use crate::control_chain::ControlStands;
use crate::limits::{OPEN_WAIT_MAX, TAKERS_MAX};
use crate::whereabouts::{CONTROL, Peer, Taken, Where, Whereabouts};
use recalld_common::wrong_node::WrongNode;
use recalld_config::remote::Safe;

/// Between two looks at whether a workspace was taken.
const TAKE_PAUSE: Duration = Duration::from_millis(50);

/// Counts who waits.
struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Seats {
    /// The node, where the remote makes safe what is written here.
    fn safe(&self) -> Option<&Node> {
        self.node.as_deref().filter(|_| self.settings.durability == Safe::Remote)
    }

    /// For how long others may have written what this carrier writes, where they may. Once its lease was over,
    /// this node does not know that nobody came before a record of its own is in the chain, also when it is
    /// heard again.
    fn lapsed_for(&self, carrier: &Carrier) -> Option<Duration> {
        self.safe()?.lapsed_for(carrier.known())
    }

    /// Has what is written here looked at where another node may have come meanwhile: also what answers reads by
    /// itself all the while, so that it does not for ever.
    pub fn confirm_led(&self) {
        let Some(node) = self.node.as_ref().filter(|node| node.is_held()) else { return };
        let places: Vec<_> =
            self.places.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for place in places {
            // One that changes is taken anew.
            if let Ok(at) = place.try_read()
                && let Some(Role::Leads(carrier)) = &at.role
                && !carrier.is_over()
                && !node.covers(carrier.known())
            {
                carrier.confirm();
            }
        }
    }

    /// Where the control store is: on each node by itself, unless they share one.
    fn of_control(&self) -> Where {
        match self.control.get().map(|chain| chain.stands()) {
            None | Some(ControlStands::Leads) => Where::Here,
            Some(ControlStands::Follows { age, writer, .. }) => Where::Follows { age, writer },
        }
    }

    /// Whether a workspace is written here, for all that is known.
    pub(super) fn leads(&self, workspace: &str) -> bool {
        let is_led = |at: &At| matches!(&at.role, Some(Role::Leads(carrier)) if !carrier.is_over());
        self.at(workspace).is_some_and(|at| at.try_read().is_ok_and(|at| is_led(&at)))
    }
}

pub(super) fn peer(node: String, url: String) -> Peer {
    Peer { node, url: Some(url).filter(|url| !url.is_empty()) }
}

impl Whereabouts for Seats {
    fn of(&self, workspace: &str) -> Where {
        if workspace == CONTROL {
            return self.of_control();
        }
        // What another node writes may not open here, however often that is tried.
        let elsewhere = |or| {
            let writer = self.failing.writer(workspace, self.driver.ticks.now());
            writer.map_or(or, |writer| Where::Elsewhere { writer: Some(writer) })
        };
        let unknown = Where::Follows { age: None, writer: None };
        // Whoever asks for it opens it, and finds out.
        let Some(at) = self.at(workspace) else { return elsewhere(Where::Here) };
        // Nobody waits for a change that takes its time. Those who ask do not keep one another from knowing.
        let Ok(at) = at.try_read() else { return elsewhere(unknown) };
        match &at.role {
            Some(Role::Leads(carrier)) if !carrier.is_over() => match self.lapsed_for(carrier) {
                None => Where::Here,
                age => Where::Follows { age, writer: None },
            },
            Some(Role::Follows(following)) => {
                following.touch();
                let age = following.age();
                let is_there = !at.seat.may_be_gone(&age);
                let writer = is_there.then(|| peer(age.at.node.to_string(), age.at.url));
                Where::Follows { age: age.stale, writer }
            }
            Some(Role::Leads(_)) => unknown,
            None => elsewhere(unknown),
        }
    }

    fn take(&self, workspace: &str) -> Taken {
        let waiters = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _counted = Waiter(&self.waiting);
        let give_up = Instant::now() + OPEN_WAIT_MAX;
        loop {
            // A lease that is over keeps nobody from trying: what is written then is fenced by its number.
            if self.leads(workspace) {
                return Taken::Here;
            }
            match self.of(workspace) {
                Where::Here => return Taken::Here,
                Where::Follows { writer: Some(peer), .. }
                | Where::Elsewhere { writer: Some(peer) } => return Taken::By(peer),
                _ => {}
            }
            if waiters >= TAKERS_MAX || Instant::now() >= give_up {
                let why =
                    "Nobody writes this workspace now; a node is about to take it over: try again";
                return Taken::NotNow(why.to_owned());
            }
            self.driver.halt.wait(TAKE_PAUSE);
        }
    }

    fn stale_max(&self) -> Duration {
        self.settings.stale_max
    }

    fn wrong_node(&self) -> Option<WrongNode> {
        (!self.settings.is_replica).then_some(self.settings.wrong_node)
    }
}
