//! `recalld doctor`: checks every part of an installation and prints a remedy for each fault.
//!
//! Must not change anything: the doctor creates no data directory.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::Micros;
use engine::os::clock::{Clock, SystemClock};
use serde_json::{Map, Value, json};

use super::call::Desk;
use super::common::Common;
use super::descriptors;
use super::failure::Failure;
use super::given::Flags;
use super::keep::job;
use super::paint::{Paint, plain};
use super::remote::Remote;
use super::tell::{tell, tell_line};
use crate::limits::DESCRIPTORS_BESIDE;
use recalld_cluster::control_chain::{MARKER, SHARED};
use recalld_common::counted::counted;
use recalld_config::serving::Serving;
use recalld_embedding::model::{Bar, Unit};
use recalld_fs_util::data_dir;
use recalld_http_server::certificate_ends;
use recalld_http_server::limits::CONNECTIONS_MAX;
use recalld_store_admin::{ListedBackup, Presence, Standing, list_backups};
use recalld_workspace::opening::SERVING;

/// If the newest backup is older, the doctor warns.
const BACKUP_AGE_MAX: Micros = Micros(7 * 24 * 3_600_000_000);
/// If the certificate expires sooner, the doctor warns.
const CERTIFICATE_LEFT_MIN: Micros = Micros(14 * 24 * 3_600_000_000);
/// Mode bits that grant access to group and others.
const OTHERS: u32 = 0o077;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    common: Common,
    /// The service's settings file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    /// Working, but in need of action.
    Worth,
    Bad,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Worth => "warn",
            Self::Bad => "fail",
        }
    }
}

/// The result of one check.
struct Finding {
    name: String,
    state: State,
    detail: String,
    /// The remedy; empty if no action is needed.
    remedy: String,
}

impl Finding {
    fn good(name: &str, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Good,
            detail: detail.into(),
            remedy: String::new(),
        }
    }

    fn of(name: &str, state: State, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name: name.to_owned(), state, detail: detail.into(), remedy: remedy.into() }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name, "state": self.state.word(), "detail": self.detail,
            "remedy": Some(&self.remedy).filter(|remedy| !remedy.is_empty()),
        })
    }
}

pub(super) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let findings = look(args)?;
    let bad = findings.iter().filter(|finding| finding.state == State::Bad).count();
    if args.common.json {
        let findings: Vec<Value> = findings.iter().map(Finding::to_json).collect();
        tell_line(&json!({"ok": bad == 0, "findings": findings}))?;
    } else {
        let paint = Paint::stdout();
        tell(&findings.iter().map(|finding| line(paint, finding)).collect::<String>())?;
    }
    match bad {
        0 => Ok(()),
        1 => Err(Failure::No("1 thing is wrong; what to do stands beside it".to_owned())),
        more => Err(Failure::No(format!("{more} things are wrong; what to do stands beside each"))),
    }
}

fn line(paint: Paint, finding: &Finding) -> String {
    let word = format!("{:<5}", finding.state.word());
    let word = match finding.state {
        State::Good => paint.good(&word),
        State::Worth => paint.warn(&word),
        State::Bad => paint.bad(&word),
    };
    let name = &finding.name;
    let mut line = format!("{word}{name:<16}{}\n", plain(&finding.detail));
    if !finding.remedy.is_empty() {
        line.push_str(&format!("{:21}{}\n", "", paint.bold(&format!("-> {}", finding.remedy))));
    }
    line
}

