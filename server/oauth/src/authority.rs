//! The authorization server: issues and verifies access tokens.
//!
//! The token keys in memory are a copy of those in the control store. Independent of HTTP requests.

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

/// State of the authorization server. Exists only if the hosted listener has a configured public URL.
pub struct Authority {
    /// Issuer and resource URLs.
    pub places: Places,
    /// Cache of client id metadata documents.
    pub documents: ClientDocuments,
    /// Seals authorization requests carried through forms.
    pub sealer: Sealer,
    /// Authorization requests already answered by a code.
    pub complete: Complete,
    /// Failed sign-ins waiting for their audit entries.
    pub attempts: Attempts,
    tokens: TokenCache,
    /// `None` until the first successful read of the control store.
    keys: RwLock<Option<Keys>>,
    /// Serializes reloads of `keys`.
    reading: Mutex<()>,
}

struct Keys {
    signing: TokenKey,
    trusted: TokenKeys,
}

/// Error of access token verification.
#[derive(Debug)]
pub enum NoToken {
    /// The token is invalid.
    Refused(TokenRefusal),
    /// The token keys cannot be read.
    Unavailable(ControlError),
}

impl Authority {
    /// An authorization server at these URLs. Does not read the control store yet.
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

    /// Verifies form, signature, issuer, audience and times of a token and returns its claims. Token introspection
    /// against the control store is left to the caller.
    ///
    /// # Errors
    /// The token is invalid, or no key is loaded and the control store cannot be read.
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

    /// Signs an access token with these claims.
    ///
    /// # Errors
    /// No key is loaded, and the control store cannot be read.
    pub fn mint(&self, control: &Control, claims: &Claims) -> Result<String, ControlError> {
        self.with_keys(control, |keys| mint(&keys.signing, claims))
    }

    /// Calls `work` with the published public keys.
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

    /// Reloads the keys from the control store. Must be called after a key is created, and periodically, as old keys
    /// expire.
    ///
    /// # Errors
    /// The control store cannot be read. The loaded keys then stay in use.
    pub fn read_keys(&self, control: &Control) -> Result<(), ControlError> {
        // The lock covers read and store: an older key set never replaces a newer one.
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

/// Whole seconds since the Unix epoch; 0 for earlier times.
pub fn seconds(at: Micros) -> u64 {
    u64::try_from(at.0 / 1_000_000).unwrap_or(0)
}
