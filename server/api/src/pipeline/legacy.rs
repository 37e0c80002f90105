//! Legacy hosts from before the migration: which calls they still accept, and until when.
//!
//! Defines how a request names a host and how host names compare (GOV-60 to GOV-63). Uses only the time of issue of a
//! credential, not its kind.

use engine::Micros;

use crate::app_state::AppState;
use recalld_config::Legacy;
use recalld_http_server::refusal::Refusal;
use recalld_policy::Caller;

/// Status of a request's host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostStatus {
    /// Not a legacy host.
    Current,
    /// A legacy host that still accepts credentials issued before the migration.
    Waning {
        /// Time of the migration. `None` if not configured; then no credential is accepted.
        migrated_at: Option<Micros>,
    },
    /// A legacy host whose time is over.
    Gone,
}

/// Returns the status of the host in a `Host` field at a time.
pub(super) fn standing(legacy: &Legacy, host: Option<&str>, now: Micros) -> HostStatus {
    let is_listed = |host: &str| {
        let name = name_of(host);
        legacy.hosts.iter().any(|listed| listed.eq_ignore_ascii_case(name))
    };
    match host {
        Some(host) if is_listed(host) => match now < legacy.until {
            true => HostStatus::Waning { migrated_at: legacy.migrated_at },
            false => HostStatus::Gone,
        },
        _ => HostStatus::Current,
    }
}

/// Strips the port and the trailing dot of an absolute name.
pub fn name_of(host: &str) -> &str {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    name.strip_suffix('.').unwrap_or(name)
}

impl HostStatus {
    /// Returns true if a caller's credential is valid under this host.
    pub(super) fn takes(self, caller: &Caller) -> bool {
        match self {
            Self::Current => true,
            Self::Waning { migrated_at } => {
                let shown = caller.credential.as_ref().zip(migrated_at);
                shown.is_some_and(|(shown, migrated)| shown.issued_at < migrated)
            }
            Self::Gone => false,
        }
    }
}

/// Returns 410 with the current address of the service.
pub(super) fn gone(parts: &AppState) -> Refusal {
    match &parts.authority {
        None => Refusal::new(410, "This host is no longer in use"),
        Some(authority) => {
            let (issuer, resource) = (authority.places.issuer(), authority.places.resource());
            let detail = format!(
                "This host is no longer in use; the service is at {issuer}, and its MCP at {resource}"
            );
            Refusal::new(410, &detail).with("Link", format!("<{issuer}>; rel=\"canonical\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recalld_policy::Credential;

    const UNTIL: Micros = Micros(2_000_000);
    const MIGRATED: Micros = Micros(1_000_000);

    fn legacy() -> Legacy {
        let hosts = vec!["old.example".to_owned(), "older.example".to_owned()];
        Legacy { hosts, migrated_at: Some(MIGRATED), until: UNTIL }
    }

    #[test]
    fn a_host_is_told_however_it_is_spelled() {
        for host in [
            "old.example",
            "OLD.Example",
            "old.example:443",
            "old.example.",
            "Old.example.:8443",
            "older.example",
        ] {
            let now = Micros(0);
            let found = standing(&legacy(), Some(host), now);
            assert_eq!(found, HostStatus::Waning { migrated_at: Some(MIGRATED) }, "{host}");
        }
        for host in
            ["", "new.example", "x.old.example", "old.example.evil", "old.example..", "[::1]:443"]
        {
            assert_eq!(standing(&legacy(), Some(host), UNTIL), HostStatus::Current, "{host}");
        }
        assert_eq!(standing(&legacy(), None, UNTIL), HostStatus::Current);
    }

    #[test]
    fn it_ends_at_its_moment_and_takes_what_is_older_than_the_migration() {
        let at = |now| standing(&legacy(), Some("old.example"), Micros(now));
        assert_eq!(at(UNTIL.0 - 1), HostStatus::Waning { migrated_at: Some(MIGRATED) });
        assert_eq!([at(UNTIL.0), at(i64::MAX)], [HostStatus::Gone; 2]);
        let caller = |issued_at: Option<Micros>| {
            let hold = "k0".to_owned();
            let credential = issued_at.map(|issued_at| Credential { issued_at, hold, token: None });
            Caller { credential, ..Caller::local_operator("local") }
        };
        let (before, since) = (caller(Some(Micros(MIGRATED.0 - 1))), caller(Some(MIGRATED)));
        let waning = at(0);
        assert!(waning.takes(&before) && !waning.takes(&since) && !waning.takes(&caller(None)));
        let never_said = HostStatus::Waning { migrated_at: None };
        assert!(!never_said.takes(&before) && !HostStatus::Gone.takes(&before));
        assert!(HostStatus::Current.takes(&since) && HostStatus::Current.takes(&caller(None)));
    }
}
