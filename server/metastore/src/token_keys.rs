//! The private keys of access tokens: the one that signs, and those whose tokens are still good (CTL-70).

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

    /// Keys on record at a time.
    pub const KEYS_PUBLISHED_MAX: usize = 16;
}

/// A private key. Times are in seconds since 1970.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TokenKeyRecord {
    /// What the key is made of.
    pub seed: Seed,
    /// When it was made.
    pub made_at: u64,
    /// From when on it signs: it is published before, so that whoever keeps the keys for a while has it by then.
    #[serde(default)]
    pub signs_from: u64,
    /// When another one takes its place; `None` for the last one.
    #[serde(default)]
    pub retired_at: Option<u64>,
    /// When the last of its tokens expires, and nobody needs it any more.
    #[serde(default)]
    pub published_until: Option<u64>,
}

impl Record for TokenKeyRecord {
    const ENTRY: TableEntry = schema::TOKEN_KEYS;

    fn removed_at(&self) -> Option<u64> {
        self.published_until
    }
}

/// How long a key is published before it signs, in seconds: longer than anybody keeps what is published (OAU-09).
const PUBLISHED_BEFORE_SECONDS: u64 = 360;
/// How long a key may go on signing after it retired, in seconds: whoever signs looks once a minute.
const SIGNS_LATE_SECONDS: u64 = 120;

impl TokenKeyRecord {
    fn signs_at(&self, now: u64) -> bool {
        self.signs_from <= now && self.retired_at.is_none_or(|end| now < end)
    }
}

/// All keys whose tokens may be good at `now` or will be, the one that signs first, then the youngest.
fn published(look: &impl Look, now: u64) -> Result<Vec<(Vec<u8>, TokenKeyRecord)>, ControlError> {
    // Those that are over and not removed yet lie between them.
    let mut keys = look.list::<TokenKeyRecord>(b"", None, 2 * KEYS_PUBLISHED_MAX)?;
    keys.retain(|(_, key)| key.published_until.is_none_or(|end| now < end));
    keys.sort_by_key(|(_, key)| std::cmp::Reverse((key.signs_at(now), key.made_at)));
    Ok(keys)
}

impl Control {
    /// The keys of access tokens: first the one that signs, then those that it replaced. Makes the first one.
    ///
    /// # Errors
    /// A fault of the store.
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

    /// Has a new key sign, once it was published for long enough. The one before signs until then, and stays published
    /// for as long as its last token may live, `token_seconds_max`. Gives all keys, the one that signs first.
    ///
    /// # Errors
    /// `Refused` where as many are published as may be; else a fault of the store.
    pub fn rotate_token_key(
        &self,
        token_seconds_max: u64,
    ) -> Result<Vec<TokenKeyRecord>, ControlError> {
        let now = self.now();
        let keys = self.write(|change| {
            let known = published(change, now)?;
            // The first of all signs at once: nobody keeps any yet.
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
