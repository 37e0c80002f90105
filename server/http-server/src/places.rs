//! Admission control: limits on connections and on buffered memory, of the server, of each listener and of each peer.
//!
//! Must not know sockets. A permit is released when dropped, on any loop.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::config::{Limits, ListenerId, Places};
use super::counters::{Counters, Gauge};
use super::mailbox::locked;
use crate::limits::WAITING_BYTES_PROMPT_MAX;
use recalld_common::site::site;

/// Reason why a connection was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All connections of the server are in use or reserved for another listener.
    All,
    /// The peer has reached its limit.
    Peer,
}

/// Usage and limits of the server.
pub(super) struct Room {
    counters: Arc<Counters>,
    connections_max: usize,
    waiting_bytes_max: usize,
    /// An entry per configured listener, and a last entry for all others.
    shares: Vec<Share>,
}

struct Share {
    id: Option<ListenerId>,
    places: Places,
    taken: AtomicUsize,
    /// Buffered bytes of the listener's connections and their streams.
    waiting: Gauge,
    /// An entry per peer with at least one connection.
    peers: Mutex<HashMap<IpAddr, Arc<Peer>>>,
}

/// Usage of a peer at a listener.
struct Peer {
    address: IpAddr,
    /// Connections; modified only under the lock of the listener's `peers`.
    places: AtomicUsize,
    /// Buffered bytes of this peer.
    waiting: Gauge,
}

/// Account of the buffered bytes of a peer at a listener. Clones share the account.
#[derive(Clone)]
pub(super) struct Account {
    room: Arc<Room>,
    share: usize,
    peer: Arc<Peer>,
}

/// Permit for one connection.
pub(super) struct Place(Account);

impl Room {
    /// Creates the admission control, with no connection in use.
    pub(super) fn new(
        counters: Arc<Counters>,
        limits: &Limits,
        shares: &[(ListenerId, Places)],
    ) -> Room {
        let told = shares.iter().map(|(id, places)| (Some(*id), *places));
        let shares = told.chain([(None, Places::default())]).map(|(id, places)| Share {
            id,
            places,
            taken: AtomicUsize::new(0),
            waiting: Gauge::default(),
            peers: Mutex::default(),
        });
        Room {
            counters,
            connections_max: limits.connections_max,
            waiting_bytes_max: limits.waiting_bytes_max,
            shares: shares.collect(),
        }
    }

    /// Acquires a permit for a peer at a listener. Only the accepting loop acquires; other loops only release.
    pub(super) fn take(self: &Arc<Room>, id: ListenerId, peer: IpAddr) -> Result<Place, Full> {
        let share = self.shares.iter().position(|share| share.id == Some(id));
        let share = share.unwrap_or(self.shares.len() - 1);
        let at = &self.shares[share];
        at.taken.fetch_add(1, Ordering::Relaxed);
        self.counters.open.raise();
        let (peer, has) = at.enter(site(peer));
        // From here on, every return path releases the permit.
        let place = Place(Account { room: Arc::clone(self), share, peer });
        if has > at.places.per_peer_max {
            return Err(Full::Peer);
        }
        if self.claimed() > self.connections_max {
            return Err(Full::All);
        }
        Ok(place)
    }

    /// Connections in use, or reserved for a listener and unused.
    fn claimed(&self) -> usize {
        let claimed =
            |share: &Share| share.taken.load(Ordering::Relaxed).max(share.places.reserved);
        self.shares.iter().map(claimed).sum()
    }

    /// Buffered bytes in use, or reserved for a listener and unused.
    fn claimed_bytes(&self) -> u64 {
        let claimed =
            |share: &Share| share.waiting.get().max(share.places.waiting_bytes_reserved as u64);
        self.shares.iter().map(claimed).sum()
    }
}

impl Share {
    /// Adds one connection to a peer and returns the peer with its new count.
    fn enter(&self, address: IpAddr) -> (Arc<Peer>, usize) {
        let mut peers = locked(&self.peers);
        let fresh = || Peer { address, places: AtomicUsize::new(0), waiting: Gauge::default() };
        let peer = peers.entry(address).or_insert_with(|| Arc::new(fresh()));
        let has = peer.places.fetch_add(1, Ordering::Relaxed) + 1;
        (Arc::clone(peer), has)
    }

    fn leave(&self, peer: &Peer) {
        let mut peers = locked(&self.peers);
        if peer.places.fetch_sub(1, Ordering::Relaxed) == 1 {
            peers.remove(&peer.address);
        }
    }
}

impl Account {
    /// Updates the buffered bytes of a connection or stream from `before` to `now`.
    pub(super) fn count_waiting(&self, before: usize, now: usize) {
        let Room { counters, shares, .. } = &*self.room;
        for gauge in [&counters.waiting_bytes, &shares[self.share].waiting, &self.peer.waiting] {
            gauge.shift(before, now);
        }
    }

    /// Returns true if this peer, or all peers together, have used their memory limit, so that only small additions are
    /// accepted. The reserved share of the listener stays available.
    pub(super) fn is_brimful(&self) -> bool {
        self.holds_all_it_may(0)
    }

    /// Returns true if even a reader who has received all earlier bytes is over the memory limit, with
    /// `WAITING_BYTES_PROMPT_MAX` added.
    pub(super) fn is_brimful_to_the_prompt(&self) -> bool {
        self.holds_all_it_may(WAITING_BYTES_PROMPT_MAX)
    }

