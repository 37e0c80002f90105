//! How often: a bucket of tokens for each key, and what whoever guesses at credentials has left.
//!
//! Owns arithmetic and what is remembered of whom. Must not know what a key stands for, nor the time: each call
//! says when it is.
//!
//! A bucket is one number: when it will be full again if nobody takes from it (GOV-01). So nothing has to be
//! filled, a bucket that is full is one that need not be remembered, and a change of the rate takes effect with
//! the next call.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use recalld_common::site::site;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Buckets that are remembered by one [`Buckets`], all shards together: six times the credentials that are used
    /// at once where 10,000 are, in at most some 4 MB.
    pub const BUCKETS_MAX: usize = SHARDS * SHARD_BUCKETS_MAX;

    /// Parts with a lock of their own, so that callers on all cores seldom meet.
    const SHARDS: usize = 64;

    /// Buckets of one shard. So many are looked through, in a microsecond or two, where a new one finds no room.
    const SHARD_BUCKETS_MAX: usize = 1_024;

    /// Tokens that a bucket may hold, and calls of a rate's period: more is as good as no rate.
    pub const RATE_CALLS_MAX: u32 = 1_000_000;

    /// Failures of one address (of IPv6, of one /64) that are let through at once.
    const GUESSES_ADDRESS_MAX: u32 = 10;

    /// How long an address waits for one more.
    const GUESSES_ADDRESS_EVERY: Duration = Duration::from_secs(6);

    /// Failures that name one workspace, from wherever they come, that are let through at once.
    const GUESSES_WORKSPACE_MAX: u32 = 60;

    /// How long it takes until there may be one more of them.
    const GUESSES_WORKSPACE_EVERY: Duration = Duration::from_secs(1);
}

/// Bytes of a prefix that a network of IPv6 has.
const NETWORK_BYTES: usize = 6;

/// Whose bucket it is: something of a fixed size that tells callers apart. Need not be a secret, nor random.
pub type Key = [u8; 16];

/// The key of a name of any length, such as a credential's id: the first half of its SHA-256. Worked out once
/// where that can be kept: it takes more time than all else here.
pub fn key_of(name: &[u8]) -> Key {
    let mut key = Key::default();
    key.copy_from_slice(&Sha256::digest(name)[..size_of::<Key>()]);
    key
}

/// The key of what peers of one site do together: of an address, or of the prefix of one of IPv6.
pub fn key_of_site(what: &str, peer: IpAddr) -> Key {
    key_of(&[what.as_bytes(), b"\0", &key_of_peer(peer)].concat())
}

/// The key of what all sites of one network of IPv6 do together: of a /48, which is what one customer may have,
/// with 65,536 sites in it (RFC 6177, section 2). Of IPv4 an address is all that one has.
pub fn key_of_network(what: &str, peer: IpAddr) -> Option<Key> {
    let IpAddr::V6(address) = peer.to_canonical() else { return None };
    let network = &address.octets()[..NETWORK_BYTES];
    Some(key_of(&[what.as_bytes(), b"\0network\0", network].concat()))
}

/// How many calls: so many at once, and one more each so many nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    every_nanos: u64,
    burst: u32,
}

impl Rate {
    /// `calls` in each `period`, and at most `burst` at once. Where the time between two calls is no whole number of
    /// nanoseconds it is rounded up, so that there are never more. `None` where either number is zero or above
    /// [`RATE_CALLS_MAX`], or the period is empty or above a year.
    pub fn new(calls: u32, period: Duration, burst: u32) -> Option<Self> {
        const YEAR: Duration = Duration::from_secs(366 * 24 * 60 * 60);
        let is_sound = (1..=RATE_CALLS_MAX).contains(&calls)
            && (1..=RATE_CALLS_MAX).contains(&burst)
            && !period.is_zero()
            && period <= YEAR;
        // A year has some 2^55 nanoseconds.
        let nanos = u64::try_from(period.as_nanos()).ok().filter(|_| is_sound)?;
        Some(Self { every_nanos: nanos.div_ceil(u64::from(calls)), burst })
    }

