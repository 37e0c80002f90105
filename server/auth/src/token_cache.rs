//! Access tokens whose signature was good, so that the next call with one costs a look-up.
//!
//! Holds what stays true of a token: what its signature covers. Issuer, audience and times are looked at again
//! on every call, and whether its key is still trusted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::token::{self, Claims, Signed, TokenRefusal};
use super::token_keys::TokenKeys;

/// Parts of the cache, each with a lock of its own, so that workers hardly ever wait for one another.
const SHARDS: usize = 64;
/// Tokens of a part. It is looked through for the one that was used longest ago when it is full.
const SHARD_TOKENS_MAX: usize = 256;
/// Tokens that are remembered: one for each of ten thousand credentials in use, and some. With the claims of each
/// (some 600 bytes) 12 MiB.
pub const TOKENS_REMEMBERED_MAX: usize = SHARDS * SHARD_TOKENS_MAX;

type Hash = [u8; 32];

/// The tokens that were good.
pub struct TokenCache {
    shards: Vec<Mutex<Shard>>,
}

#[derive(Default)]
struct Shard {
    tokens: HashMap<Hash, Remembered>,
    /// Counts uses, so that the least recent one is known.
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
    /// The same as [`token::check`], sooner where the token was seen before.
    ///
    /// # Errors
    /// The first rule that it breaks.
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

    /// How many tokens are remembered.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| locked(shard).tokens.len()).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A shard is whole between two of its calls, so that a panic elsewhere does not spoil it.
fn locked(shard: &Mutex<Shard>) -> std::sync::MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// The claims of a token whose key is still trusted.
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
