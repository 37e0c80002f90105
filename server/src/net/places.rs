//! Who gets a place for a connection: all together, each listener, each peer.
//!
//! Knows counts and addresses; must not know sockets. A place is given back when it is dropped, by
//! whichever loop has it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::config::{ListenerId, Places};
use super::counters::Counters;
use super::mailbox::locked;

/// Bits of an IPv6 address that tell sites apart (RFC 4291, section 2.5.4).
const PREFIX_BITS: u32 = 64;

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All are taken, or kept for another listener.
    All,
    /// The peer has as many as it may have.
    Peer,
}

/// All places.
pub(super) struct Room {
    counters: Arc<Counters>,
    connections_max: usize,
    /// One for each listener that was told of, by its id.
    shares: Vec<Share>,
    /// Taken by listeners without a share of their own.
    common: AtomicUsize,
}

struct Share {
    id: ListenerId,
    places: Places,
    taken: AtomicUsize,
    /// How many each peer has; at most one entry for each place that is taken.
    peers: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection's place.
pub(super) struct Place {
    room: Arc<Room>,
    share: Option<usize>,
    peer: IpAddr,
}

impl Room {
    /// No place is taken.
    pub(super) fn new(
        counters: Arc<Counters>,
        connections_max: usize,
        shares: &[(ListenerId, Places)],
    ) -> Room {
        let shares = shares.iter().map(|(id, places)| Share {
            id: *id,
            places: *places,
            taken: AtomicUsize::new(0),
            peers: Mutex::default(),
        });
        Room { counters, connections_max, shares: shares.collect(), common: AtomicUsize::new(0) }
    }

    /// A place for a peer at a listener. Only the loop that accepts asks; the others only give back.
    pub(super) fn take(self: &Arc<Room>, id: ListenerId, peer: IpAddr) -> Result<Place, Full> {
        let share = self.shares.iter().position(|share| share.id == id);
        let peer = site(peer);
        self.of(share).fetch_add(1, Ordering::Relaxed);
        self.counters.open.raise();
        // From here on it is given back however this ends.
        let place = Place { room: Arc::clone(self), share, peer };
        let peer_has = share.map_or(0, |at| self.shares[at].enter(peer));
        if share.is_some_and(|at| peer_has > self.shares[at].places.per_peer_max) {
            return Err(Full::Peer);
        }
        if self.claimed() > self.connections_max {
            return Err(Full::All);
        }
        Ok(place)
    }

    /// Places that are taken, or kept for a listener that has not taken them.
    fn claimed(&self) -> usize {
        let claimed =
            |share: &Share| share.taken.load(Ordering::Relaxed).max(share.places.reserved);
        self.common.load(Ordering::Relaxed) + self.shares.iter().map(claimed).sum::<usize>()
    }

    fn of(&self, share: Option<usize>) -> &AtomicUsize {
        share.map_or(&self.common, |at| &self.shares[at].taken)
    }
}

impl Share {
    /// Counts one more of a peer's, and gives how many that makes.
    fn enter(&self, peer: IpAddr) -> usize {
        let mut peers = locked(&self.peers);
        let has = peers.entry(peer).or_default();
        *has += 1;
        *has
    }

    fn leave(&self, peer: IpAddr) {
        let mut peers = locked(&self.peers);
        if let Some(has) = peers.get_mut(&peer) {
            *has -= 1;
            if *has == 0 {
                peers.remove(&peer);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(at) = self.share {
            self.room.shares[at].leave(self.peer);
        }
        self.room.of(self.share).fetch_sub(1, Ordering::Relaxed);
        self.room.counters.open.lower();
    }
}

/// What counts as one peer: an address, or the prefix of one of IPv6, whose other half is its user's to
/// choose.
fn site(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = address.to_bits() >> PREFIX_BITS << PREFIX_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(prefix))
        }
        v4 => v4,
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
            (LOCAL, Places { reserved: 2, per_peer_max: 100 }),
            (HOSTED, Places { reserved: 0, per_peer_max: 3 }),
        ];
        (Arc::new(Room::new(Arc::clone(&counters), 6, &shares)), counters)
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
        // Beyond what is reserved it takes what is there.
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
}
