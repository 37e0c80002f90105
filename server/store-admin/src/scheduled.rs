//! Backups that a server makes by itself, as they stand: what is wanted, and what became of it so far.

use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::Micros;
use serde_json::{Value, json};

use crate::limits::BACKUP_OVERDUE_AFTER;
use crate::schedule::{last_due, next_due};
use recalld_common::names;
use recalld_config::backups::ScheduledBackup;

/// What is wanted, and what became of it so far.
#[derive(Default)]
pub struct Scheduled(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) plan: Option<ScheduledBackup>,
    /// When the newest one that is there was begun; looked up where it is not known.
    pub(super) newest: Option<Option<Micros>>,
    /// Since when it is looked whether one is due.
    pub(super) since: Option<Micros>,
    pub(super) failed: Option<Failed>,
    pub(super) made: u64,
    pub(super) failures: u64,
    pub(super) made_at: Option<Micros>,
}

#[derive(Clone)]
pub(super) struct Failed {
    pub(super) at: Micros,
    pub(super) why: String,
}

/// What metrics and commands tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldSchedule {
    /// Backups that this process made.
    pub made: u64,
    /// Attempts that came to nothing.
    pub failures: u64,
    /// When the newest one was begun, as far as that is known.
    pub newest: Option<Micros>,
    /// How they are.
    pub standing: Standing,
}

/// How backups on schedule are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// What was due is made, or is being made.
    Good,
    /// The last attempt came to nothing.
    Failing,
    /// One was due long ago, and there is neither it nor a failure: very likely its disk does not answer.
    Overdue,
}

impl Standing {
    /// Its name for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Failing => "failing",
            Self::Overdue => "overdue",
        }
    }
}

impl State {
    fn standing(&self, now: Micros) -> Standing {
        let allowed = i64::try_from(BACKUP_OVERDUE_AFTER.as_micros()).unwrap_or(i64::MAX);
        let before = Micros(now.0.saturating_sub(allowed));
        let due = self.plan.as_ref().and_then(|plan| last_due(plan, before));
        // Whoever has just begun to look makes up for what was missed before.
        let had_time = self.since.is_some_and(|since| since <= before);
        // One of a time to come was made while the clock was wrong.
        let newest = self.newest.flatten().filter(|newest| *newest <= now);
        match due {
            _ if self.failed.is_some() => Standing::Failing,
            Some(due) if had_time && newest.is_none_or(|newest| newest < due) => Standing::Overdue,
            _ => Standing::Good,
        }
    }
}

impl Scheduled {
    /// With what the settings say.
    pub fn new(plan: Option<ScheduledBackup>) -> Self {
        Self(Mutex::new(State { plan, ..State::default() }))
    }

    /// Takes other settings from now on.
    pub fn set(&self, plan: Option<ScheduledBackup>) {
        let mut state = self.state();
        if state.plan != plan {
            (state.plan, state.newest, state.since, state.failed) = (plan, None, None, None);
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For metrics and `/health`; nothing where none is wanted.
    pub fn told(&self, now: Micros) -> Option<ToldSchedule> {
        let state = self.state();
        state.plan.as_ref()?;
        Some(ToldSchedule {
            made: state.made,
            failures: state.failures,
            newest: state.newest.flatten(),
            standing: state.standing(now),
        })
    }

    /// For `recalld backup --list` and `doctor`.
    pub(super) fn to_json(&self, now: Micros) -> Value {
        let state = self.state();
        let Some(plan) = &state.plan else { return Value::Null };
        let failed = state.failed.as_ref();
        json!({
            "to": plan.to.to_str(), "every": plan.every.word(), "keep": plan.keep,
            "state": state.standing(now).word(), "due_at": last_due(plan, now).map(names::time),
            "next_at": next_due(plan, now).map(names::time),
            "made_at": state.made_at.map(names::time),
            "failed_at": failed.map(|failed| names::time(failed.at)),
            "failed_why": failed.map(|failed| &failed.why),
        })
    }
}
