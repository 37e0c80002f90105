//! What issues access tokens and knows them again: its places, its keys, and what it remembers.
//!
//! Owns the keys in memory; on record they are the control store's. Must not know requests.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use engine::Micros;
use engine::os::clock::Random;

use crate::authorize::{Attempts, Complete};
use crate::client_documents::ClientDocuments;
use crate::fetch::HttpFetch;
use crate::metadata::Places;
use crate::pages::Sealer;
use recalld_auth::token::{Claims, TokenRefusal, mint};
use recalld_auth::{TokenCache, TokenKey, TokenKeys};
use recalld_metastore::{Control, ControlError, TokenKeyRecord};

/// The authorization server's own things. There is one where the hosted listener has an address that is known from
/// outside.
pub struct Authority {
    /// Where it is, and for what its tokens are.
    pub places: Places,
    /// Documents of clients that are known by their URL.
    pub documents: ClientDocuments,
    /// Seals requests that travel through forms.
    pub sealer: Sealer,
    /// Which of these were answered by a code.
    pub complete: Complete,
    /// Sign-ins that were refused, until they are in a ledger.
    pub attempts: Attempts,
    tokens: TokenCache,
    /// None until the control store could be asked.
    keys: RwLock<Option<Keys>>,
    /// Held by whoever reads them anew.
    reading: Mutex<()>,
}

struct Keys {
    signing: TokenKey,
    trusted: TokenKeys,
}

/// Why an access token opens nothing.
#[derive(Debug)]
pub enum NoToken {
    /// It is not good.
    Refused(TokenRefusal),
    /// It cannot be told.
    Unavailable(ControlError),
}

impl Authority {
    /// With places of its own; nothing is asked of the control store yet.
    pub fn new(places: Places, random: &dyn Random) -> Self {
        let mut key = [0; 32];
        random.fill(&mut key);
        Self {
            places,
            documents: ClientDocuments::new(Box::new(HttpFetch::default())),
            sealer: Sealer::new(key),
            complete: Complete::default(),
            attempts: Attempts::default(),
            tokens: TokenCache::default(),
            keys: RwLock::default(),
            reading: Mutex::default(),
        }
    }

    /// What a token says, if its form, signature, issuer, audience and times are right. Whether it still stands is
    /// the control store's to say.
    ///
    /// # Errors
    /// It is not good, or no key is known yet and the control store cannot be asked.
    pub fn claims(
        &self,
        control: &Control,
        token: &str,
        now: Micros,
    ) -> Result<Arc<Claims>, NoToken> {
        let (issuer, audience) = (self.places.issuer(), self.places.resource());
        let now = seconds(now);
        self.with_keys(control, |keys| {
            self.tokens.check(token, &keys.trusted, issuer, audience, now)
        })
        .map_err(NoToken::Unavailable)?
        .map_err(NoToken::Refused)
    }

    /// A token of these claims.
    ///
    /// # Errors
    /// No key is known yet, and the control store cannot be asked.
    pub fn mint(&self, control: &Control, claims: &Claims) -> Result<String, ControlError> {
        self.with_keys(control, |keys| mint(&keys.signing, claims))
    }

    /// Does `work` with the public keys, as they are published.
    ///
    /// # Errors
    /// As for [`Authority::mint`].
    pub(crate) fn with_public<T>(
        &self,
        control: &Control,
        work: impl FnOnce(&TokenKeys) -> T,
    ) -> Result<T, ControlError> {
        self.with_keys(control, |keys| work(&keys.trusted))
    }

    /// Takes the keys from the control store again: after one was made, and now and then, since old ones end.
    ///
    /// # Errors
    /// It cannot be asked; then the keys stay as they were.
    pub fn read_keys(&self, control: &Control) -> Result<(), ControlError> {
        // Whoever reads them later also sets them later: older ones never take the place of newer ones.
        let _in_turn = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = Keys::of(&control.token_keys()?)?;
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Some(keys);
        Ok(())
    }

    fn with_keys<T>(
        &self,
        control: &Control,
        work: impl FnOnce(&Keys) -> T,
    ) -> Result<T, ControlError> {
        if self.keys().is_none() {
            self.read_keys(control)?;
        }
        let keys = self.keys();
        Ok(work(keys.as_ref().expect("they were read, and are never taken away")))
    }

    fn keys(&self) -> RwLockReadGuard<'_, Option<Keys>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys {
    fn of(records: &[TokenKeyRecord]) -> Result<Self, ControlError> {
        let keys: Vec<TokenKey> =
            records.iter().map(|record| TokenKey::from_seed(record.seed.expose())).collect();
        let public: Vec<[u8; 32]> = keys.iter().map(TokenKey::public).collect();
        let trusted = TokenKeys::new(&public).map_err(|error| {
            ControlError::unavailable(format!("its keys of access tokens: {error}"))
        })?;
        let signing = keys.into_iter().next();
        let signing =
            signing.ok_or_else(|| ControlError::unavailable("it has no key that signs"))?;
        Ok(Self { signing, trusted })
    }
}

/// Whole seconds since 1970.
pub fn seconds(at: Micros) -> u64 {
    u64::try_from(at.0 / 1_000_000).unwrap_or(0)
}
