//! Where workspaces are, by their places on a remote.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{Seats, Stands};
use crate::cluster::{Peer, Taken, Where, Whereabouts};
use crate::config::remote::{Safe, WrongNode};
use crate::limits::{OPEN_WAIT_MAX, OPEN_WAITERS_MAX};

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
    /// How long ago others may have begun to hold that this node is gone, where the remote makes safe what is written
    /// here.
    fn lapsed_for(&self) -> Option<Duration> {
        let node = self.node.as_ref().filter(|_| self.settings.durability == Safe::Remote)?;
        node.lapsed_for()
    }
}

fn peer(node: String, url: String) -> Peer {
    Peer { node, url: Some(url).filter(|url| !url.is_empty()) }
}

impl Whereabouts for Seats {
    fn of(&self, workspace: &str) -> Where {
        let unknown = Where::Follows { age: None, writer: None };
        match self.stands(workspace) {
            // Whoever asks for it opens it, and finds out.
            None => Where::Here,
            Some(Stands::Changing) => unknown,
            Some(Stands::Leads(standing)) if standing.over.is_some() => unknown,
            Some(Stands::Leads(_)) => match self.lapsed_for() {
                None => Where::Here,
                age => Where::Follows { age, writer: None },
            },
            Some(Stands::Follows { age, writer: (node, url), lives, .. }) => {
                self.touch(workspace);
                Where::Follows { age, writer: lives.then(|| peer(node, url)) }
            }
        }
    }

    fn take(&self, workspace: &str) -> Taken {
        let waiters = self.waiting.fetch_add(1, Ordering::AcqRel);
        let _counted = Waiter(&self.waiting);
        let give_up = Instant::now() + OPEN_WAIT_MAX;
        loop {
            match self.stands(workspace) {
                None => return Taken::Here,
                Some(Stands::Leads(standing)) if standing.over.is_none() => return Taken::Here,
                Some(Stands::Follows { writer: (node, url), lives: true, .. }) => {
                    return Taken::By(peer(node, url));
                }
                Some(_) => {}
            }
            if waiters >= OPEN_WAITERS_MAX || Instant::now() >= give_up {
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