    /// How many calls a second, rounded.
    pub fn calls_per_second(self) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        (SECOND + self.every_nanos / 2) / self.every_nanos
    }

    /// How many at once.
    pub fn burst(self) -> u32 {
        self.burst
    }

    /// How many tokens a bucket has that is full at `full_at`.
    fn left(self, full_at: u64, now: u64) -> u32 {
        let missing = full_at.saturating_sub(now).div_ceil(self.every_nanos);
        self.burst.saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    /// When a bucket that is full at `full_at`, `now` or later, will be full once a token is taken out of it.
    fn taken(self, full_at: u64, now: u64) -> Result<u64, RetryAfter> {
        let empty = self.every_nanos.saturating_mul(u64::from(self.burst));
        let after = full_at.saturating_add(self.every_nanos);
        match after.saturating_sub(now).saturating_sub(empty) {
            0 => Ok(after),
            over => Err(RetryAfter::nanos(over)),
        }
    }
}

/// The bucket is empty; holds how long to wait for a token, in whole seconds, rounded up and so at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryAfter {
    /// The seconds, as `Retry-After` says them (RFC 9110, section 10.2.3).
    pub seconds: u32,
}

impl RetryAfter {
    fn nanos(nanos: u64) -> Self {
        const SECOND: u64 = 1_000_000_000;
        let seconds = u32::try_from(nanos.div_ceil(SECOND)).unwrap_or(u32::MAX);
        Self { seconds: seconds.max(1) }
    }
}

/// When each bucket will be full again, in nanoseconds from the beginning. Of what is not in it, the bucket is full.
type Shard = HashMap<Key, u64>;

/// Buckets by key, at most [`BUCKETS_MAX`]. Where there is no room for a new one, those that are full are forgotten,
/// which changes nothing; where none is, the one that would be full soonest, be it the new one: so whoever
/// has nothing left is forgotten last, however many others come (GOV-03).
#[derive(Debug)]
pub struct Buckets {
    began: Instant,
    /// Chooses the shard by a key of its own, so that nobody can fill a chosen one.
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
}

impl Buckets {
    /// All are full. No later call may be told of a time before `now`; one that is counts as `now`.
    pub fn new(now: Instant) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { began: now, hasher: RandomState::new(), shards }
    }

    /// Takes a token. Allocates nothing where the key is known.
    ///
    /// # Errors
    /// There is none; nothing was taken.
    pub fn take(&self, key: &Key, rate: Rate, now: Instant) -> Result<(), RetryAfter> {
        let now = self.nanos(now);
        self.change(key, now, |full_at| match rate.taken(full_at, now) {
            Ok(after) => (after, Ok(())),
            Err(wait) => (full_at, Err(wait)),
        })
    }

    /// Whether there is a token; takes none.
    ///
    /// # Errors
    /// There is none.
    pub fn check(&self, key: &Key, rate: Rate, now: Instant) -> Result<(), RetryAfter> {
        let now = self.nanos(now);
        self.change(key, now, |full_at| (full_at, rate.taken(full_at, now).map(|_| ())))
    }

    /// How many tokens there are; takes none.
    pub fn available(&self, key: &Key, rate: Rate, now: Instant) -> u32 {
        let now = self.nanos(now);
        self.change(key, now, |full_at| (full_at, rate.left(full_at, now)))
    }

    /// Takes a token whether there is one or not: what was checked by many at once, and then taken by all of them,
    /// is waited for all the longer, but never for longer than another burst takes.
    pub fn owe(&self, key: &Key, rate: Rate, now: Instant) {
        let now = self.nanos(now);
        let burst = rate.every_nanos.saturating_mul(u64::from(rate.burst));
        let latest = now.saturating_add(burst.saturating_mul(2));
        let owed = |full_at: u64| full_at.saturating_add(rate.every_nanos).min(latest);
        self.change(key, now, |full_at| (owed(full_at), ()));
    }

    /// How many buckets are remembered.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).len()).sum()
    }

    fn nanos(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.began).as_nanos();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// Gives `work` the moment when the bucket is full, not before `now`, and keeps the one that it gives.
    fn change<T>(&self, key: &Key, now: u64, work: impl FnOnce(u64) -> (u64, T)) -> T {
        let hash = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or_default();
        let mut shard = locked(&self.shards[hash]);
        if let Some(full_at) = shard.get_mut(key) {
            let (after, answer) = work((*full_at).max(now));
            *full_at = after;
            return answer;
        }
        let (after, answer) = work(now);
        if after > now && make_room(&mut shard, now, after) {
            shard.insert(*key, after);
        }
        answer
    }
}

