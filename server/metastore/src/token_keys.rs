//! Private keys of access tokens: the signing key, and former keys with unexpired tokens (CTL-70).

use serde::{Deserialize, Serialize};

use super::error::ControlError;
use super::hash::{Seed, hex};
use super::record::Record;
use super::schema::{self, TableEntry};
use super::store::Control;
use super::table::{Change, Look};
use recalld_auth::Signer;

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of published keys.
    pub const KEYS_PUBLISHED_MAX: usize = 16;
}

/// A private key. Times are in seconds since 1970.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TokenKeyRecord {
    /// The seed of the key.
    pub seed: Seed,
    /// Time of the creation.
    pub made_at: u64,
    /// Start of signing. The key is published before, so that clients with a cached key set have the key by then.
    #[serde(default)]
    pub signs_from: u64,
    /// Time at which another key replaces this one; `None` for the last key.
    #[serde(default)]
    pub retired_at: Option<u64>,
    /// Expiry of the last token of this key; the record is useless from then on.
    #[serde(default)]
    pub published_until: Option<u64>,
}

impl Record for TokenKeyRecord {
    const ENTRY: TableEntry = schema::TOKEN_KEYS;

    fn removed_at(&self) -> Option<u64> {
        self.published_until
    }
}

/// Time between publication and first signature in seconds: longer than any client caches the key set (OAU-09).
const PUBLISHED_BEFORE_SECONDS: u64 = 360;
/// Tolerated delay of signers after the retirement of a key, in seconds: signers reload keys once a minute.
const SIGNS_LATE_SECONDS: u64 = 120;

impl TokenKeyRecord {
    fn signs_at(&self, now: u64) -> bool {
        self.signs_from <= now && self.retired_at.is_none_or(|end| now < end)
    }
}

/// All keys with tokens valid at `now` or later: the signing key first, then the newest.
fn published(look: &impl Look, now: u64) -> Result<Vec<(Vec<u8>, TokenKeyRecord)>, ControlError> {
    // Expired keys that are not removed yet are among the records.
    let mut keys = look.list::<TokenKeyRecord>(b"", None, 2 * KEYS_PUBLISHED_MAX)?;
    keys.retain(|(_, key)| key.published_until.is_none_or(|end| now < end));
    keys.sort_by_key(|(_, key)| std::cmp::Reverse((key.signs_at(now), key.made_at)));
    Ok(keys)
}

impl Control {
    /// The keys of access tokens: the signing key first, then the others. Creates the first key.
    ///
    /// # Errors
    /// A store error.
    pub fn token_keys(&self) -> Result<Vec<TokenKeyRecord>, ControlError> {
        let now = self.now();
        let found = self.read(|view| published(view, now))?;
        if found.first().is_some_and(|(_, key)| key.signs_at(now)) {
            return Ok(found.into_iter().map(|(_, key)| key).collect());
        }
        let made = self.write(|change| {
            let found = published(change, now)?;
            if !found.first().is_some_and(|(_, key)| key.signs_at(now)) {
                self.put_key(change, now, now)?;
            }
            published(change, now)
        })?;
        Ok(made.into_iter().map(|(_, key)| key).collect())
    }

    /// Creates a key that signs after `PUBLISHED_BEFORE_SECONDS`. The previous key signs until then, and stays
    /// published for the lifetime of its last token, `token_seconds_max`. Returns all keys, the signing key first.
    ///
    /// # Errors
    /// `Refused` if [`KEYS_PUBLISHED_MAX`] keys are published; otherwise a store error.
    pub fn rotate_token_key(
        &self,
        token_seconds_max: u64,
    ) -> Result<Vec<TokenKeyRecord>, ControlError> {
        let now = self.now();
        let keys = self.write(|change| {
            let known = published(change, now)?;
            // The very first key signs immediately: no client has cached a key set yet.
            let wait = if known.is_empty() { 0 } else { PUBLISHED_BEFORE_SECONDS };
            let signs_from = now.saturating_add(wait);
            if known.len() >= KEYS_PUBLISHED_MAX {
                let why =
                    format!("{KEYS_PUBLISHED_MAX} are published; wait until tokens of one expired");
                return Err(ControlError::refused("token_keys", why));
            }
            self.sweep_in(change)?;
            for (id, mut key) in known.into_iter().filter(|(_, key)| key.retired_at.is_none()) {
                key.retired_at = Some(signs_from);
                let last = signs_from.saturating_add(SIGNS_LATE_SECONDS);
                key.published_until = Some(last.saturating_add(token_seconds_max));
                change.put(&id, &key)?;
            }
            self.put_key(change, now, signs_from)?;
            published(change, now)
        })?;
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }

    fn put_key(
        &self,
        change: &Change<'_>,
        made_at: u64,
        signs_from: u64,
    ) -> Result<(), ControlError> {
        let seed = Seed::new(self.random());
        let id = hex(&Signer::from_seed(seed.expose()).public());
        let (retired_at, published_until) = (None, None);
        let key = TokenKeyRecord { seed, made_at, signs_from, retired_at, published_until };
        change.put(id.as_bytes(), &key)
    }
}
