//! Cache of access tokens with a verified signature: the next call with a token costs a single lookup.
//!
//! Caches only the signed content. Issuer, audience, times and the trust in the key are checked on each call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::token::{self, Claims, Signed, TokenRefusal};
use super::token_keys::TokenKeys;

/// Number of shards, each with its own lock, to limit contention between workers.
const SHARDS: usize = 64;
/// Maximum number of tokens per shard. A full shard is scanned for the least recently used token.
const SHARD_TOKENS_MAX: usize = 256;
/// Maximum number of cached tokens: one per credential for ten thousand in use, and spare. About 600 bytes of claims
/// each, 12 MiB in total.
pub const TOKENS_REMEMBERED_MAX: usize = SHARDS * SHARD_TOKENS_MAX;

type Hash = [u8; 32];

/// Sharded LRU cache of verified tokens.
pub struct TokenCache {
    shards: Vec<Mutex<Shard>>,
}

#[derive(Default)]
struct Shard {
    tokens: HashMap<Hash, Remembered>,
    /// Use counter for LRU eviction.
    uses: u64,
}

struct Remembered {
    key_id: String,
    claims: Arc<Claims>,
    used: u64,
}

impl Default for TokenCache {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl TokenCache {
    /// Like [`token::check`], faster for a cached token.
    ///
    /// # Errors
    /// The first rule that the token violates.
    pub fn check(
        &self,
        text: &str,
        keys: &TokenKeys,
        issuer: &str,
        audience: &str,
        now: u64,
    ) -> Result<Arc<Claims>, TokenRefusal> {
        if text.len() > token::TOKEN_BYTES_MAX {
            return Err(TokenRefusal::TooLong(text.len()));
        }
        let hash: Hash = Sha256::digest(text).into();
        let shard = &self.shards[usize::from(hash[0]) % SHARDS];
        let remembered = locked(shard).find(&hash, keys);
        if let Some(claims) = remembered {
            let held = claims.hold(issuer, audience, now);
            if held == Err(TokenRefusal::Expired) {
                locked(shard).tokens.remove(&hash);
            }
            return held.map(|()| claims);
        }
        let Signed { key_id, claims } = token::open(text, keys)?;
        claims.hold(issuer, audience, now)?;
        let claims = Arc::new(claims);
        locked(shard).remember(hash, key_id, Arc::clone(&claims));
        Ok(claims)
    }

    /// Number of cached tokens.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).tokens.len()).sum()
    }

    /// Returns true if no token is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Ignores lock poisoning: a shard is consistent between two calls.
fn locked(shard: &Mutex<Shard>) -> std::sync::MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// The claims of a cached token, if its key is still trusted; evicts the token otherwise.
    fn find(&mut self, hash: &Hash, keys: &TokenKeys) -> Option<Arc<Claims>> {
        self.uses += 1;
        let found = self.tokens.get_mut(hash)?;
        if !keys.knows(&found.key_id) {
            self.tokens.remove(hash);
            return None;
        }
        found.used = self.uses;
        Some(Arc::clone(&found.claims))
    }

