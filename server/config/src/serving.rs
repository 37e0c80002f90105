//! `[local]`, `[hosted]`, `[server]`, `[store]`, `[log]`, `[model]`: listeners, operation and log of the server.

use recalld_http_server::origin::Origin;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::settings::{Kind, Setting};
use crate::limits::{ORIGINS_MAX, PEER_CONNECTIONS_DEFAULT};
use recalld_common::keys::{KeyFault, Keys, TEXT_BYTES_MAX, quoted, quoted_list};
use recalld_common::network::Network;
use recalld_http_server::limits::{CONNECTIONS_MAX, ORIGIN_BYTES_MAX};
use recalld_policy::limits::CALL_TIME_MAX;
use recalld_telemetry::log::{Format, Level};

limit_table::limits! {
    pub(crate) const LIMITS = [];

    /// Maximum number of files and folders ingested at the start.
    pub const INGEST_PATHS_MAX: usize = 64;
}

/// Default address of the local listener.
const LOCAL: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8788);

/// Listeners and operation of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// Address of the local listener; `None` if off.
    pub local: Option<SocketAddr>,
    /// Address of the hosted listener; `None` if off.
    pub hosted: Option<SocketAddr>,
    /// Public URL of the hosted listener.
    pub public_url: Option<String>,
    /// Certificate files of the hosted listener; `None` if TLS is terminated elsewhere.
    pub tls: Option<TlsFiles>,
    /// Maximum number of connections from one address on the hosted listener.
    pub peer_connections: usize,
    /// Origins whose pages may send requests.
    pub allow_origins: Vec<Origin>,
    /// Maximum duration of a tool call.
    pub call_time: Duration,
    /// Files and folders ingested at the start.
    pub ingest: Vec<PathBuf>,
    /// Durability required before a write is acknowledged.
    pub durability: Acknowledged,
    /// Mode of vector search.
    pub search_mode: Searched,
}

/// Files of the certificate chain and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain, beginning with the server's certificate.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// Durability required before a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acknowledged {
    /// The write survives a power failure.
    #[default]
    Sync,
    /// The write survives the end of the process.
    Interval,
}

impl Acknowledged {
    const ALL: &'static [Self] = &[Self::Sync, Self::Interval];

    fn word(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Interval => "interval",
        }
    }
}

/// Mode of vector search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Searched {
    /// Exact or approximate, depending on the number of embeddings.
    #[default]
    Auto,
    /// Compares every embedding.
    Exact,
    /// Uses every existing index.
    Approximate,
}

impl Searched {
    const ALL: &'static [Self] = &[Self::Auto, Self::Exact, Self::Approximate];

    fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Approximate => "approximate",
        }
    }
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            local: Some(LOCAL),
            hosted: None,
            public_url: None,
            tls: None,
            peer_connections: PEER_CONNECTIONS_DEFAULT,
            allow_origins: Vec::new(),
            call_time: CALL_TIME_MAX,
            ingest: Vec::new(),
            durability: Acknowledged::default(),
            search_mode: Searched::default(),
        }
    }
}

/// Settings of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logging {
    /// Format of the lines.
    pub format: Format,
    /// The least severe level that is written.
    pub level: Level,
    /// True if each request is logged.
    pub access: bool,
}

impl Default for Logging {
    fn default() -> Self {
        Self { format: Format::Text, level: Level::Info, access: false }
    }
}

/// Settings of the encoder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelChoice {
    /// Folder of the model files; `None` to search for them.
    pub directory: Option<PathBuf>,
    /// Name of a kernel level; `None` for the widest of this CPU.
    pub kernel: Option<&'static str>,
    /// Name of a precision; `None` for the default of the kernel level.
    pub precision: Option<&'static str>,
}

impl Serving {
    /// Reads `[local]`.
    pub(super) fn local(&mut self, mut keys: Keys) -> Result<(), KeyFault> {
        self.local = address(&mut keys, self.local)?;
        keys.finish()
    }

