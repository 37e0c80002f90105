//! State of scheduled backups: the plan and the results so far.

use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::Micros;
use serde::{Deserialize, Serialize};

use crate::known::path_text;
use crate::limits::BACKUP_OVERDUE_AFTER;
use crate::schedule::{last_due, next_due};
use recalld_common::names;
use recalld_config::backups::ScheduledBackup;

/// The plan of scheduled backups and their results so far.
#[derive(Default)]
pub struct Scheduled(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub(super) plan: Option<ScheduledBackup>,
    /// Start time of the newest existing backup; read from disk if not known.
    pub(super) newest: Option<Option<Micros>>,
    /// Time since which due backups are checked.
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

/// Status of scheduled backups for metrics and commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldSchedule {
    /// Backups created by this process.
    pub made: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Start time of the newest backup, if known.
    pub newest: Option<Micros>,
    /// Health of the schedule.
    pub standing: Standing,
}

/// Schedule of a running server's backups.
#[derive(Debug, Serialize, Deserialize)]
pub struct ScheduleReport {
    /// The last time at which a backup was due.
    pub due_at: Option<String>,
    /// The interval, as in the settings.
    pub every: String,
    /// Time of the last attempt, if it failed.
    pub failed_at: Option<String>,
    /// The reason for which the last attempt failed.
    pub failed_why: Option<String>,
    /// Number of retained backups.
    pub keep: usize,
    /// Time of the newest backup of this process.
    pub made_at: Option<String>,
    /// The next time at which a backup is due.
    pub next_at: Option<String>,
    /// Health of the schedule.
    pub state: Standing,
    /// The folder of the backups; `None` if its path is not UTF-8.
    pub to: Option<String>,
}

/// Health of scheduled backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Every due backup is finished or in progress.
    #[serde(rename = "ok")]
    Good,
    /// The last attempt failed.
    Failing,
    /// A backup is long overdue and no attempt has failed: very likely its disk does not respond.
    Overdue,
}

impl State {
    fn standing(&self, now: Micros) -> Standing {
        let allowed = i64::try_from(BACKUP_OVERDUE_AFTER.as_micros()).unwrap_or(i64::MAX);
        let before = Micros(now.0.saturating_sub(allowed));
        let due = self.plan.as_ref().and_then(|plan| last_due(plan, before));
        // A server that has just started first makes up for missed backups.
        let had_time = self.since.is_some_and(|since| since <= before);
        // A backup with a future time was created while the clock was wrong.
        let newest = self.newest.flatten().filter(|newest| *newest <= now);
        match due {
            _ if self.failed.is_some() => Standing::Failing,
            Some(due) if had_time && newest.is_none_or(|newest| newest < due) => Standing::Overdue,
            _ => Standing::Good,
        }
    }
}

impl Scheduled {
    /// Creates the state for a plan from the settings.
    pub fn new(plan: Option<ScheduledBackup>) -> Self {
        Self(Mutex::new(State { plan, ..State::default() }))
    }

    /// Replaces the plan after a change of the settings.
    pub fn set(&self, plan: Option<ScheduledBackup>) {
        let mut state = self.state();
        if state.plan != plan {
            (state.plan, state.newest, state.since, state.failed) = (plan, None, None, None);
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the status for metrics and `/health`; `None` if no backups are scheduled.
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

    /// The status for `recalld backup --list` and `doctor`.
    pub(super) fn report(&self, now: Micros) -> Option<ScheduleReport> {
        let state = self.state();
        let plan = state.plan.as_ref()?;
        let failed = state.failed.as_ref();
        Some(ScheduleReport {
            due_at: last_due(plan, now).map(names::time),
            every: plan.every.word().to_owned(),
            failed_at: failed.map(|failed| names::time(failed.at)),
            failed_why: failed.map(|failed| failed.why.clone()),
            keep: plan.keep,
            made_at: state.made_at.map(names::time),
            next_at: next_due(plan, now).map(names::time),
            state: state.standing(now),
            to: path_text(&plan.to),
        })
    }
}