    fn remember(&mut self, hash: Hash, key_id: String, claims: Arc<Claims>) {
        if self.tokens.len() >= SHARD_TOKENS_MAX && !self.tokens.contains_key(&hash) {
            let oldest =
                self.tokens.iter().min_by_key(|(_, token)| token.used).map(|(hash, _)| *hash);
            oldest.map(|hash| self.tokens.remove(&hash));
        }
        self.tokens.insert(hash, Remembered { key_id, claims, used: self.uses });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{TOKEN_SECONDS_MAX, mint};
    use crate::token_keys::TokenKey;

    const ISSUER: &str = "https://recall.example";
    const AUDIENCE: &str = "https://recall.example/mcp";
    const NOW: u64 = 1_790_000_000;

    fn claims(id: &str) -> Claims {
        Claims {
            audience: AUDIENCE.into(),
            client: "client".into(),
            expires_at: NOW + 600,
            issued_at: NOW,
            issuer: ISSUER.into(),
            id: id.into(),
            scope: "tenant:read".into(),
            hangs_on: "grant".into(),
            subject: "user:a".into(),
            workspace: "acme".into(),
        }
    }

    fn key() -> (TokenKey, TokenKeys) {
        let key = TokenKey::from_seed(&[7; 32]);
        let keys = TokenKeys::new(&[key.public()]).unwrap();
        (key, keys)
    }

    #[test]
    fn a_remembered_token_is_still_held_to_issuer_audience_and_times() {
        let (key, keys) = key();
        let cache = TokenCache::default();
        let token = mint(&key, &claims("a"));
        let check = |issuer, audience, now| cache.check(&token, &keys, issuer, audience, now);
        let first = check(ISSUER, AUDIENCE, NOW).unwrap();
        let again = check(ISSUER, AUDIENCE, NOW + 599).unwrap();
        assert!(Arc::ptr_eq(&first, &again), "the second was not remembered");
        assert_eq!(check("https://b.example", AUDIENCE, NOW), Err(TokenRefusal::OtherIssuer));
        assert_eq!(check(ISSUER, ISSUER, NOW), Err(TokenRefusal::OtherAudience));
        assert_eq!(check(ISSUER, AUDIENCE, NOW - 31), Err(TokenRefusal::NotYet));
        assert_eq!(cache.len(), 1);
        assert_eq!(check(ISSUER, AUDIENCE, NOW + 600), Err(TokenRefusal::Expired));
        assert!(cache.is_empty(), "an expired token is not kept");
    }

    #[test]
    fn a_token_is_forgotten_with_its_key() {
        let (key, keys) = key();
        let cache = TokenCache::default();
        let token = mint(&key, &claims("a"));
        cache.check(&token, &keys, ISSUER, AUDIENCE, NOW).unwrap();
        let others = TokenKeys::new(&[TokenKey::from_seed(&[8; 32]).public()]).unwrap();
        let refused = cache.check(&token, &others, ISSUER, AUDIENCE, NOW);
        assert_eq!(refused, Err(TokenRefusal::UnknownKey));
        assert!(cache.is_empty());
    }

    #[test]
    fn what_is_refused_is_not_remembered() {
        let (key, keys) = key();
        let cache = TokenCache::default();
        let good = mint(&key, &claims("a"));
        let expired = mint(&key, &Claims { expires_at: NOW, issued_at: NOW - 9, ..claims("b") });
        let long = mint(&key, &Claims { expires_at: NOW + TOKEN_SECONDS_MAX + 1, ..claims("c") });
        let other = mint(&TokenKey::from_seed(&[8; 32]), &claims("d"));
        for bad in [&good[1..], "", "a.b.c", &expired, &long, &other, &"x".repeat(9000)] {
            assert!(cache.check(bad, &keys, ISSUER, AUDIENCE, NOW).is_err(), "{bad}");
        }
        assert!(cache.is_empty());
    }

    #[test]
    fn the_token_that_was_used_longest_ago_goes_first() {
        let (_, keys) = key();
        let mut shard = Shard::default();
        let hash = |number: usize| -> Hash { Sha256::digest(number.to_le_bytes()).into() };
        let (key, _) = self::key();
        let add = |shard: &mut Shard, number| {
            shard.find(&hash(number), &keys);
            shard.remember(hash(number), key.id().into(), Arc::new(claims("a")));
        };
        (0..SHARD_TOKENS_MAX).for_each(|number| add(&mut shard, number));
        assert!(shard.find(&hash(0), &keys).is_some());
        add(&mut shard, SHARD_TOKENS_MAX);
        assert_eq!(shard.tokens.len(), SHARD_TOKENS_MAX);
        assert!(shard.find(&hash(0), &keys).is_some(), "used just now");
        assert!(shard.find(&hash(1), &keys).is_none(), "used longest ago");
    }
}