    /// Reads `[hosted]` and returns the trusted proxies.
    pub(super) fn hosted(
        &mut self,
        mut keys: Keys,
        folder: &Path,
    ) -> Result<Vec<Network>, KeyFault> {
        self.hosted = address(&mut keys, self.hosted)?;
        self.public_url = keys.text("public_url", TEXT_BYTES_MAX)?;
        let certificate = keys.text("tls_cert", TEXT_BYTES_MAX)?;
        let key = keys.text("tls_key", TEXT_BYTES_MAX)?;
        self.tls = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                Some(TlsFiles { certificate: folder.join(certificate), key: folder.join(key) })
            }
            (Some(_), None) => {
                return Err(keys.missing("tls_key", "the key of `tls_cert`, by --tls-key or here"));
            }
            (None, Some(_)) => {
                let allowed = "the certificates of `tls_key`, by --tls-cert or here";
                return Err(keys.missing("tls_cert", allowed));
            }
        };
        let most = keys.whole("peer_connections", 1..=CONNECTIONS_MAX as u64)?;
        let most = most.and_then(|most| usize::try_from(most).ok());
        self.peer_connections = most.unwrap_or(self.peer_connections);
        let proxies = super::trusted_proxies(&mut keys)?;
        keys.finish()?;
        Ok(proxies)
    }

    /// Reads `[server]`.
    pub(super) fn server(&mut self, mut keys: Keys, folder: &Path) -> Result<(), KeyFault> {
        const ORIGINS: &str = "allow_origins";
        let origins = keys.texts(ORIGINS, ORIGINS_MAX, ORIGIN_BYTES_MAX)?.unwrap_or_default();
        let origin = |text: &String| {
            text.parse().map_err(|why| keys.fault(ORIGINS, text, format!("origins: {why}")))
        };
        self.allow_origins = origins.iter().map(origin).collect::<Result<_, _>>()?;
        let seconds = keys.whole("call_time_seconds", 1..=CALL_TIME_MAX.as_secs())?;
        self.call_time = seconds.map_or(self.call_time, Duration::from_secs);
        let ingest = keys.texts("ingest", INGEST_PATHS_MAX, TEXT_BYTES_MAX)?.unwrap_or_default();
        self.ingest = ingest.into_iter().map(|path| folder.join(path)).collect();
        keys.finish()
    }

    /// Reads `[store]`.
    pub(super) fn store(&mut self, mut keys: Keys) -> Result<(), KeyFault> {
        let durability = keys.word("durability", Acknowledged::ALL, Acknowledged::word)?;
        self.durability = durability.unwrap_or_default();
        let mode = keys.word("search_mode", Searched::ALL, Searched::word)?;
        self.search_mode = mode.unwrap_or_default();
        keys.finish()
    }

    /// Renders the tables of this struct as TOML.
    pub(super) fn show(&self, proxies: &[Network]) -> String {
        let address = |at: Option<SocketAddr>| {
            quoted(&at.map_or_else(|| "off".to_owned(), |at| at.to_string()))
        };
        let mut out = format!("[local]\naddress = {}\n", address(self.local));
        out += &format!("\n[hosted]\naddress = {}\n", address(self.hosted));
        if let Some(url) = &self.public_url {
            out += &format!("public_url = {}\n", quoted(url));
        }
        if let Some(TlsFiles { certificate, key }) = &self.tls {
            let path = |path: &Path| quoted(&path.to_string_lossy());
            out += &format!("tls_cert = {}\ntls_key = {}\n", path(certificate), path(key));
        }
        let proxies: Vec<String> = proxies.iter().map(Network::to_string).collect();
        out += &format!(
            "peer_connections = {}\ntrusted_proxies = {}\n",
            self.peer_connections,
            quoted_list(proxies.iter().map(String::as_str))
        );
        let paths: Vec<_> = self.ingest.iter().map(|path| path.to_string_lossy()).collect();
        out += &format!(
            "\n[server]\nallow_origins = {}\ncall_time_seconds = {}\ningest = {}\n",
            quoted_list(self.allow_origins.iter().map(Origin::as_str)),
            self.call_time.as_secs(),
            quoted_list(paths.iter().map(|path| &**path))
        );
        out + &format!(
            "\n[store]\ndurability = {}\nsearch_mode = {}\n",
            quoted(self.durability.word()),
            quoted(self.search_mode.word())
        )
    }
}

/// Reads a listener's address, or `off`.
fn address(keys: &mut Keys, default: Option<SocketAddr>) -> Result<Option<SocketAddr>, KeyFault> {
    const KEY: &str = "address";
    match keys.text(KEY, TEXT_BYTES_MAX)? {
        None => Ok(default),
        Some(text) if text == "off" => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            keys.fault(KEY, &text, "an IP address and a port such as 127.0.0.1:8788, or `off`")
        }),
    }
}

/// Reads `[log]`.
pub(super) fn logging(mut keys: Keys) -> Result<Logging, KeyFault> {
    let default = Logging::default();
    let format = keys.word("format", Format::ALL, Format::name)?.unwrap_or(default.format);
    let level = keys.word("level", Level::ALL, Level::name)?.unwrap_or(default.level);
    let access = keys.flag("access")?.unwrap_or(default.access);
    keys.finish()?;
    Ok(Logging { format, level, access })
}

/// Renders `[log]` as TOML.
pub(super) fn show_logging(logging: &Logging) -> String {
    let Logging { format, level, access } = logging;
    let (format, level) = (quoted(format.name()), quoted(level.name()));
    format!("\n[log]\nformat = {format}\nlevel = {level}\naccess = {access}\n")
}

/// Word for an automatic choice.
pub const AUTO: &str = "auto";

/// Reads `[model]`.
pub(super) fn model(mut keys: Keys, folder: &Path) -> Result<ModelChoice, KeyFault> {
    let directory = keys.text("directory", TEXT_BYTES_MAX)?.map(|path| folder.join(path));
    let mut named = |key: &'static str, setting: &str| {
        let words = match Setting::named(setting).map(|setting| setting.kind) {
            Some(Kind::Word(words)) => words,
            _ => &[],
        };
        Ok(keys.word(key, words, |word| word)?.filter(|word| *word != AUTO))
    };
    let (kernel, precision) =
        (named("kernel", "model.kernel")?, named("precision", "model.precision")?);
    keys.finish()?;
    Ok(ModelChoice { directory, kernel, precision })
}

/// Renders `[model]` as TOML.
pub(super) fn show_model(model: &ModelChoice) -> String {
    let mut out = String::from("\n[model]\n");
    if let Some(directory) = &model.directory {
        out += &format!("directory = {}\n", quoted(&directory.to_string_lossy()));
    }
    let word = |word: Option<&str>| quoted(word.unwrap_or(AUTO));
    out + &format!("kernel = {}\nprecision = {}\n", word(model.kernel), word(model.precision))
}