fn look(args: &DoctorArgs) -> Result<Vec<Finding>, Failure> {
    let common = &args.common;
    let data = common.data()?;
    let flags = Flags::of_file(args.config.as_deref());
    let mut findings = vec![
        Finding::good(
            "program",
            format!("recalld {}, {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH),
        ),
        instructions(common),
        settings(&flags),
        open_files(),
    ];
    let config = flags.load().map(|loaded| loaded.config).unwrap_or_default();
    findings.extend(certificate(&config.serving, SystemClock.now()));
    if !data.try_exists().map_err(|error| Failure::Could(format!("{}: {error}", data.display())))? {
        findings.push(missing(common, &data));
        findings.extend(listeners(&config.serving));
        return Ok(findings);
    }
    findings.push(folder(&data));
    // Opening a missing store would create it.
    if data_dir::is_unused(&data) {
        findings.push(Finding::of(
            "store",
            State::Worth,
            "there is none yet",
            "recalld serve, ingest, remember or import makes it",
        ));
        findings.extend(listeners(&config.serving));
        return Ok(findings);
    }
    findings.push(server(&data));
    if !data.join(SERVING).exists() {
        findings.extend(listeners(&config.serving));
    }
    match Desk::open(common) {
        Ok(desk) => {
            findings.extend(parts(&desk));
            findings.push(ledger(&desk));
        }
        Err(failure) => {
            findings.push(Finding::of(
                "store",
                State::Bad,
                failure.why(),
                "mend that first; recalld verify looks closer",
            ));
            findings.extend(shared(&data));
        }
    }
    findings.push(backups(common, &data));
    Ok(findings)
}

/// The finding for a missing data directory. An explicitly named directory is probably misspelled, so its absence is a
/// failure rather than a warning.
fn missing(common: &Common, data: &Path) -> Finding {
    let state = if common.names_data() { State::Bad } else { State::Worth };
    Finding::of(
        "data",
        state,
        format!("{} is not there", data.display()),
        "recalld serve, ingest, remember or import makes it; --data DIR names another",
    )
}

fn instructions(common: &Common) -> Finding {
    match common.encoding() {
        Ok(encoding) => Finding::good("instructions", encoding.kernels.level().name()),
        Err(failure) => Finding::of(
            "instructions",
            State::Bad,
            failure.why(),
            "leave --kernel and RECALLD_KERNEL out",
        ),
    }
}

fn settings(flags: &Flags) -> Finding {
    const NAME: &str = "settings";
    match (flags.load(), flags.file()) {
        (Ok(_), None) => Finding::good(NAME, "the defaults; --config FILE looks at yours"),
        (Ok(_), Some(file)) => Finding::good(NAME, format!("{} would be taken", file.display())),
        (Err(fault), _) => Finding::of(
            NAME,
            State::Bad,
            flags.named(&fault),
            "mend that line; `recalld config example` prints every setting with its default",
        ),
    }
}

/// Checks the certificate's expiry; `None` without a certificate.
fn certificate(serving: &Serving, now: Micros) -> Option<Finding> {
    const NAME: &str = "certificate";
    let file = &serving.tls.as_ref()?.certificate;
    let shown = file.display();
    let ends = match certificate_ends(file) {
        Ok(ends) => Micros(ends.as_microsecond()),
        Err(why) => {
            let remedy = "give the chain as PEM, the server's own certificate first";
            return Some(Finding::of(NAME, State::Bad, format!("{shown}: {why}"), remedy));
        }
    };
    let renew = "renew it; a running server takes the new one on SIGHUP";
    let detail = format!("{shown} ends {}", recalld_common::names::time(ends));
    Some(match ends.0.saturating_sub(now.0) {
        left if left <= 0 => Finding::of(NAME, State::Bad, format!("{detail}: it is over"), renew),
        left if left < CERTIFICATE_LEFT_MIN.0 => Finding::of(NAME, State::Worth, detail, renew),
        _ => Finding::good(NAME, detail),
    })
}

/// Checks that the server's listen addresses are free.
fn listeners(serving: &Serving) -> Vec<Finding> {
    let chosen = [("local", serving.local), ("hosted", serving.hosted)];
    let finding = |(flag, address): (&str, Option<SocketAddr>)| {
        let (name, address) = (format!("{flag} address"), address?);
        Some(match TcpListener::bind(address) {
            Ok(_) => Finding::good(&name, format!("{address} is free")),
            Err(error) => Finding::of(
                &name,
                State::Worth,
                format!("{address}: {error}"),
                format!("end what listens there, or choose another address: --{flag} ADDR"),
            ),
        })
    };
    chosen.into_iter().filter_map(finding).collect()
}

fn open_files() -> Finding {
    const NAME: &str = "open files";
    let wanted = (CONNECTIONS_MAX + DESCRIPTORS_BESIDE) as u64;
    match descriptors::most() {
        Some(most) if most < wanted => Finding::of(
            NAME,
            State::Worth,
            format!("{most} may be open; {wanted} carry the most connections"),
            "raise the hard limit of open files (LimitNOFILE= of a systemd unit, ulimit -Hn)",
        ),
        _ => Finding::good(NAME, format!("as many as the most connections need ({wanted})")),
    }
}

fn folder(data: &Path) -> Finding {
    const NAME: &str = "data";
    let shown = data.display();
    let about = match std::fs::metadata(data) {
        Ok(about) => about,
        Err(error) => {
            return Finding::of(
                NAME,
                State::Bad,
                format!("{shown}: {error}"),
                "run this as the user that serves",
            );
        }
    };
    let mode = about.permissions().mode() & 0o777;
    if !about.is_dir() {
        return Finding::of(
            NAME,
            State::Bad,
            format!("{shown} is no folder"),
            "name another by --data",
        );
    }
    if mode & OTHERS != 0 {
        return Finding::of(
            NAME,
            State::Worth,
            format!("{shown} lets others in (mode {mode:o})"),
            format!("chmod 700 {shown}"),
        );
    }
    Finding::good(NAME, format!("{shown}, for its owner alone"))
}

fn server(data: &Path) -> Finding {
    const NAME: &str = "server";
    if !data.join(SERVING).exists() {
        return Finding::good(NAME, "none runs on these data; recalld serve starts one");
    }
    let health = Remote::find(data).and_then(|remote| remote.health());
    let health = match health {
        Ok(health) => health,
        Err(failure) => {
            let remedy = format!(
                "if no recalld runs, {} was left behind; the next start removes it",
                data.join(SERVING).display()
            );
            return Finding::of(NAME, State::Worth, failure.why(), remedy);
        }
    };
    let (version, own) = (health["version"].as_str().unwrap_or("?"), env!("CARGO_PKG_VERSION"));
    let status = health["status"].as_str().unwrap_or("?");
    if version != own {
        return Finding::of(
            NAME,
            State::Worth,
            format!("version {version} runs, and this is {own}"),
            "start it anew with this version",
        );
    }
    if status != "ok" {
        return Finding::of(
            NAME,
            State::Bad,
            format!("it says that it is {status}"),
            "see the lines below, and its log",
        );
    }
    Finding::good(NAME, format!("version {version} runs and is {status}"))
}

/// Checks the components that an answer needs, by the tool `brain_runtime_check`.
fn parts(desk: &Desk) -> Vec<Finding> {
    let told = match desk.call(None, "brain_runtime_check", json!({})) {
        Ok(told) => told.structured,
        Err(failure) => {
            return vec![Finding::of(
                "store",
                State::Bad,
                failure.why(),
                "mend that first; recalld verify looks closer",
            )];
        }
    };
    let finding = |check: &Value| {
        let name = check["name"].as_str().unwrap_or_default().replace('_', " ");
        let detail = check["detail"].as_str().unwrap_or_default();
        if check["ok"] == true {
            Finding::good(&name, detail)
        } else {
            Finding::of(&name, State::Bad, detail, remedy_of(&name, detail))
        }
    };
    told["checks"].as_array().into_iter().flatten().map(finding).collect()
}

/// The remedy for a failing component.
fn remedy_of(part: &str, detail: &str) -> &'static str {
    match part {
        "control store" if detail.starts_with(SHARED) => {
            "see whether the remote answers: recalld remote status; and whether the node that writes runs"
        }
        "store" => "recalld verify says what is damaged; recalld salvage or restore brings it back",
        "encoder" => {
            "the model's files are not those that the store was made with; give them by --model"
        }
        "ledger" => "recalld ledger verify says where; writes wait until it takes entries again",
        "control store" => "restore it from a backup: recalld restore",
        "disk space" => "free some, or move --data to a larger disk",
        "clock" => "set the clock; if it was set back on purpose: recalld clock accept",
        _ => "see the log",
    }
}

