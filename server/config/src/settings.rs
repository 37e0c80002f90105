//! The list of all settings: key, flag, variable, default and description.
//!
//! Contains only the list. Neighbouring files read, render and document settings by this list; the file of a table
//! defines the meaning of its values. `plans.NAME` is not in the list, because its names are chosen by the operator.

/// Type of a value, as needed to pass a flag or a variable on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A word of a fixed set.
    Word(&'static [&'static str]),
    /// An integer in a range.
    Whole(u64, u64),
    /// `true` or `false`; the flag has no value.
    Flag,
    /// Texts; the flag is repeated, and the variable has commas between values.
    Texts,
    /// A path; in a file, relative to the file's folder.
    Path,
    /// Paths; the flag is repeated, and the variable has colons between values.
    Paths,
}

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Table and name: `hosted.address`.
    pub key: &'static str,
    /// Flag without the hyphens; settings without a flag of their own are set with `--set KEY=VALUE`.
    pub flag: Option<&'static str>,
    /// Type of the value.
    pub kind: Kind,
    /// Default value in TOML, if any.
    pub default: Option<&'static str>,
    /// Example value in TOML; equal to the default, if there is one.
    pub example: &'static str,
    /// Description.
    pub what: &'static str,
    /// True if a running server applies a new value on SIGHUP.
    pub is_live: bool,
}

impl Setting {
    const fn new(key: &'static str, kind: Kind, default: &'static str, what: &'static str) -> Self {
        Self {
            key,
            flag: None,
            kind,
            default: Some(default),
            example: default,
            what,
            is_live: false,
        }
    }

    /// Creates a setting without a default.
    const fn open(
        key: &'static str,
        kind: Kind,
        example: &'static str,
        what: &'static str,
    ) -> Self {
        Self { key, flag: None, kind, default: None, example, what, is_live: false }
    }

    const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    const fn live(mut self) -> Self {
        self.is_live = true;
        self
    }

    /// Finds the setting of a key.
    pub fn named(key: &str) -> Option<&'static Self> {
        SETTINGS.iter().find(|setting| setting.key == key)
    }

    /// Table of the key.
    pub fn table(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(table, _)| table)
    }

    /// Name within the table.
    pub fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }

    /// Name of the environment variable, derived from the flag, or else from the key.
    pub fn variable(&self) -> String {
        let name = self.flag.unwrap_or(self.key);
        format!("RECALLD_{}", name.replace(['.', '-'], "_").to_ascii_uppercase())
    }

    /// The flag as typed.
    pub fn typed(&self) -> String {
        match self.flag {
            Some(flag) => format!("--{flag}"),
            None => format!("--set {}", self.key),
        }
    }
}

/// Names and descriptions of the tables, in the order of a file.
pub const TABLES: &[(&str, &str)] = &[
    ("local", "The listener for the operator of this machine: token-free, on loopback alone."),
    ("hosted", "The listener for everybody else."),
    ("server", "Calls, and what is read first."),
    ("store", "How the store writes and searches."),
    ("log", "Lines on standard error."),
    (
        "model",
        "The encoder. Commands that work without a server take the flags and the variables, not the file.",
    ),
    ("backup", "Backups that a running server makes by itself. Off until `to` is set."),
    (
        "remote",
        "The object store that workspaces are carried to, or followed from. Off until `to` or `replica_of` is set.",
    ),
    ("oauth", "How people and services sign in."),
    ("identity", "For whom a call is made."),
    ("legacy", "Hosts of before the migration."),
    ("mail", "How letters are sent. Without it none are; with it `host` and `from` must be there."),
    ("policy", "Who may see and do what."),
    ("audit", "The ledger."),
];

use Kind::{Flag, Path, Paths, Text, Texts, Whole, Word};

