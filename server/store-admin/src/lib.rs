//! Jobs on whole stores: backup, restore, erasure, compaction, model migration.
//!
//! The API has the routes that request a job.
#![forbid(unsafe_code)]

pub mod admin_state;
pub mod backup;
mod backup_tenants;
mod catalogue;
pub mod checked;
pub mod compact;
mod copying;
pub mod empty_deleted;
pub mod erase;
mod erase_backups;
pub mod erase_far;
pub mod erase_later;
mod forget;
pub mod keep_error;
pub mod keeping;
mod known;
pub mod limits;
pub mod place;
pub mod reembed;
pub mod restore;
mod schedule;
pub mod scheduled;
pub mod scheduled_backups;
pub mod told_backups;
pub mod trusted;
pub mod workspaces;

pub use admin_state::StoreAdmin;
pub use backup::Backup;
pub use backup::BackupReport;
pub use backup::MadeBackup;
pub use backup::backup;
pub use backup::real_path;
pub use checked::check as check_backup;
pub use compact::CompactReport;
pub use compact::compact;
pub use empty_deleted::Emptying;
pub use empty_deleted::Pass;
pub use empty_deleted::Which;
pub use empty_deleted::empty_deleted;
pub use empty_deleted::give_up_deleted;
pub use erase::Erase;
pub use erase::EraseReport;
pub use erase::ErasedItem;
pub use erase::HeldItem;
pub use erase::backups_known;
pub use erase::erase;
pub use erase::goes_with;
pub use erase::noted;
pub use erase::waiting_in;
pub use erase_backups::BackupErasure;
pub use erase_far::note as note_far;
pub use erase_later::EraseLater;
pub use forget::BackupList;
pub use forget::ForgottenBackups;
pub use forget::ListedBackup;
pub use forget::Presence;
pub use forget::list as list_backups;
pub use keep_error::KeepError;
pub use keeping::Alone;
pub use keeping::Keeper;
pub use keeping::record_export;
pub use place::BackupFiles;
pub use place::Beside;
pub use place::Place;
pub use reembed::Reembed;
pub use reembed::ReembedReport;
pub use reembed::reembed;
pub use restore::Fresh;
pub use restore::RestoreReport;
pub use restore::restore;
pub use scheduled::ScheduleReport;
pub use scheduled::Scheduled;
pub use scheduled::Standing;
pub use scheduled::ToldSchedule;
pub use scheduled_backups::ScheduledBackups;
pub use told_backups::ToldBackups;
pub use told_backups::told_backups;
pub use trusted::LedgerPlace;
pub use workspaces::Opener;
pub use workspaces::Others;

limit_table::limits! {
    pub const LIMITS = [catalogue, known, limits];
}
