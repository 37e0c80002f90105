use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use recalld_replication::{Carrier, Node, Role};

use super::table::{At, Seats};
use crate::control_chain::ControlStands;
use crate::limits::{OPEN_WAIT_MAX, TAKERS_MAX};
use crate::whereabouts::{CONTROL, Peer, Taken, Where, Whereabouts};
use recalld_common::cancel::{CallScope, CancellationToken};
use recalld_common::wrong_node::WrongNode;
use recalld_config::remote::Safe;

/// Counts waiting callers.
struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Seats {
    /// Membership, if writes are acknowledged once the remote has them.
    fn safe(&self) -> Option<&Node> {
        self.node.as_deref().filter(|_| self.settings.durability == Safe::Remote)
    }

    /// Time for which another node may have written this shipper's workspace; `None` if none can have. After an expired
    /// lease this node must commit a record first: a new heartbeat alone does not prove that no other node wrote.
    fn lapsed_for(&self, carrier: &Carrier) -> Option<Duration> {
        self.safe()?.lapsed_for(carrier.known())
    }

    /// Starts a confirmation for each led workspace that another node may have acquired meanwhile. A leader that only
    /// serves reads is confirmed, too, so that it does not serve a stale copy for ever. Callers that wait for a leader
    /// check again, as no event announces that a lease was renewed or has expired.
    pub fn confirm_led(&self) {
        self.moves.advance();
        let Some(node) = self.node.as_ref().filter(|node| node.is_held()) else { return };
        let places: Vec<_> =
            self.places.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for place in places {
            // A locked slot is changing its role and will be acquired anew.
            if let Ok(at) = place.try_read()
                && let Some(Role::Leads(carrier)) = &at.role
                && !carrier.is_over()
                && !node.covers(carrier.known())
            {
                carrier.confirm();
            }
        }
    }

    /// Location of the metastore. Without a shared one, each node is the leader of its own.
    fn of_control(&self) -> Where {
        match self.control.get().map(|chain| chain.stands()) {
            None | Some(ControlStands::Leads) => Where::Here,
            Some(ControlStands::Follows { age, writer, .. }) => Where::Follows { age, writer },
        }
    }

    /// Returns true if this node is the leader, as far as it knows.
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
        // A workspace of another node may fail to open here on every try.
        let elsewhere = |or| {
            let writer = self.failing.writer(workspace, self.driver.ticks.now());
            writer.map_or(or, |writer| Where::Elsewhere { writer: Some(writer) })
        };
        let unknown = Where::Follows { age: None, writer: None };
        // A closed workspace is opened by the caller, which then learns its role.
        let Some(at) = self.at(workspace) else { return elsewhere(Where::Here) };
        // A slot locked by a slow role change is not waited for. Readers do not block one another.
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

    fn take(&self, workspace: &str, cancel: &CancellationToken) -> Taken {
        let waiters = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _counted = Waiter(&self.waiting);
        let wait_max = if waiters < TAKERS_MAX { OPEN_WAIT_MAX } else { Duration::ZERO };
        let call = CallScope { token: cancel, deadline: Some(Instant::now() + wait_max) };
        let taken = self.wait_for(&call, || {
            // An expired lease does not prevent a try: the number of the record fences the write.
            if self.leads(workspace) {
                return Some(Taken::Here);
            }
            match self.of(workspace) {
                Where::Here => Some(Taken::Here),
                Where::Follows { writer, .. } | Where::Elsewhere { writer } => {
                    writer.map(Taken::By)
                }
            }
        });
        taken.unwrap_or_else(|| {
            let why =
                "Nobody writes this workspace now; a node is about to take it over: try again";
            Taken::NotNow(why.to_owned())
        })
    }

    fn stale_max(&self) -> Duration {
        self.settings.stale_max
    }

    fn wrong_node(&self) -> Option<WrongNode> {
        (!self.settings.is_replica).then_some(self.settings.wrong_node)
    }
}
