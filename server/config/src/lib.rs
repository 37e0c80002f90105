//! The settings file: plain data with defaults, validated key by key, and rendered again.
//!
//! Defines the keys and their allowed values (govern.md, Settings). Must not open files that settings name, contain
//! secrets, or own live parts of the service.
#![forbid(unsafe_code)]

pub mod backups;
pub mod layers;
pub mod limits;
mod plans;
pub mod remote;
pub mod serving;
pub mod settings;
pub mod written;

use std::path::{Path, PathBuf};

use engine::Micros;

use toml::Table;

use self::backups::ScheduledBackup;
use self::remote::Remote;
use self::serving::{Logging, ModelChoice, Serving};
use recalld_audit::AuditSync;
use recalld_auth::Prefix;
use recalld_common::keys::{KeyFault, Keys, quoted, quoted_list, text_of};
use recalld_common::network::Network;
use recalld_policy::identity::Enforcement;
use recalld_policy::plans::Plans;

use recalld_common::keys::FileFault;

limit_table::limits! {
    pub const LIMITS = [backups, limits, plans, remote, serving];

    /// Maximum size of a settings file in bytes; all plans with all names have a tenth of it.
    pub const CONFIG_BYTES_MAX: usize = 1024 * 1024;

    /// Maximum number of legacy hosts.
    pub const LEGACY_HOSTS_MAX: usize = 16;

    /// Maximum number of networks of proxies in front of the hosted listener.
    pub const TRUSTED_PROXIES_MAX: usize = 64;

    /// Maximum length of a network: IPv6 with an embedded IPv4 address, and a prefix.
    const NETWORK_BYTES_MAX: usize = 50;

    /// Maximum length of a host name in bytes (RFC 1035, section 2.3.4, without the final dot).
    const HOST_BYTES_MAX: usize = 253;

    /// Maximum length of a host name's label in bytes.
    const LABEL_BYTES_MAX: usize = 63;

    /// Maximum length of a mail server's user and of a sender (RFC 5321, section 4.5.3.1, with a display name).
    const MAIL_TEXT_BYTES_MAX: usize = 320;

    /// Minimum, maximum and default lifetime of an access token, in seconds.
    const ACCESS_TOKEN_SECONDS_MIN: u64 = 60;
    const ACCESS_TOKEN_SECONDS_MAX: u64 = 86_400;
    const ACCESS_TOKEN_SECONDS: u64 = 3_600;
}

/// 2026-11-09T00:00:00Z, the default end of the legacy hosts.
const LEGACY_UNTIL: Micros = Micros(1_794_182_400_000_000);

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Listeners and operation of the server.
    pub serving: Serving,
    /// Settings of the log.
    pub log: Logging,
    /// Settings of the encoder.
    pub model: ModelChoice,
    /// The scheduled backup, if any.
    pub backup: Option<ScheduledBackup>,
    /// The object store to which workspaces are replicated or from which they are followed, if any.
    pub remote: Option<Remote>,
    /// Settings of the authorization server.
    pub oauth: OAuth,
    /// Proxies in front of the hosted listener whose client addresses are trusted.
    pub trusted_proxies: Vec<Network>,
    /// Enforcement of turn identities.
    pub identity: Enforcement,
    /// Legacy hosts of before the migration.
    pub legacy: Legacy,
    /// The plans.
    pub plans: Plans,
    /// The mail server; `None` if no mail is sent.
    pub mail: Option<Mail>,
    /// File of policy rules that replace the built-in ones.
    pub policy_file: Option<PathBuf>,
    /// Sync mode of ledger entries of reads: within 50 ms, or before the response.
    pub audit_sync: AuditSync,
}

/// Settings of the authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth {
    /// Lifetime of an access token in seconds.
    pub access_token_seconds: u64,
    /// Prefix of new keys.
    pub key_prefix: Prefix,
}