/// Warns that tenants are shared with other nodes if no server runs here to follow their changes.
fn shared(data: &Path) -> Option<Finding> {
    let is_shared = data.join(MARKER).exists() && !data.join(SERVING).exists();
    is_shared.then(|| {
        Finding::of(
            "control store",
            State::Worth,
            format!("{SHARED}, whom nobody follows here now: it is as it was last"),
            "recalld serve with the settings of the remote follows them",
        )
    })
}

fn ledger(desk: &Desk) -> Finding {
    const NAME: &str = "ledger entries";
    let told = match desk.call(None, "ledger_integrity_scan_tool", json!({})) {
        Ok(told) => told.structured,
        Err(failure) => {
            return Finding::of(
                NAME,
                State::Bad,
                failure.why(),
                "recalld ledger verify looks closer",
            );
        }
    };
    let entries = told["entries"].as_u64().unwrap_or_default();
    if told["ok"] == true {
        return Finding::good(NAME, format!("{entries}, one chain, signatures good"));
    }
    let fault = told["fault"].as_str().unwrap_or("a signature is wrong");
    Finding::of(
        NAME,
        State::Bad,
        format!("after {}: {fault}", counted(entries, "good one")),
        "keep the files; recalld ledger verify",
    )
}

fn backups(common: &Common, data: &Path) -> Finding {
    const NAME: &str = "backups";
    let failed = |why: String| Finding::of(NAME, State::Bad, why, "recalld backup --list");
    let raw: Map<String, Value> =
        [("list".to_owned(), json!(true)), ("path".to_owned(), json!(""))].into_iter().collect();
    let bar = Bar::of_command(Unit::Bytes, common.json);
    let list = match job(data, bar, "/operator/backup", &raw, list_backups) {
        Ok(list) => list,
        Err(failure) => return failed(failure.why()),
    };
    if let Some(schedule) = list.schedule {
        if let Some(why) = schedule.failed_why {
            let at = schedule.failed_at.unwrap_or_default();
            let why = format!("the one on schedule, {at}, came to nothing: {why}");
            let remedy = "mend that; the server tries again by itself";
            return Finding::of(NAME, State::Bad, why, remedy);
        }
        if schedule.state == Standing::Overdue {
            let due = schedule.due_at.unwrap_or_default();
            let why = format!("the one on schedule was due {due} and is not made");
            let remedy = "see that the disk of backup.to answers, and the server's log";
            return Finding::of(NAME, State::Bad, why, remedy);
        }
    }
    newest(&list.backups, SystemClock.now())
}

