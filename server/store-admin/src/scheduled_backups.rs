//! Scheduled backups: created when due, verified, and older ones removed.
//!
//! Decides which backups are retained (`format-spec/backup.md`, Backups on a schedule). `schedule.rs` computes due
//! times; `backup.rs` creates a backup.

use std::fs;
use std::io;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use engine::Micros;
use serde_json::json;

use crate::admin_state::StoreAdmin;
use crate::backup::{MadeBackup, make};
use crate::catalogue::Catalogue;
use crate::checked::check;
use crate::keep_error::KeepError;
use crate::keeping::Keeper;
use crate::known::{Known, KnownBackup};
use crate::limits::{BACKUP_RETRY_AFTER, BACKUP_SCHEDULE_EVERY};
use crate::schedule::last_due;
use crate::scheduled::{Failed, Scheduled};
use recalld_common::cancel::CancellationToken;
use recalld_common::names;
use recalld_common::slug::LOCAL_WORKSPACE;
use recalld_config::backups::ScheduledBackup;
use recalld_fs_util::copies;
use recalld_fs_util::data_dir::BACKUP_FILE;
use recalld_policy::Caller;
use recalld_telemetry::log;
use recalld_telemetry::log::Level;
use recalld_telemetry::ticker::Ticker;

/// Prefix of the folders of scheduled backups; the start time follows.
const NAME: &str = "recalld-";
const REMEDY: &str = "the server tries again";

impl Scheduled {
    /// Returns the plan if its backup is due and the last failure is not too recent.
    fn due(&self, data: &Path, now: Micros) -> Option<ScheduledBackup> {
        let (plan, known) = {
            let mut state = self.state();
            let plan = state.plan.clone()?;
            // The clock may have been ahead and corrected since.
            state.since = Some(state.since.map_or(now, |since| since.min(now)));
            (plan, state.newest.filter(|newest| newest.is_none_or(|newest| newest <= now)))
        };
        let last = last_due(&plan, now)?;
        // Read without the lock, because the disk may be slow and metrics must not wait.
        let newest = known.unwrap_or_else(|| newest(data, &plan.to, now));
        let mut state = self.state();
        if state.plan.as_ref() != Some(&plan) {
            return None;
        }
        state.newest = Some(newest);
        let waits = state.failed.as_ref().is_some_and(|failed| {
            let since = u64::try_from(now.0.saturating_sub(failed.at.0));
            let wait = u64::try_from(BACKUP_RETRY_AFTER.as_micros()).unwrap_or(u64::MAX);
            since.is_ok_and(|since| since < wait)
        });
        (newest.is_none_or(|newest| newest < last) && !waits).then_some(plan)
    }

    /// Creates the backup that is due now, if any, and returns the result.
    pub fn attempt(
        &self,
        admin: &StoreAdmin,
        now: Micros,
        cancel: &CancellationToken,
    ) -> Option<Result<MadeBackup, String>> {
        let plan = self.due(&admin.data, now)?;
        let caller = Caller::local_operator(LOCAL_WORKSPACE);
        let local = admin.local.get();
        let keeper = Keeper::of(admin, &local, &caller, cancel, &|_, _, _| {});
        let done = make_one(&keeper, &plan, now);
        let mut state = self.state();
        // If the settings changed in the meantime, this result does not apply to the new plan.
        let is_its_own = state.plan.as_ref() == Some(&plan);
        let why = match done {
            Ok(report) => {
                state.made += 1;
                if is_its_own {
                    state.newest = Some(Some(now));
                    (state.made_at, state.failed) = (Some(now), None);
                }
                return Some(Ok(report));
            }
            Err(error) => error.to_string(),
        };
        state.failures += 1;
        if is_its_own {
            state.newest = None;
            state.failed = Some(Failed { at: now, why: why.clone() });
        }
        Some(Err(why))
    }
}

/// Thread that creates scheduled backups; ends when dropped.
pub struct ScheduledBackups {
    cancel: CancellationToken,
    _ticker: Ticker,
}

impl ScheduledBackups {
    /// Starts the thread, which checks now and then periodically.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn start(admin: Arc<StoreAdmin>) -> io::Result<Self> {
        let cancel = CancellationToken::new();
        let theirs = cancel.clone();
        let work = move || match admin.scheduled.attempt(&admin, admin.clock.now(), &theirs) {
            Some(Ok(MadeBackup { path, bytes, .. })) => {
                let path = path.unwrap_or_default();
                let fields =
                    [("path", log::Value::Text(&path)), ("bytes", log::Value::Count(bytes))];
                log::event(Level::Info, "a backup was made on schedule", &fields);
            }
            Some(Err(_)) if theirs.is_cancelled() => {}
            Some(Err(why)) => {
                let fields = [("why", log::Value::Text(&why))];
                log::event(Level::Error, "no backup was made on schedule", &fields);
            }
            None => {}
        };
        let ticker = Ticker::start("backups", BACKUP_SCHEDULE_EVERY, work)?;
        Ok(Self { cancel, _ticker: ticker })
    }
}