/// Legacy hosts of before the migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Legacy {
    /// Host names in lower case, without ports.
    pub hosts: Vec<String>,
    /// Credentials issued before this time are valid under these hosts; `None` if no credential is.
    pub migrated_at: Option<Micros>,
    /// Time from which these hosts answer 410.
    pub until: Micros,
}

/// Settings of the mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// Host name or IP address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Encryption of the connection.
    pub security: MailSecurity,
    /// Credentials for the server, if required.
    pub login: Option<MailLogin>,
    /// Sender of the mails: `ADDRESS` or `NAME <ADDRESS>`.
    pub from: String,
}

/// Credentials for the mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailLogin {
    /// The user name.
    pub user: String,
    /// File that contains only the password, readable by its owner only.
    pub password_file: PathBuf,
}

/// Encryption of the connection to the mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailSecurity {
    /// Implicit TLS (RFC 8314).
    Tls,
    /// TLS after STARTTLS, or no mail is sent (RFC 3207).
    StartTls,
    /// No encryption; for a server on this machine.
    None,
}

impl MailSecurity {
    const ALL: &'static [Self] = &[Self::Tls, Self::StartTls, Self::None];

    fn word(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::StartTls => "starttls",
            Self::None => "none",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Tls => 465,
            Self::StartTls => 587,
            Self::None => 25,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            serving: Serving::default(),
            log: Logging::default(),
            model: ModelChoice::default(),
            backup: None,
            remote: None,
            oauth: OAuth {
                access_token_seconds: ACCESS_TOKEN_SECONDS,
                key_prefix: Prefix::default(),
            },
            trusted_proxies: Vec::new(),
            identity: Enforcement::default(),
            legacy: Legacy { hosts: Vec::new(), migrated_at: None, until: LEGACY_UNTIL },
            plans: Plans::built_in(),
            mail: None,
            policy_file: None,
            audit_sync: AuditSync::default(),
        }
    }
}