/// Checks the age of the newest backup in a list.
fn newest(backups: &[ListedBackup], now: Micros) -> Finding {
    const NAME: &str = "backups";
    let made = |row: &ListedBackup| recalld_common::names::parse_time(row.made_at.as_deref()?).ok();
    let there = backups.iter().filter(|row| row.seen == Presence::There);
    let newest = there.filter_map(made).max();
    let Some(newest) = newest else {
        return Finding::of(
            NAME,
            State::Worth,
            "none is known",
            "recalld backup DIR, on another disk; or [backup] in the settings, and the server makes them",
        );
    };
    let detail = format!("the newest is of {}", recalld_common::names::time(newest));
    if now.0.saturating_sub(newest.0) > BACKUP_AGE_MAX.0 {
        return Finding::of(
            NAME,
            State::Worth,
            detail,
            "recalld backup DIR; once a day is no effort",
        );
    }
    Finding::good(NAME, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_backup_is_worth_a_word_and_a_missing_one_too() {
        let at = |text: &str| recalld_common::names::parse_time(text).expect("a time");
        let now = at("2026-03-10T00:00:00Z");
        let list = |seen: Presence, made_at: &str| {
            [ListedBackup {
                id: "a".to_owned(),
                made_at: Some(made_at.to_owned()),
                path: None,
                pending: 0,
                scheduled: false,
                seen,
                why: None,
            }]
        };
        let state = |seen, made_at| newest(&list(seen, made_at), now).state;
        assert_eq!(state(Presence::There, "2026-03-09T00:00:00Z"), State::Good);
        assert_eq!(state(Presence::There, "2026-03-01T00:00:00Z"), State::Worth);
        assert_eq!(state(Presence::Missing, "2026-03-09T00:00:00Z"), State::Worth);
        assert_eq!(newest(&[], now).state, State::Worth);
    }
}
