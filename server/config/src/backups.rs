//! `[backup]`: schedule, destination and number of automatic backups.

use std::path::{Path, PathBuf};

use recalld_common::keys::{KeyFault, Keys, TEXT_BYTES_MAX, quoted};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of retained backups: half of the backups that a data directory can register, which leaves equal
    /// room for manual ones.
    pub const BACKUPS_KEPT_MAX: u64 = 32;

    /// Default number of retained backups.
    const KEPT: u64 = 7;
    /// Maximum length of a time zone name in bytes; the longest IANA name has 30.
    const ZONE_BYTES_MAX: usize = 64;
}

/// A backup that the server makes on a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledBackup {
    /// Parent folder of the backups.
    pub to: PathBuf,
    /// Interval of the schedule.
    pub every: Every,
    /// Hour and minute.
    pub at: (i8, i8),
    /// Day of a weekly backup.
    pub weekday: Weekday,
    /// Time zone of `at`; `None` for the machine's.
    pub time_zone: Option<String>,
    /// Number of retained backups.
    pub keep: usize,
    /// True if backups include the keys.
    pub with_keys: bool,
    /// True if each backup is read again and verified.
    pub verify: bool,
}

/// Interval of scheduled backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Every {
    /// Every hour at the minute of `at`.
    Hour,
    /// Every day at `at`.
    Day,
    /// Every week at `at` on `weekday`.
    Week,
}

impl Every {
    const ALL: &'static [Self] = &[Self::Hour, Self::Day, Self::Week];

    /// Word in the settings file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weekday(pub jiff::civil::Weekday);

impl Weekday {
    const ALL: &'static [Self] = &[
        Self(jiff::civil::Weekday::Monday),
        Self(jiff::civil::Weekday::Tuesday),
        Self(jiff::civil::Weekday::Wednesday),
        Self(jiff::civil::Weekday::Thursday),
        Self(jiff::civil::Weekday::Friday),
        Self(jiff::civil::Weekday::Saturday),
        Self(jiff::civil::Weekday::Sunday),
    ];

    fn word(self) -> &'static str {
        match self.0 {
            jiff::civil::Weekday::Monday => "monday",
            jiff::civil::Weekday::Tuesday => "tuesday",
            jiff::civil::Weekday::Wednesday => "wednesday",
            jiff::civil::Weekday::Thursday => "thursday",
            jiff::civil::Weekday::Friday => "friday",
            jiff::civil::Weekday::Saturday => "saturday",
            jiff::civil::Weekday::Sunday => "sunday",
        }
    }
}

/// Reads the table; `None` if the table is empty. Without a folder, other keys are rejected: they would be ignored
/// silently.
pub(super) fn read(mut keys: Keys, folder: &Path) -> Result<Option<ScheduledBackup>, KeyFault> {
    let to = keys.text("to", TEXT_BYTES_MAX)?;
    if to.is_none() && keys.has_more() {
        return Err(keys.missing("to", "the folder that the backups are made in"));
    }
    let every = keys.word("every", Every::ALL, Every::word)?.unwrap_or(Every::Day);
    let at = match keys.text("at", TEXT_BYTES_MAX)? {
        None => (3, 30),
        Some(text) => time_of(&text).ok_or_else(|| {
            keys.fault("at", &text, "a time of the day, 00:00 to 23:59, such as 03:30")
        })?,
    };
    let weekday = keys.word("weekday", Weekday::ALL, Weekday::word)?;
    let time_zone = keys.text("time_zone", ZONE_BYTES_MAX)?;
    if let Some(zone) = &time_zone
        && jiff::tz::TimeZone::get(zone).is_err()
    {
        return Err(keys.fault(
            "time_zone",
            zone,
            "the IANA name of a zone, such as Europe/Berlin or UTC",
        ));
    }
    let keep = keys.whole("keep", 1..=BACKUPS_KEPT_MAX)?.unwrap_or(KEPT);
    let with_keys = keys.flag("with_keys")?.unwrap_or(false);
    let verify = keys.flag("verify")?.unwrap_or(true);
    keys.finish()?;
    Ok(to.map(|to| ScheduledBackup {
        to: folder.join(to),
        every,
        at,
        weekday: weekday.unwrap_or(Weekday(jiff::civil::Weekday::Sunday)),
        time_zone,
        keep: usize::try_from(keep).unwrap_or(usize::MAX),
        with_keys,
        verify,
    }))
}

/// Parses the hour and minute of `HH:MM`.
fn time_of(text: &str) -> Option<(i8, i8)> {
    let (hour, minute) = text.split_once(':')?;
    let two = |digits: &str| {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<i8>().ok().filter(|_| is_two)
    };
    Some((two(hour)?, two(minute)?)).filter(|(hour, minute)| *hour < 24 && *minute < 60)
}

/// Renders the table as TOML; empty if there is no scheduled backup.
pub(super) fn show(backup: Option<&ScheduledBackup>) -> String {
    let Some(backup) = backup else { return String::new() };
    let ScheduledBackup { to, every, at: (hour, minute), weekday, .. } = backup;
    let mut out = format!(
        "\n[backup]\nto = {}\nevery = {}\nat = \"{hour:02}:{minute:02}\"\nweekday = {}\n",
        quoted(&to.to_string_lossy()),
        quoted(every.word()),
        quoted(weekday.word())
    );
    if let Some(zone) = &backup.time_zone {
        out += &format!("time_zone = {}\n", quoted(zone));
    }
    let ScheduledBackup { keep, with_keys, verify, .. } = backup;
    out + &format!("keep = {keep}\nwith_keys = {with_keys}\nverify = {verify}\n")
}