impl Drop for ScheduledBackups {
    fn drop(&mut self) {
        // Cancels the current backup, after which the thread ends.
        self.cancel.cancel();
    }
}

/// Runs one scheduled backup, from its start to the removal of superfluous older ones.
fn make_one(
    keeper: &Keeper<'_>,
    plan: &ScheduledBackup,
    now: Micros,
) -> Result<MadeBackup, KeepError> {
    check_mounted(keeper.data, &plan.to)?;
    // Interrupted and failed backups are removed first, because they may be what fills the disk.
    remove(keeper, plan, now, |made| made.made_at.is_none(), 0)?;
    let to = plan.to.join(name_of(now));
    let raw = json!({"path": to.to_str(), "with_keys": plan.with_keys, "scheduled": true});
    let report = make(keeper, &raw, &to, plan.with_keys, true)?;
    if plan.verify
        && let Err(why) = checked(&to, keeper.cancel)
    {
        // An unfinished backup is never restored and not counted as retained; the next attempt removes it.
        let _the_fault_is_told = unfinish(&to);
        let why = format!("{} was made and is not known to be good: {why}", to.display());
        return Err(KeepError::failed(why, "see that the disk is sound; the server tries again"));
    }
    remove(keeper, plan, now, |made| made.made_at.is_some(), plan.keep)?;
    Ok(report)
}

/// Verifies a backup on a thread of its own, which is abandoned on cancellation: it only reads, and verifying a large
/// backup takes longer than a server's shutdown may.
fn checked(to: &Path, cancel: &CancellationToken) -> Result<(), String> {
    let called_off = || Err("the check was called off".to_owned());
    let (tell, told) = channel();
    let wake = tell.clone();
    let _woken = cancel.on_cancel(move || drop(wake.send(called_off())));
    if cancel.is_cancelled() {
        return called_off();
    }
    let folder = to.to_owned();
    let check = move || {
        let done = catch_unwind(|| check(&folder));
        drop(tell.send(done.unwrap_or_else(|_| Err("the check panicked".to_owned()))));
    };
    let began = thread::Builder::new().name("backup-check".to_owned()).spawn(check);
    began.map_err(|error| error.to_string())?;
    told.recv().expect("whoever may call it off holds an end of it")
}

/// Refuses a folder in which backups were created before and that now has none: very likely its disk is not mounted,
/// and a new backup would fill another disk.
fn check_mounted(data: &Path, to: &Path) -> Result<(), KeepError> {
    let known = Known::read(data).map_err(|why| KeepError::failed(why, REMEDY))?;
    let mut ours = known.backups.iter().filter(|backup| is_ours(backup, to)).peekable();
    if ours.peek().is_none() || ours.any(|backup| backup.path.join(BACKUP_FILE).exists()) {
        return Ok(());
    }
    let why = format!("{}: none of the backups that were made there is there", to.display());
    let remedy =
        "mount its disk; if they were deleted, say so by `recalld backup --forget-missing`";
    Err(KeepError::failed(why, remedy))
}

/// Returns true if the server created a registered backup on schedule in this folder.
fn is_ours(backup: &KnownBackup, to: &Path) -> bool {
    backup.is_scheduled && backup.path.parent() == Some(to) && begun_at(&backup.path).is_some()
}

/// Returns the folder name of a backup that starts now.
fn name_of(now: Micros) -> String {
    let digits: String = names::time(now)
        .chars()
        .take("2026-01-31T09:00:00".len())
        .filter(|c| !"-:".contains(*c))
        .collect();
    format!("{NAME}{digits}Z")
}