impl Config {
    /// Reads a file. Relative paths start at the file's folder; `tools` are the tool names that plans may contain.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or contains an invalid key or value.
    pub fn read(path: &Path, tools: &[&'static str]) -> Result<Self, FileFault> {
        let text = text_of(path, CONFIG_BYTES_MAX)?;
        Self::parse(&text, path.parent().unwrap_or(Path::new("")), tools)
    }

    /// Parses the text of a file in `folder`.
    ///
    /// # Errors
    /// The errors of [`Config::read`].
    pub fn parse(text: &str, folder: &Path, tools: &[&'static str]) -> Result<Self, FileFault> {
        let table = Keys::table_of(text)?;
        Self::of_table(table, folder, tools).map_err(|fault| FileFault::from(fault).placed(text))
    }

    /// Reads the root table of a file in `folder`.
    fn of_table(table: Table, folder: &Path, tools: &[&'static str]) -> Result<Self, KeyFault> {
        let mut keys = Keys::of(table);
        let mut serving = Serving::default();
        serving.local(keys.table("local")?)?;
        let trusted_proxies = serving.hosted(keys.table("hosted")?, folder)?;
        serving.server(keys.table("server")?, folder)?;
        serving.store(keys.table("store")?)?;
        let config = Self {
            serving,
            log: serving::logging(keys.table("log")?)?,
            model: serving::model(keys.table("model")?, folder)?,
            backup: backups::read(keys.table("backup")?, folder)?,
            remote: remote::read(keys.table("remote")?, folder)?,
            oauth: oauth(keys.table("oauth")?)?,
            trusted_proxies,
            identity: identity(keys.table("identity")?)?,
            legacy: legacy(keys.table("legacy")?)?,
            plans: plans::read(keys.table("plans")?, tools)?,
            mail: if keys.has("mail") { Some(mail(keys.table("mail")?, folder)?) } else { None },
            policy_file: policy_file(keys.table("policy")?, folder)?,
            audit_sync: audit_sync(keys.table("audit")?)?,
        };
        keys.finish()?;
        Ok(config)
    }

    /// Renders all effective settings as a file with the same meaning. Contains no secret.
    pub fn show(&self) -> String {
        let Self { serving, log, model, backup, remote, trusted_proxies, .. } = self;
        let Self { oauth, identity, legacy, plans, mail, policy_file, audit_sync, .. } = self;
        let mut out = serving.show(trusted_proxies);
        out += &serving::show_logging(log);
        out += &serving::show_model(model);
        out += &backups::show(backup.as_ref());
        out += &remote::show(remote.as_ref());
        out += &format!(
            "\n[oauth]\naccess_token_seconds = {}\nkey_prefix = {}\n",
            oauth.access_token_seconds,
            quoted(oauth.key_prefix.as_str())
        );
        out += &format!("\n[identity]\nenforcement = {}\n", quoted(identity.word()));
        out += &format!(
            "\n[legacy]\nhosts = {}\nuntil = {}\n",
            quoted_list(legacy.hosts.iter().map(String::as_str)),
            quoted(&recalld_common::names::time(legacy.until))
        );
        if let Some(migrated_at) = legacy.migrated_at {
            out +=
                &format!("migrated_at = {}\n", quoted(&recalld_common::names::time(migrated_at)));
        }
        out += &plans::show(plans);
        if let Some(Mail { host, port, security, login, from }) = mail {
            out += &format!("\n[mail]\nhost = {}\nport = {port}\n", quoted(host));
            out += &format!("security = {}\nfrom = {}\n", quoted(security.word()), quoted(from));
            if let Some(MailLogin { user, password_file }) = login {
                let file = password_file.to_string_lossy();
                out += &format!("user = {}\npassword_file = {}\n", quoted(user), quoted(&file));
            }
        }
        if let Some(file) = policy_file {
            out += &format!("\n[policy]\nfile = {}\n", quoted(&file.to_string_lossy()));
        }
        out + &format!("\n[audit]\nsync = {}\n", quoted(audit_sync.word()))
    }
}

fn oauth(mut keys: Keys) -> Result<OAuth, KeyFault> {
    let range = ACCESS_TOKEN_SECONDS_MIN..=ACCESS_TOKEN_SECONDS_MAX;
    let seconds = keys.whole("access_token_seconds", range)?.unwrap_or(ACCESS_TOKEN_SECONDS);
    let key_prefix = match keys.text("key_prefix", recalld_common::keys::TEXT_BYTES_MAX)? {
        None => Prefix::default(),
        Some(text) => Prefix::new(&text).ok_or_else(|| {
            let allowed = "1 to 32 characters a-z 0-9, the first of them a letter";
            keys.fault("key_prefix", &text, allowed)
        })?,
    };
    keys.finish()?;
    Ok(OAuth { access_token_seconds: seconds, key_prefix })
}

fn trusted_proxies(keys: &mut Keys) -> Result<Vec<Network>, KeyFault> {
    const KEY: &str = "trusted_proxies";
    let given = keys.texts(KEY, TRUSTED_PROXIES_MAX, NETWORK_BYTES_MAX)?.unwrap_or_default();
    let network = |text: &String| {
        let allowed =
            "addresses, or networks whose address is zero behind the prefix, such as 10.0.0.0/8";
        text.parse().map_err(|_| keys.fault(KEY, text, allowed))
    };
    given.iter().map(network).collect()
}

fn identity(mut keys: Keys) -> Result<Enforcement, KeyFault> {
    let enforcement = keys.word("enforcement", Enforcement::ALL, Enforcement::word)?;
    keys.finish()?;
    Ok(enforcement.unwrap_or_default())
}

fn legacy(mut keys: Keys) -> Result<Legacy, KeyFault> {
    let given = keys.texts("hosts", LEGACY_HOSTS_MAX, HOST_BYTES_MAX)?.unwrap_or_default();
    let mut hosts = Vec::with_capacity(given.len());
    for host in given {
        let lower = host.to_ascii_lowercase();
        if !is_host(&lower) || hosts.contains(&lower) {
            return Err(keys.fault("hosts", &host, "names of hosts without ports, each once"));
        }
        hosts.push(lower);
    }
    let mut time = |key| Ok(keys.time(key)?.map(|time| Micros(time.as_microsecond())));
    let (migrated_at, until) = (time("migrated_at")?, time("until")?.unwrap_or(LEGACY_UNTIL));
    if let Some(migrated_at) = migrated_at.filter(|migrated_at| *migrated_at >= until) {
        let allowed = format!("a time before `until`, {}", recalld_common::names::time(until));
        return Err(keys.fault("migrated_at", &recalld_common::names::time(migrated_at), allowed));
    }
    keys.finish()?;
    Ok(Legacy { hosts, migrated_at, until })
}

fn mail(mut keys: Keys, folder: &Path) -> Result<Mail, KeyFault> {
    let security = keys.word("security", MailSecurity::ALL, MailSecurity::word)?;
    let security = security.unwrap_or(MailSecurity::Tls);
    let host = keys.text("host", HOST_BYTES_MAX)?;
    let host =
        host.ok_or_else(|| keys.missing("host", "the name or address of the mail server"))?;
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    if !is_address && !is_host(&host.to_ascii_lowercase()) {
        return Err(keys.fault("host", &host, "the name or IP address of a host, without a port"));
    }
    let port = keys.whole("port", 1..=u64::from(u16::MAX))?;
    let port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or(security.port());
    let from = keys.text("from", MAIL_TEXT_BYTES_MAX)?;
    let from = from.ok_or_else(|| keys.missing("from", "the address that letters come from"))?;
    if !is_sender(&from) {
        let allowed = "an address such as memory@example.com, or Memory <memory@example.com>";
        return Err(keys.fault("from", &from, allowed));
    }
    let user = keys.text("user", MAIL_TEXT_BYTES_MAX)?;
    let password_file = keys.text("password_file", recalld_common::keys::TEXT_BYTES_MAX)?;
    let login = match (user, password_file) {
        (None, None) => None,
        (Some(user), Some(file)) => Some(MailLogin { user, password_file: folder.join(file) }),
        (Some(_), None) => {
            return Err(keys.missing("password_file", "the file with the password of `user`"));
        }
        (None, Some(_)) => {
            return Err(keys.missing("user", "whom the password in `password_file` is of"));
        }
    };
    if login.is_some() && security == MailSecurity::None && !is_loopback(&host) {
        let allowed = "tls or starttls where a password is sent to another machine";
        return Err(keys.fault("security", security.word(), allowed));
    }
    keys.finish()?;
    Ok(Mail { host, port, security, login, from })
}

fn policy_file(mut keys: Keys, folder: &Path) -> Result<Option<PathBuf>, KeyFault> {
    let file = keys.text("file", recalld_common::keys::TEXT_BYTES_MAX)?;
    keys.finish()?;
    Ok(file.map(|file| folder.join(file)))
}

fn audit_sync(mut keys: Keys) -> Result<AuditSync, KeyFault> {
    let sync = keys.word("sync", AuditSync::ALL, AuditSync::word)?;
    keys.finish()?;
    Ok(sync.unwrap_or_default())
}

/// Returns true for a host name in lower case: labels of letters, digits and inner hyphens (RFC 1123, section 2.1).
fn is_host(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    name.len() <= HOST_BYTES_MAX && name.split('.').all(is_label)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback())
}

/// Returns true for an address, or a name and an address in angle brackets. The mail client validates the sender more
/// strictly.
fn is_sender(text: &str) -> bool {
    let address = match text.split_once('<') {
        None => Some(text),
        Some((_, rest)) => rest.strip_suffix('>'),
    };
    address.and_then(|address| address.split_once('@')).is_some_and(|(user, host)| {
        let is_plain = |char: char| char.is_ascii_graphic() && !"<>@,;:\"()[]\\".contains(char);
        !user.is_empty() && user.chars().all(is_plain) && is_host(&host.to_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests;
