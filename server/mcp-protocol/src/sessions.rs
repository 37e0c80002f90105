//! All sessions of the endpoint, within their limits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::os::clock::Random;

use super::abilities::Abilities;
use super::events::Budget;
use super::fault::Fault;
use super::session::Session;
use crate::limits::{SESSION_IDLE, SESSIONS_MAX, SESSIONS_PER_PRINCIPAL_MAX};

/// Limits on the number of sessions and on their idle time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub all: usize,
    pub per_principal: usize,
    pub idle: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        let (all, per_principal) = (SESSIONS_MAX, SESSIONS_PER_PRINCIPAL_MAX);
        Self { all, per_principal, idle: SESSION_IDLE }
    }
}

pub(super) struct Sessions {
    random: Arc<dyn Random>,
    bounds: Bounds,
    budget: Budget,
    by_id: Mutex<HashMap<String, Arc<Session>>>,
}

impl Sessions {
    pub(super) fn new(random: Arc<dyn Random>, bounds: Bounds) -> Self {
        Self { random, bounds, budget: Budget::default(), by_id: Mutex::default() }
    }

    fn by_id(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session for a caller. Over the limit, the session idle longest ends: one of this caller, or, over the
    /// limit of all callers, one of the caller with the most idle sessions.
    ///
    /// # Errors
    /// The limit is reached, and no such session is idle.
    pub(super) fn open(
        &self,
        principal: String,
        revision: &'static str,
        abilities: Abilities,
    ) -> Result<Arc<Session>, Fault> {
        let mut bytes = [0; 24];
        self.random.fill(&mut bytes);
        let id = URL_SAFE_NO_PAD.encode(bytes);
        let mut by_id = self.by_id();
        let others = by_id.values().find(|one| one.principal == principal);
        let budget = others.map_or_else(|| self.budget.of_another(), |one| one.budget.clone());
        let own = by_id.values().filter(|one| one.principal == principal).count();
        let mut evicted = None;
        if own >= self.bounds.per_principal || by_id.len() >= self.bounds.all {
            let idle = |of: &str| {
                let own = by_id.values().filter(|one| one.principal == of);
                own.filter_map(|one| Some((one.idle_since()?, one.id.clone()))).min()
            };
            let victim = if own >= self.bounds.per_principal {
                idle(&principal)
            } else {
                idle(&largest_holder(&by_id))
            };
            let Some((_, oldest)) = victim else {
                let why = "too many sessions; end one, or try again later";
                return Err(Fault::server("too_many_sessions", why).with_status(503));
            };
            evicted = by_id.remove(&oldest);
        }
        let session = Arc::new(Session::new(id, principal, revision, abilities, budget));
        by_id.insert(session.id.clone(), Arc::clone(&session));
        drop(by_id);
        if let Some(evicted) = evicted {
            evicted.end();
        }
        Ok(session)
    }

    /// Returns the session with this id, if it belongs to the caller; to any other caller the session does not exist.
    pub(super) fn find(&self, id: &str, principal: &str) -> Option<Arc<Session>> {
        let session = self.by_id().get(id).filter(|one| one.principal == principal).cloned()?;
        session.touch();
        Some(session)
    }

    /// Ends a session; returns true if the session existed and belonged to the caller.
    pub(super) fn end(&self, id: &str, principal: &str) -> bool {
        let found = {
            let mut by_id = self.by_id();
            let is_own = by_id.get(id).is_some_and(|one| one.principal == principal);
            if is_own { by_id.remove(id) } else { None }
        };
        found.inspect(|session| session.end()).is_some()
    }

    /// Ends the sessions that exceeded the idle time.
    pub(super) fn expire(&self, now: Instant) {
        let is_over = |session: &Session| {
            let since = session.idle_since();
            since.is_some_and(|since| now.saturating_duration_since(since) > self.bounds.idle)
        };
        let over: Vec<_> = {
            let mut by_id = self.by_id();
            by_id.extract_if(|_, session| is_over(session)).map(|(_, session)| session).collect()
        };
        over.iter().for_each(|session| session.end());
    }

    /// Number of sessions.
    pub(super) fn count(&self) -> usize {
        self.by_id().len()
    }

    /// Returns all sessions.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.by_id().values().cloned().collect()
    }
}

/// Returns the principal with the most sessions that can be ended.
fn largest_holder(by_id: &HashMap<String, Arc<Session>>) -> String {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for session in by_id.values().filter(|session| session.idle_since().is_some()) {
        *counts.entry(&session.principal).or_default() += 1;
    }
    let largest = counts.into_iter().max_by_key(|(_, count)| *count);
    largest.map(|(principal, _)| principal.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::os::clock::SystemRandom;

    const BOUNDS: Bounds = Bounds { all: 4, per_principal: 2, idle: Duration::from_secs(60) };

    fn sessions() -> Sessions {
        Sessions::new(Arc::new(SystemRandom), BOUNDS)
    }

    fn open(sessions: &Sessions, principal: &str) -> Result<Arc<Session>, Fault> {
        sessions.open(principal.to_owned(), "2025-11-25", Abilities::default())
    }

    #[test]
    fn ids_are_visible_ascii_and_differ() {
        let sessions = sessions();
        let (a, b) = (open(&sessions, "ada").unwrap(), open(&sessions, "ada").unwrap());
        assert_ne!(a.id, b.id);
        assert_eq!(a.id.len(), 32);
        assert!(a.id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{}", a.id);
    }

    #[test]
    fn a_session_is_its_callers_alone_until_it_ends() {
        let sessions = sessions();
        let session = open(&sessions, "ada").unwrap();
        assert!(sessions.find(&session.id, "ada").is_some());
        assert!(sessions.find(&session.id, "bob").is_none());
        assert!(!sessions.end(&session.id, "bob"));
        assert!(sessions.end(&session.id, "ada"));
        assert!(sessions.find(&session.id, "ada").is_none());
        assert!(!sessions.end(&session.id, "ada"));
    }

    #[test]
    fn one_too_many_ends_the_callers_own_oldest() {
        let sessions = sessions();
        let first = open(&sessions, "ada").unwrap();
        let second = open(&sessions, "ada").unwrap();
        sessions.find(&first.id, "ada").unwrap();
        let bobs = open(&sessions, "bob").unwrap();
        open(&sessions, "ada").unwrap();
        assert!(sessions.find(&second.id, "ada").is_none(), "it was idle longest");
        assert!(sessions.find(&first.id, "ada").is_some());
        assert!(sessions.find(&bobs.id, "bob").is_some());
        open(&sessions, "bob").unwrap();
        assert_eq!(sessions.all().len(), BOUNDS.all);
        let eves = open(&sessions, "eve").unwrap();
        assert_eq!(sessions.all().len(), BOUNDS.all, "one of those who have the most has ended");
        assert!(sessions.find(&eves.id, "eve").is_some());
    }

    #[test]
    fn idle_sessions_end() {
        let sessions = sessions();
        let session = open(&sessions, "ada").unwrap();
        sessions.expire(Instant::now() + BOUNDS.idle / 2);
        assert!(sessions.find(&session.id, "ada").is_some());
        sessions.expire(Instant::now() + BOUNDS.idle * 2);
        assert!(sessions.find(&session.id, "ada").is_none());
    }
}