/// Makes room for a bucket that is full at `full_at`; whether it is to be remembered.
fn make_room(shard: &mut Shard, now: u64, full_at: u64) -> bool {
    if shard.len() < SHARD_BUCKETS_MAX {
        return true;
    }
    shard.retain(|_, other| *other > now);
    if shard.len() < SHARD_BUCKETS_MAX {
        return true;
    }
    let soonest = shard.iter().min_by_key(|(_, other)| **other).map(|(key, other)| (*key, *other));
    match soonest {
        Some((key, other)) if other <= full_at => shard.remove(&key).is_some(),
        _ => false,
    }
}

/// A shard is whole after each step, so that one that panicked spoils nothing.
fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is left of the guesses at credentials that an address may make, and of those that may name a
/// workspace (GOV-04). Only failures count: who has the right credential is never slowed by itself.
#[derive(Debug)]
pub struct Guesses {
    addresses: Buckets,
    workspaces: Buckets,
    of_address: Rate,
    of_workspace: Rate,
}

impl Guesses {
    /// Nobody has failed yet.
    pub fn new(now: Instant) -> Self {
        let rate = |every, burst| Rate::new(1, every, burst).expect("the constants make a rate");
        Self {
            addresses: Buckets::new(now),
            workspaces: Buckets::new(now),
            of_address: rate(GUESSES_ADDRESS_EVERY, GUESSES_ADDRESS_MAX),
            of_workspace: rate(GUESSES_WORKSPACE_EVERY, GUESSES_WORKSPACE_MAX),
        }
    }

    /// Whether this peer has a guess left: to be asked once its credential was found wrong, since a right one is never
    /// refused (GOV-04). `workspace` is the name that stands beside it, whether there is such a workspace or not.
    ///
    /// # Errors
    /// The peer, or all who named the workspace, failed too often: how long to wait, the longer of both.
    pub fn check(
        &self,
        peer: IpAddr,
        workspace: Option<&str>,
        now: Instant,
    ) -> Result<(), RetryAfter> {
        let own = self.addresses.check(&key_of_peer(peer), self.of_address, now);
        let named = workspace.map_or(Ok(()), |name| {
            self.workspaces.check(&key_of(name.as_bytes()), self.of_workspace, now)
        });
        let waits = [own.err(), named.err()].into_iter().flatten();
        waits.max_by_key(|wait| wait.seconds).map_or(Ok(()), Err)
    }

    /// It was wrong.
    pub fn failed(&self, peer: IpAddr, workspace: Option<&str>, now: Instant) {
        self.addresses.owe(&key_of_peer(peer), self.of_address, now);
        if let Some(name) = workspace {
            self.workspaces.owe(&key_of(name.as_bytes()), self.of_workspace, now);
        }
    }
}

