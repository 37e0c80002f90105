//! `recalld doctor`: everything that an installation needs, looked at one by one; of what is wrong, what to do.
//!
//! Looks and changes nothing: where there is no data directory yet, it makes none.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use engine::Micros;
use engine::os::clock::{Clock, SystemClock};
use serde_json::{Map, Value, json};

use super::call::Desk;
use super::keep::job;
use super::recall::plain;
use super::remote::Remote;
use super::tell::{tell, tell_line};
use super::{Common, Failure, descriptors};
use crate::app::SERVING;
use crate::config::Config;
use crate::limits::{CONNECTIONS_MAX, DESCRIPTORS_BESIDE};
use crate::model::{Bar, Unit};
use crate::operator::{self, Backup};

/// A newest backup that is older is worth a word.
const BACKUP_AGE_MAX: Micros = Micros(7 * 24 * 3_600_000_000);
/// Bits of a mode that let others than the owner in.
const OTHERS: u32 = 0o077;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    common: Common,
    /// The settings that the service is started with.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Good,
    /// It works, and something should be done.
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

/// One thing that was looked at.
struct Finding {
    name: String,
    state: State,
    detail: String,
    /// What to do; empty where nothing is to be done.
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
        tell(&findings.iter().map(line).collect::<String>())?;
    }
    match bad {
        0 => Ok(()),
        1 => Err(Failure::No("1 thing is wrong; what to do stands beside it".to_owned())),
        more => Err(Failure::No(format!("{more} things are wrong; what to do stands beside each"))),
    }
}

fn line(finding: &Finding) -> String {
    let (word, name) = (finding.state.word(), &finding.name);
    let mut line = format!("{word:<5}{name:<16}{}\n", plain(&finding.detail));
    if !finding.remedy.is_empty() {
        line.push_str(&format!("{:21}-> {}\n", "", finding.remedy));
    }
    line
}

fn look(args: &DoctorArgs) -> Result<Vec<Finding>, Failure> {
    let common = &args.common;
    let data = common.data()?;
    let mut findings = vec![
        Finding::good(
            "program",
            format!("recalld {}, {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH),
        ),
        instructions(common),
        settings(args.config.as_deref()),
        open_files(),
    ];
    if !data.try_exists().map_err(|error| Failure::Could(format!("{}: {error}", data.display())))? {
        findings.push(Finding::of(
            "data",
            State::Worth,
            format!("{} is not there yet", data.display()),
            "recalld serve, ingest or remember makes it",
        ));
        return Ok(findings);
    }
    findings.push(folder(&data));
    findings.push(server(&data));
    match Desk::open(common) {
        Ok(desk) => {
            findings.extend(parts(&desk));
            findings.push(ledger(&desk));
        }
        Err(failure) => findings.push(Finding::of(
            "store",
            State::Bad,
            failure.why(),
            "mend that first; recalld verify looks closer",
        )),
    }
    findings.push(backups(common, &data));
    Ok(findings)
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

fn settings(file: Option<&Path>) -> Finding {
    const NAME: &str = "settings";
    let Some(file) = file else {
        return Finding::good(NAME, "the defaults; --config FILE looks at yours");
    };
    match Config::read(file) {
        Ok(_) => Finding::good(NAME, format!("{} would be taken", file.display())),
        Err(fault) => Finding::of(
            NAME,
            State::Bad,
            format!("{}: {fault}", file.display()),
            "mend that line; `recalld config show` prints every key with its default",
        ),
    }
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

/// The parts that an answer needs, as `brain_runtime_check` tries them.
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
            Finding::of(&name, State::Bad, detail, remedy_of(&name))
        }
    };
    told["checks"].as_array().into_iter().flatten().map(finding).collect()
}

/// What to do about a part that fails.
fn remedy_of(part: &str) -> &'static str {
    match part {
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
        format!("after {entries} good ones: {fault}"),
        "keep the files; recalld ledger verify",
    )
}

fn backups(common: &Common, data: &Path) -> Finding {
    const NAME: &str = "backups";
    let failed = |why: String| Finding::of(NAME, State::Bad, why, "recalld backup --list");
    let raw: Map<String, Value> =
        [("list".to_owned(), json!(true)), ("path".to_owned(), json!(""))].into_iter().collect();
    let wanted = match Backup::parse(&raw) {
        Ok(wanted) => wanted,
        Err(error) => return failed(error.to_string()),
    };
    let bar = Bar::of_command(Unit::Bytes, common.json);
    let report = job(data, bar, "/operator/backup", &raw, |keeper| {
        operator::backup(keeper, &Value::Object(raw.clone()), &wanted)
    });
    let report = match report {
        Ok(report) => report,
        Err(failure) => return failed(failure.why()),
    };
    newest(&report, SystemClock.now())
}

/// What the newest backup of a list says.
fn newest(report: &Value, now: Micros) -> Finding {
    const NAME: &str = "backups";
    let made =
        |row: &Value| row["made_at"].as_str().and_then(|at| crate::names::parse_time(at).ok());
    let rows = report["backups"].as_array().into_iter().flatten();
    let newest = rows.filter(|row| row["seen"] == "there").filter_map(made).max();
    let Some(newest) = newest else {
        return Finding::of(
            NAME,
            State::Worth,
            "none is known",
            "recalld backup DIR, on another disk",
        );
    };
    let detail = format!("the newest is of {}", crate::names::time(newest));
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
        let at = |text: &str| crate::names::parse_time(text).expect("a time");
        let now = at("2026-03-10T00:00:00Z");
        let list =
            |seen: &str, made_at: &str| json!({"backups": [{"seen": seen, "made_at": made_at}]});
        assert_eq!(newest(&list("there", "2026-03-09T00:00:00Z"), now).state, State::Good);
        assert_eq!(newest(&list("there", "2026-03-01T00:00:00Z"), now).state, State::Worth);
        assert_eq!(newest(&list("missing", "2026-03-09T00:00:00Z"), now).state, State::Worth);
        assert_eq!(newest(&json!({"backups": []}), now).state, State::Worth);
    }
}