    fn holds_all_it_may(&self, beyond: usize) -> bool {
        let Room { shares, waiting_bytes_max, .. } = &*self.room;
        let Share { places, waiting, .. } = &shares[self.share];
        if self.peer.waiting.get() >= places.waiting_bytes_per_peer_max as u64 {
            return true;
        }
        waiting.get() >= places.waiting_bytes_reserved as u64
            && self.room.claimed_bytes() >= (*waiting_bytes_max + beyond) as u64
    }
}

impl Place {
    /// The memory account of the connection's peer.
    pub(super) fn account(&self) -> &Account {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Account { room, share, peer } = &self.0;
        let share = &room.shares[*share];
        share.leave(peer);
        share.taken.fetch_sub(1, Ordering::Relaxed);
        room.counters.open.lower();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: ListenerId = ListenerId(0);
    const HOSTED: ListenerId = ListenerId(1);
    const OTHER: ListenerId = ListenerId(2);

    fn room() -> (Arc<Room>, Arc<Counters>) {
        let counters: Arc<Counters> = Arc::default();
        let shares = [
            (LOCAL, Places { reserved: 2, per_peer_max: 100, ..Places::default() }),
            (HOSTED, Places { reserved: 0, per_peer_max: 3, ..Places::default() }),
        ];
        let limits = Limits { connections_max: 6, ..Limits::default() };
        (Arc::new(Room::new(Arc::clone(&counters), &limits, &shares)), counters)
    }

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    fn refused(taken: Result<Place, Full>) -> Option<Full> {
        taken.err()
    }

    #[test]
    fn what_is_reserved_is_left_when_all_others_are_taken() {
        let (room, counters) = room();
        let hosted: Vec<_> = (0..4).map(|at| room.take(HOSTED, peer(at))).collect();
        assert!(hosted.iter().all(Result::is_ok));
        assert_eq!(refused(room.take(HOSTED, peer(9))), Some(Full::All));
        assert_eq!(refused(room.take(OTHER, peer(9))), Some(Full::All));
        let local: Vec<_> = (0..2).map(|_| room.take(LOCAL, peer(1))).collect();
        assert!(local.iter().all(Result::is_ok));
        assert_eq!(refused(room.take(LOCAL, peer(1))), Some(Full::All));
        assert_eq!(counters.open.get(), 6, "a refused one gives back what it counted");
        drop(hosted);
        // Above its reserved connections, the listener uses free ones.
        let more: Vec<_> = (0..4).map(|_| room.take(LOCAL, peer(1))).collect();
        assert!(more.iter().all(Result::is_ok));
        drop((local, more));
        assert_eq!((counters.open.get(), room.claimed()), (0, 2));
        assert!(room.shares.iter().all(|share| locked(&share.peers).is_empty()));
    }

    #[test]
    fn one_peer_has_so_many_and_no_more() {
        let (room, _) = room();
        let mut held: Vec<_> = (0..3).map(|_| room.take(HOSTED, peer(1))).collect();
        assert_eq!(refused(room.take(HOSTED, peer(1))), Some(Full::Peer));
        held.push(room.take(HOSTED, peer(2)));
        drop(held.remove(0));
        held.push(room.take(HOSTED, peer(1)));
        assert!(held.iter().all(Result::is_ok));
    }

    #[test]
    fn addresses_of_one_site_are_one_peer() {
        let same =
            |one: &str, other: &str| site(one.parse().unwrap()) == site(other.parse().unwrap());
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("192.0.2.1", "192.0.2.2"));
    }

    fn account(room: &Arc<Room>, listener: ListenerId, number: u8) -> Place {
        room.take(listener, peer(number)).expect("there are places for all")
    }

    /// Admission control with 100 buffered bytes, 30 of them reserved for one listener, and a limit of 40 per peer of
    /// the other.
    fn narrow() -> (Arc<Room>, Arc<Counters>) {
        let counters: Arc<Counters> = Arc::default();
        let shares = [
            (LOCAL, Places { waiting_bytes_reserved: 30, ..Places::default() }),
            (HOSTED, Places { waiting_bytes_per_peer_max: 40, ..Places::default() }),
        ];
        let limits = Limits { waiting_bytes_max: 100, ..Limits::default() };
        (Arc::new(Room::new(Arc::clone(&counters), &limits, &shares)), counters)
    }

    #[test]
    fn one_peer_does_not_make_it_brimful_for_the_others() {
        let (room, counters) = narrow();
        let [first, again, other] = [1, 1, 2].map(|number| account(&room, HOSTED, number));
        first.account().count_waiting(0, 40);
        assert!(first.account().is_brimful() && again.account().is_brimful(), "of one peer");
        assert!(!other.account().is_brimful());
        first.account().count_waiting(40, 39);
        assert!(!again.account().is_brimful());
        // With 70 of the 100 bytes in use, all unreserved memory is used.
        other.account().count_waiting(0, 31);
        let (third, local) = (account(&room, HOSTED, 3), account(&room, LOCAL, 1));
        assert!(third.account().is_brimful() && !third.account().is_brimful_to_the_prompt());
        assert!(!local.account().is_brimful());
        assert!(account(&room, OTHER, 1).account().is_brimful());
        local.account().count_waiting(0, 30);
        assert!(local.account().is_brimful());
        assert_eq!(counters.waiting_bytes.get(), 100);
        other.account().count_waiting(31, 0);
        assert!(!local.account().is_brimful() && !third.account().is_brimful());
    }
}