/// All settings, in the order of a file.
pub const SETTINGS: &[Setting] = &[
    Setting::new(
        "local.address",
        Text,
        "\"127.0.0.1:8788\"",
        "Address for this machine's operator, of loopback, or `off`. Port 0 takes a free one.",
    )
    .flag("local"),
    Setting::new(
        "hosted.address",
        Text,
        "\"off\"",
        "Address for tenants, or `off`: with TLS, or without it behind a gateway.",
    )
    .flag("hosted"),
    Setting::open(
        "hosted.public_url",
        Text,
        "\"https://recall.example\"",
        "Where the hosted listener is reached from outside, such as https://recall.example: an origin. Access tokens \
         are issued by it and for its /mcp. Without it the listener's own address is taken, if it is one of this \
         machine; else nobody can sign in.",
    )
    .flag("public-url"),
    Setting::open(
        "hosted.tls_cert",
        Path,
        "\"chain.pem\"",
        "Certificates of the hosted listener: a PEM file, the server's own first. Read again on SIGHUP.",
    )
    .flag("tls-cert"),
    Setting::open(
        "hosted.tls_key",
        Path,
        "\"key.pem\"",
        "The certificate's private key: a PEM file that others cannot read.",
    )
    .flag("tls-key"),
    Setting::new(
        "hosted.peer_connections",
        Whole(1, recalld_http_server::limits::CONNECTIONS_MAX as u64),
        "1024",
        "Most connections of one address (of IPv6, of one /64) on the hosted listener. Behind a gateway all \
         connections are the gateway's: raise it there.",
    )
    .flag("peer-connections"),
    Setting::new(
        "hosted.trusted_proxies",
        Texts,
        "[]",
        "Addresses or networks (10.0.0.0/8) whose word counts for whom they ask.",
    ),
    Setting::new(
        "server.allow_origins",
        Texts,
        "[]",
        "Let pages of these origins ask, such as https://app.example. Without it only the program's own pages may. \
         Opened on this machine such a page acts as you, since the local /mcp asks for no token.",
    )
    .flag("allow-origin"),
    Setting::new(
        "server.call_time_seconds",
        Whole(1, recalld_policy::limits::CALL_TIME_MAX.as_secs()),
        "120",
        "How long a tool call may take, in seconds.",
    )
    .flag("call-time"),
    Setting::new("server.ingest", Paths, "[]", "Ingest these files or folders at each start.").flag("ingest"),
    Setting::new(
        "store.durability",
        Word(&["sync", "interval"]),
        "\"sync\"",
        "When a write is acknowledged: `sync`, once it survives a power cut; `interval`, once it survives the end of \
         the process, and a power cut takes at most the last 50 ms.",
    )
    .flag("durability"),
    Setting::new(
        "store.search_mode",
        Word(&["auto", "exact", "approximate"]),
        "\"auto\"",
        "How to search by meaning: `exact`; `approximate`, through each index that there is; `auto`, exactly up to \
         300,000 embeddings, and from there on through indexes once they have caught up.",
    )
    .flag("search-mode"),
    Setting::new(
        "log.format",
        Word(&["text", "json"]),
        "\"text\"",
        "How log lines are written: for people, or as JSON.",
    )
    .flag("log-format")
    .live(),
    Setting::new(
        "log.level",
        Word(&["error", "warn", "info", "debug"]),
        "\"info\"",
        "The least important lines that are written.",
    )
    .flag("log-level")
    .live(),
    Setting::new("log.access", Flag, "false", "Write a line for each request, whatever the level.")
        .flag("access-log")
        .live(),
    Setting::open(
        "model.directory",
        Path,
        "\"/opt/models/all-MiniLM-L6-v2\"",
        "Folder with the encoder's files. Without it: where they were when the store's model was used last, else the \
         default model's.",
    )
    .flag("model"),
    Setting::new(
        "model.kernel",
        Word(&["auto", "scalar", "avx2", "avx512", "amx", "neon", "neon-dot"]),
        "\"auto\"",
        "Which instructions vectors are computed with; `auto` takes the widest that this CPU has.",
    )
    .flag("kernel"),
    Setting::new(
        "model.precision",
        Word(&["auto", "f32", "f16", "int8"]),
        "\"auto\"",
        "How the encoder's weights are stored; `auto` takes the fastest that is faithful.",
    )
    .flag("precision"),
    Setting::open(
        "backup.to",
        Path,
        "\"/mnt/backups/recalld\"",
        "The folder in which backups are made, each in one of its own: `recalld-` and its time. Best on another disk.",
    )
    .live(),
    Setting::new("backup.every", Word(&["hour", "day", "week"]), "\"day\"", "How often.").live(),
    Setting::new(
        "backup.at",
        Text,
        "\"03:30\"",
        "At which time of the day, HH:MM; of every hour, only the minutes count.",
    )
    .live(),
    Setting::new(
        "backup.weekday",
        Word(&["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]),
        "\"sunday\"",
        "On which day, where it is every week.",
    )
    .live(),
    Setting::open(
        "backup.time_zone",
        Text,
        "\"Europe/Berlin\"",
        "The zone that `at` is meant in, by its IANA name. Without it that of the machine.",
    )
    .live(),
    Setting::new(
        "backup.keep",
        Whole(1, super::backups::BACKUPS_KEPT_MAX),
        "7",
        "How many are kept. Older ones that the server made are removed once a new one was checked; others never are.",
    )
    .live(),
    Setting::new(
        "backup.with_keys",
        Flag,
        "false",
        "Copy the credentials and the signing keys, too: whoever has the backup can then act as you.",
    )
    .live(),
    Setting::new(
        "backup.verify",
        Flag,
        "true",
        "Read each backup once more after it was made, as `recalld verify` does.",
    )
    .live(),
    Setting::open(
        "remote.to",
        Text,
        "\"s3://BUCKET/PREFIX\"",
        "Carry what is written to this object store, as the one who writes: s3://BUCKET/PREFIX or file:///FOLDER.",
    )
    .flag("remote"),
    Setting::open(
        "remote.replica_of",
        Text,
        "\"s3://BUCKET/PREFIX\"",
        "Follow what others carry there, and answer questions about it; nothing is written.",
    )
    .flag("replica-of"),
    Setting::new(
        "remote.durability",
        Word(&["local", "remote"]),
        "\"remote\"",
        "Where a write must be before it is acknowledged: on this disk, or where it survives the loss of this machine.",
    ),
    Setting::open(
        "remote.coordinator",
        Text,
        "\"etcd://HOST:2379,HOST:2379/PREFIX\"",
        "Where chains and leases are, with an object store that does not honour `If-None-Match`.",
    )
    .flag("coordinator"),
    Setting::open(
        "remote.node",
        Text,
        "\"box-1\"",
        "What this node is called among others. Without it a name is made and kept in the data directory.",
    ),
    Setting::open(
        "remote.node_url",
        Text,
        "\"https://box-1.example.com\"",
        "Where other nodes and their clients reach this one.",
    ),
    Setting::new(
        "remote.lease_seconds",
        Whole(5, 300),
        "15",
        "How long others wait for a sign of life of this node before they take over what it writes.",
    ),
    Setting::new(
        "remote.delay_ms",
        Whole(1, super::remote::DELAY_MS_MAX),
        "1000",
        "With `local`: how long a write may wait on this machine before it is sent.",
    ),
    Setting::new(
        "remote.stale_seconds_max",
        Whole(1, super::remote::STALE_SECONDS_MAX),
        "30",
        "How far behind an answer of a follower may be; past it questions are answered 503.",
    ),
    Setting::new(
        "remote.wrong_node",
        Word(&["proxy", "redirect"]),
        "\"proxy\"",
        "What becomes of a call that belongs to another node: it is passed on, or its client is told where to ask.",
    ),
    Setting::open(
        "remote.secret_file",
        Path,
        "\"/etc/recalld/nodes.secret\"",
        "A secret that is the same on all nodes, made by `recalld remote secret FILE`: with it a grounding token of \
         one node is good on all, and tenants, their keys and quotas are known on all.",
    ),
    Setting::new(
        "remote.keep_hours",
        Whole(0, super::remote::KEEP_HOURS_MAX),
        "168",
        "How far back a workspace can be restored, to some time in each hour.",
    ),
    Setting::new(
        "remote.keep_fine_hours",
        Whole(0, super::remote::KEEP_HOURS_MAX),
        "24",
        "How far back it can be restored to any time.",
    ),
    Setting::open(
        "remote.cache_bytes",
        Whole(recalld_replication::limits::CACHE_BYTES_MIN, super::remote::CACHE_BYTES_MAX),
        "107374182400",
        "Bytes of segments of followed workspaces that are kept on this disk; unset, half of what is free at the \
         start.",
    ),
    Setting::open(
        "remote.endpoint",
        Text,
        "\"https://s3.example.com\"",
        "Where the object store answers, if neither AWS's own nor AWS_ENDPOINT_URL.",
    ),
    Setting::open("remote.region", Text, "\"eu-central-1\"", "Its region, if not AWS_REGION."),
    Setting::open(
        "remote.path_style",
        Flag,
        "true",
        "Whether the bucket is part of the path and not of the host's name; with another endpoint than AWS's it is.",
    ),
    Setting::new(
        "remote.allow_http",
        Flag,
        "false",
        "Let plain HTTP go beyond this machine. To the object store it carries what you store; to other nodes, with \
         `wrong_node = \"proxy\"`, the credentials of clients as well.",
    ),
    Setting::open(
        "remote.ca_file",
        Path,
        "\"/etc/recalld/ca.pem\"",
        "Certificates to believe in place of the usual ones.",
    ),
    Setting::new(
        "oauth.access_token_seconds",
        Whole(super::ACCESS_TOKEN_SECONDS_MIN, super::ACCESS_TOKEN_SECONDS_MAX),
        "3600",
        "How long an access token lives.",
    ),
    Setting::new(
        "oauth.key_prefix",
        Text,
        "\"recalld\"",
        "What new keys begin with: 1 to 32 characters a-z 0-9, the first a letter.",
    ),
    Setting::new(
        "identity.enforcement",
        Word(&["off", "record", "require"]),
        "\"off\"",
        "Whether each call records for whom it is made, and whether one for nobody is refused.",
    ),
    Setting::new("legacy.hosts", Texts, "[]", "Names of hosts of before the migration, without ports."),
    Setting::open(
        "legacy.migrated_at",
        Text,
        "\"2026-06-01T00:00:00Z\"",
        "Before it credentials were issued that are still good under these names: a time with its offset.",
    ),
    Setting::new("legacy.until", Text, "\"2026-11-09T00:00:00Z\"", "From when on they answer 410."),
    Setting::open("mail.host", Text, "\"mail.example.com\"", "The name or address of the mail server."),
    Setting::open("mail.port", Whole(1, 65_535), "465", "Its port: 465, 587 or 25, by `security`, if not said."),
    Setting::new(
        "mail.security",
        Word(&["tls", "starttls", "none"]),
        "\"tls\"",
        "How the way there is secured; `none` is for a server on this machine.",
    ),
    Setting::open("mail.user", Text, "\"memory\"", "Whom the server knows; with `password_file`."),
    Setting::open(
        "mail.password_file",
        Path,
        "\"mail-password\"",
        "A file with nothing but the password, which only its owner may read.",
    ),
    Setting::open(
        "mail.from",
        Text,
        "\"Memory <memory@example.com>\"",
        "Whom letters come from: an address, or a name and an address in angle brackets.",
    ),
    Setting::open("policy.file", Path, "\"policy.toml\"", "Rules that take the place of the initial ones."),
    Setting::new(
        "audit.sync",
        Word(&["batched", "always"]),
        "\"batched\"",
        "When ledger entries of calls that change nothing are on disk: within 50 ms, or before the answer leaves.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_key_flag_and_variable_is_there_once_and_each_table_is_told_of() {
        let keys: BTreeSet<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
        let variables: BTreeSet<String> = SETTINGS.iter().map(Setting::variable).collect();
        assert_eq!((keys.len(), variables.len()), (SETTINGS.len(), SETTINGS.len()));
        let tables: Vec<&str> = TABLES.iter().map(|(name, _)| *name).collect();
        let mut met: Vec<&str> = SETTINGS.iter().map(Setting::table).collect();
        met.dedup();
        assert_eq!(met, tables, "in the same order, each in one piece");
    }

    #[test]
    fn the_variable_is_named_as_the_flag_is() {
        let variable = |key| Setting::named(key).unwrap().variable();
        assert_eq!(variable("hosted.address"), "RECALLD_HOSTED");
        assert_eq!(variable("log.access"), "RECALLD_ACCESS_LOG");
        assert_eq!(variable("oauth.key_prefix"), "RECALLD_OAUTH_KEY_PREFIX");
    }
}