/// The key of a peer: its address, or the prefix of one of IPv6.
fn key_of_peer(peer: IpAddr) -> Key {
    match site(peer) {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(prefix) => prefix.octets(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLIS: Duration = Duration::from_millis(1);

    fn team() -> Rate {
        Rate::new(20, Duration::from_secs(1), 60).unwrap()
    }

    fn key(number: u32) -> Key {
        key_of(&number.to_le_bytes())
    }

    #[test]
    fn a_burst_is_let_through_and_then_one_each_interval() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let take = |at: Duration| buckets.take(&key(1), team(), now + at);
        for _ in 0..60 {
            assert_eq!(take(Duration::ZERO), Ok(()));
        }
        assert_eq!(take(Duration::ZERO), Err(RetryAfter { seconds: 1 }));
        assert_eq!(take(49 * MILLIS), Err(RetryAfter { seconds: 1 }));
        assert_eq!(take(50 * MILLIS), Ok(()), "what was refused took nothing");
        assert!(take(50 * MILLIS).is_err());
        // An hour later no more than a burst is there.
        let later = Duration::from_secs(3600);
        assert_eq!((0..100).filter(|_| take(later).is_ok()).count(), 60);
        // Another key has a bucket of its own.
        assert_eq!(buckets.take(&key(2), team(), now), Ok(()));
    }

    #[test]
    fn what_is_available_is_what_may_be_taken() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        for taken in 0..=60 {
            assert_eq!(buckets.available(&key(1), team(), now), 60 - taken);
            assert_eq!(buckets.take(&key(1), team(), now).is_ok(), taken < 60);
        }
        for (after, left) in [(49, 0), (50, 1), (99, 1), (100, 2), (3_600_000, 60)] {
            assert_eq!(buckets.available(&key(1), team(), now + after * MILLIS), left, "{after}");
        }
    }

    #[test]
    fn the_wait_is_whole_seconds_rounded_up_and_long_enough() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let slow = Rate::new(1, Duration::from_millis(6_500), 2).unwrap();
        let take = |at: Duration| buckets.take(&key(1), slow, now + at);
        assert!(take(Duration::ZERO).is_ok() && take(Duration::ZERO).is_ok());
        assert_eq!(take(Duration::ZERO), Err(RetryAfter { seconds: 7 }));
        assert_eq!(take(500 * MILLIS), Err(RetryAfter { seconds: 6 }));
        assert_eq!(take(6_499 * MILLIS), Err(RetryAfter { seconds: 1 }));
        assert_eq!(take(7_000 * MILLIS), Ok(()));
    }

    #[test]
    fn a_network_is_a_48_of_ipv6_and_none_of_ipv4() {
        let of = |address: &str| key_of_network("x", address.parse().unwrap());
        assert!(of("2001:db8:1::1").is_some());
        assert_eq!(of("2001:db8:1::1"), of("2001:db8:1:ffff::2"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_ne!(of("2001:db8:1::1"), key_of_network("y", "2001:db8:1::1".parse().unwrap()));
        assert_eq!((of("192.0.2.1"), of("::ffff:192.0.2.1")), (None, None));
    }

    #[test]
    fn rates_that_mean_nothing_are_none() {
        let second = Duration::from_secs(1);
        for (calls, period, burst) in [
            (0, second, 1),
            (1, second, 0),
            (1, Duration::ZERO, 1),
            (RATE_CALLS_MAX + 1, second, 1),
            (1, second, RATE_CALLS_MAX + 1),
            (1, Duration::from_secs(u64::MAX), 1),
        ] {
            assert_eq!(Rate::new(calls, period, burst), None, "{calls} {period:?} {burst}");
        }
        assert_eq!(Rate::new(3, second, 1).unwrap().every_nanos, 333_333_334);
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_gives_nothing_away() {
        let now = Instant::now() + Duration::from_secs(100);
        let buckets = Buckets::new(now);
        let one = Rate::new(1, Duration::from_secs(10), 1).unwrap();
        assert_eq!(buckets.take(&key(1), one, now + Duration::from_secs(5)), Ok(()));
        let wait = buckets.take(&key(1), one, now - Duration::from_secs(50));
        assert_eq!(wait, Err(RetryAfter { seconds: 15 }));
    }

    /// Keys that fall into one shard.
    fn of_one_shard(buckets: &Buckets, count: usize) -> Vec<Key> {
        let at = |key: &Key| buckets.hasher.hash_one(key) % SHARDS as u64;
        (0..).map(key).filter(|key| at(key) == 0).take(count).collect()
    }

    #[test]
    fn many_keys_push_out_nobody_who_is_at_the_limit() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let keys = of_one_shard(&buckets, 4 * SHARD_BUCKETS_MAX);
        let (newest, keys) = keys.split_last().unwrap();
        let (victims, others) = keys.split_at(10);
        for victim in victims {
            while buckets.take(victim, team(), now).is_ok() {}
        }
        for other in others {
            assert_eq!(buckets.take(other, team(), now), Ok(()));
            assert!(buckets.count() <= SHARD_BUCKETS_MAX);
        }
        assert_eq!(buckets.count(), SHARD_BUCKETS_MAX);
        for victim in victims {
            assert!(buckets.take(victim, team(), now).is_err(), "still at the limit");
        }
        // Once they are full again they make room, and what is looked at only is not remembered.
        let later = now + Duration::from_secs(10);
        assert_eq!(buckets.check(newest, team(), later), Ok(()));
        assert_eq!(buckets.count(), SHARD_BUCKETS_MAX);
        assert_eq!(buckets.take(newest, team(), later), Ok(()));
        assert_eq!(buckets.count(), 1);
    }

    #[test]
    fn one_with_less_to_wait_does_not_replace_those_at_their_limit() {
        let now = Instant::now();
        let buckets = Buckets::new(now);
        let keys = of_one_shard(&buckets, SHARD_BUCKETS_MAX + 1);
        let (newcomer, full) = keys.split_last().unwrap();
        let two = Rate::new(1, Duration::from_secs(10), 2).unwrap();
        for key in full {
            assert!(buckets.take(key, two, now).is_ok() && buckets.take(key, two, now).is_ok());
        }
        assert_eq!(buckets.take(newcomer, two, now), Ok(()));
        assert!(full.iter().all(|key| buckets.check(key, two, now).is_err()));
    }

    #[test]
    fn only_failures_count_and_both_the_address_and_the_workspace_do() {
        let now = Instant::now();
        let guesses = Guesses::new(now);
        let peer = |number: u8| IpAddr::from([192, 0, 2, number]);
        for _ in 0..1_000 {
            assert_eq!(guesses.check(peer(1), Some("acme"), now), Ok(()));
        }
        for _ in 0..GUESSES_ADDRESS_MAX {
            assert_eq!(guesses.check(peer(1), None, now), Ok(()));
            guesses.failed(peer(1), None, now);
        }
        assert_eq!(guesses.check(peer(1), Some("acme"), now), Err(RetryAfter { seconds: 6 }));
        assert_eq!(guesses.check(peer(2), Some("acme"), now), Ok(()));
        // From many addresses: six from each of ten.
        for at in 10..20 {
            for _ in 0..6 {
                assert_eq!(guesses.check(peer(at), Some("acme"), now), Ok(()));
                guesses.failed(peer(at), Some("acme"), now);
            }
        }
        assert_eq!(guesses.check(peer(2), Some("acme"), now), Err(RetryAfter { seconds: 1 }));
        assert_eq!(guesses.check(peer(2), Some("other"), now), Ok(()));
        assert_eq!(guesses.check(peer(2), None, now), Ok(()));
        let later = now + Duration::from_secs(6);
        assert_eq!(guesses.check(peer(1), Some("acme"), later), Ok(()));
    }

    #[test]
    fn guesses_that_raced_each_other_are_paid_for_by_another_burst_at_most() {
        let now = Instant::now();
        let guesses = Guesses::new(now);
        let peer = "2001:db8:1:2::1".parse().unwrap();
        let neighbour = "2001:db8:1:2:ffff::9".parse().unwrap();
        // Fifteen were looked at before the first of them was known to be wrong.
        (0..15).for_each(|_| guesses.failed(peer, None, now));
        assert_eq!(guesses.check(neighbour, None, now), Err(RetryAfter { seconds: 6 * 6 }));
        // Behind one address there are others: no flood makes them wait for longer than another burst takes.
        (0..10_000).for_each(|_| guesses.failed(peer, None, now));
        assert_eq!(guesses.check(neighbour, None, now), Err(RetryAfter { seconds: 11 * 6 }));
        let other = "2001:db8:1:3::1".parse().unwrap();
        assert_eq!(guesses.check(other, None, now), Ok(()));
        let mapped = "::ffff:192.0.2.7".parse().unwrap();
        (0..10).for_each(|_| guesses.failed(mapped, None, now));
        assert!(guesses.check(IpAddr::from([192, 0, 2, 7]), None, now).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// As many tokens as a bucket that is counted with exact fractions gives.
        #[test]
        fn a_bucket_is_exact(
            every in 1u64..5_000, burst in 1u32..20, steps in proptest::collection::vec(0u64..20_000, 1..200),
        ) {
            let began = Instant::now();
            let buckets = Buckets::new(began);
            let rate = Rate { every_nanos: every, burst };
            // What is in the model's bucket, in parts of which `every` make a token.
            let most = u64::from(burst) * every;
            let (mut held, mut at) = (most, 0);
            for step in steps {
                at += step;
                held = (held + step).min(most);
                let is_there = held >= every;
                if is_there {
                    held -= every;
                }
                let taken = buckets.take(&key(1), rate, began + Duration::from_nanos(at));
                prop_assert_eq!(taken.is_ok(), is_there);
            }
        }
    }
}