/// Returns the start time of a backup from its folder name.
fn begun_at(path: &Path) -> Option<Micros> {
    let name = path.file_name()?.to_str()?.strip_prefix(NAME)?;
    let is_plain = name.len() == "20260131T090000Z".len() && name.is_ascii();
    let parts = is_plain.then(|| {
        (&name[..4], &name[4..6], &name[6..8], &name[9..11], &name[11..13], &name[13..15])
    });
    let (year, month, day, hour, minute, second) = parts?;
    let at = names::parse_time(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()?;
    (name_of(at) == format!("{NAME}{name}")).then_some(at)
}

/// Returns the start time of the newest finished backup that the server created in a folder. A future time is ignored,
/// because the clock was wrong and the next due time does not depend on it.
fn newest(data: &Path, to: &Path, now: Micros) -> Option<Micros> {
    let known = Known::read(data).ok()?;
    let ours = known.backups.iter().filter(|backup| is_ours(backup, to));
    let finished = ours.filter(|backup| {
        let made = Catalogue::read(&backup.path).ok().flatten();
        made.is_some_and(|made| made.id == backup.id && made.made_at.is_some())
    });
    let begun = finished.filter_map(|backup| begun_at(&backup.path));
    let (past, ahead): (Vec<Micros>, Vec<Micros>) = begun.partition(|at| *at <= now);
    if let Some(ahead) = ahead.into_iter().max() {
        let fields = [("begun", log::Value::Text(&names::time(ahead)))];
        let what = "a backup is from a time to come: a clock was or is wrong; it is not counted";
        log::event(Level::Warn, what, &fields);
    }
    past.into_iter().max()
}

/// Marks a backup as never finished, so that nobody restores it (BAK-02).
fn unfinish(to: &Path) -> Result<(), String> {
    let Some(mut made) = Catalogue::read(to)? else { return Ok(()) };
    made.made_at = None;
    made.write(to)
}

/// Removes the server's own backups in a folder that are `wanted`, except for the `keep` newest. Backups with a future
/// time count as the oldest. A backup that cannot be read is left to the operator, and does not count among the
/// retained ones.
fn remove(
    keeper: &Keeper<'_>,
    plan: &ScheduledBackup,
    now: Micros,
    wanted: impl Fn(&Catalogue) -> bool,
    keep: usize,
) -> Result<(), KeepError> {
    let failed = |why: String| KeepError::failed(why, REMEDY);
    let _turn = keeper.turn()?;
    let known = Known::read(keeper.data).map_err(failed)?;
    let mut old: Vec<&KnownBackup> = Vec::new();
    for backup in known.backups.iter().filter(|backup| is_ours(backup, &plan.to)) {
        match Catalogue::read(&backup.path) {
            Ok(Some(made)) if made.id == backup.id && wanted(&made) => old.push(backup),
            Ok(_) => {}
            Err(why) => {
                let fields = [("why", log::Value::Text(&why))];
                log::event(Level::Warn, "an older backup cannot be read; it is left", &fields);
            }
        }
    }
    let age = |at: Option<Micros>| (at.is_some_and(|at| at <= now), at);
    old.sort_by_key(|backup| std::cmp::Reverse(age(begun_at(&backup.path))));
    for backup in old.into_iter().skip(keep) {
        clear(&backup.path).map_err(|error| failed(copies::at(&backup.path)(error)))?;
        let _noting = keeper.noting();
        let mut known = Known::read(keeper.data).map_err(failed)?;
        known.backups.retain(|other| other.id != backup.id);
        known.write(keeper.data).map_err(failed)?;
    }
    Ok(())
}

/// Removes a backup's folder. At every moment the rest is marked as unfinished and remains discoverable.
fn clear(folder: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Err(io::Error::other("is no folder"));
    }
    unfinish(folder).map_err(io::Error::other)?;
    let entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    for path in entries.iter().filter(|path| !path.ends_with(BACKUP_FILE)) {
        match fs::symlink_metadata(path)?.is_dir() {
            true => fs::remove_dir_all(path)?,
            false => fs::remove_file(path)?,
        }
    }
    fs::remove_file(folder.join(BACKUP_FILE))?;
    fs::remove_dir(folder)?;
    folder.parent().map_or(Ok(()), copies::sync_folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_by_its_time_and_others_are_not_ours() {
        let at = names::parse_time("2026-01-31T09:00:07.25Z").unwrap();
        assert_eq!(name_of(at), "recalld-20260131T090007Z");
        let begun = begun_at(Path::new("/b/recalld-20260131T090007Z")).unwrap();
        assert_eq!(names::time(begun), "2026-01-31T09:00:07Z");
        for other in [
            "recalld-2026",
            "recalld-20260231T090007Z",
            "recalld-20260131t090007Z",
            "mine",
            "recalld-",
        ] {
            assert_eq!(begun_at(&Path::new("/b").join(other)), None, "{other}");
        }
        let ours = |path: &str, is_scheduled| KnownBackup {
            id: "a".to_owned(),
            path: PathBuf::from(path),
            pending: Default::default(),
            is_scheduled,
        };
        let (to, name) = (Path::new("/b"), "recalld-20260131T090007Z");
        assert!(is_ours(&ours(&format!("/b/{name}"), true), to));
        assert!(!is_ours(&ours(&format!("/b/{name}"), false), to), "made by hand");
        assert!(!is_ours(&ours(&format!("/c/{name}"), true), to), "made elsewhere");
        assert!(!is_ours(&ours("/b/yearly", true), to), "renamed by somebody");
    }
}
