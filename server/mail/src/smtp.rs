//! The SMTP client for the operator's mail server.
//!
//! Each mail has its own connection, because mails are rare. The operator chose the server, so it is trusted not to
//! send single bytes or an unterminated line for ever: each read and write has a time limit, but their sum has none.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::os::clock::{Clock, Random};
use lettre::address::Envelope;
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{SmtpTransport, Transport};

use super::address::{Address, AddressError};
use super::message::{Mail, Sender};
use super::{MailError, Mailer};
use recalld_fs_util::private_file::read as read_private_file;
use recalld_fs_util::private_file_error::CredentialsError;

/// Minimum and maximum time limit of one read or write, in seconds. RFC 5321, section 4.5.3.2 recommends minutes, but a
/// person who waits for a mail requests another one sooner.
const TIMEOUT_SECONDS: std::ops::RangeInclusive<u64> = 1..=120;
/// Maximum length of a password in bytes.
const PASSWORD_BYTES_MAX: u64 = 1024;
/// Maximum length of a user name in bytes.
const USER_BYTES_MAX: usize = 254;
/// Maximum length of a host name (RFC 1035, section 2.3.4).
const HOST_BYTES_MAX: usize = 253;
/// Maximum size of a certificate file in bytes: twice the size of all public root certificates.
const ROOTS_BYTES_MAX: u64 = 1024 * 1024;

/// Encryption of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Implicit TLS, by convention on port 465 (RFC 8314, section 3).
    Tls,
    /// STARTTLS after the greeting, before any other command; by convention on port 587. No mail is sent to a server
    /// that does not offer STARTTLS.
    StartTls,
    /// No encryption; for a server on this machine.
    None,
}

/// Settings of the SMTP client.
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// Host name or IP address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Encryption of the connection.
    pub security: Security,
    /// User name, if the server requires authentication.
    pub user: Option<String>,
    /// File with the password of `user`, readable by its owner only. A final line end is ignored.
    pub password_file: Option<PathBuf>,
    /// Root certificates in PEM, trusted besides the public ones.
    pub roots_file: Option<PathBuf>,
    /// Sender of the mails: `ADDRESS` or `NAME <ADDRESS>`.
    pub from: String,
    /// Time limit of one read or write, 1 to 120 seconds.
    pub timeout: Duration,
}

/// Error in the settings.
#[derive(Debug)]
#[non_exhaustive]
pub enum MailSettingsError {
    /// The host is neither a host name nor an IP address.
    Host(String),
    /// The sender's address is invalid.
    From(AddressError),
    /// The sender's name contains a quote or characters other than visible ASCII.
    FromName,
    /// The time limit is out of range.
    Timeout(Duration),
    /// A user without a password, or a password without a user.
    HalfAUser,
    /// The user name is empty, longer than 254 bytes, or contains control characters.
    User,
    /// The password would be sent unencrypted to another machine.
    Unencrypted,
    /// The password file cannot be read.
    Password(CredentialsError),
    /// The password is empty or has more than one line.
    PasswordText(PathBuf),
    /// The certificates cannot be read.
    Roots(PathBuf, String),
    /// TLS cannot be set up.
    Tls(String),
}

/// Sends mails by SMTP.
pub struct SmtpMailer {
    transport: SmtpTransport,
    from: Sender,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl SmtpMailer {
    /// Creates a mailer and reads the files that the settings name. Does not connect yet.
    ///
    /// # Errors
    /// The settings contradict each other, or a file is unusable.
    pub fn open(
        settings: &MailSettings,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<SmtpMailer, MailSettingsError> {
        let from = Sender::parse(&settings.from).map_err(MailSettingsError::From)?;
        let from = from.ok_or(MailSettingsError::FromName)?;
        if !is_host(&settings.host) {
            return Err(MailSettingsError::Host(settings.host.clone()));
        }
        if !TIMEOUT_SECONDS.contains(&settings.timeout.as_secs()) {
            return Err(MailSettingsError::Timeout(settings.timeout));
        }
        let mut builder = SmtpTransport::builder_dangerous(&settings.host)
            .port(settings.port)
            .timeout(Some(settings.timeout))
            .hello_name(ClientId::Domain(from.address.host().to_owned()))
            .tls(tls(settings)?);
        if let Some(credentials) = credentials(settings)? {
            builder = builder.credentials(credentials);
        }
        Ok(SmtpMailer { transport: builder.build(), from, clock, random })
    }
}

impl Mailer for SmtpMailer {
    fn send(&self, mail: &Mail) -> Result<(), MailError> {
        let mut number = [0; 16];
        self.random.fill(&mut number);
        let text = mail.rendered(&self.from, self.clock.now(), number);
        let envelope = envelope(&self.from.address, mail.to())?;
        self.transport
            .send_raw(&envelope, text.as_bytes())
            .map(|_| ())
            .map_err(|error| told(&error))
    }
}

/// Builds the envelope. The SMTP crate accepts more addresses than [`Address`], so this does not fail in practice.
fn envelope(from: &Address, to: &Address) -> Result<Envelope, MailError> {
    let theirs = |address: &Address| lettre::Address::new(address.local(), address.host());
    let made = theirs(from).and_then(|from| Ok((from, theirs(to)?)));
    let unfit = |why: &dyn fmt::Display| MailError { is_final: true, why: why.to_string() };
    let (from, to) = made.map_err(|error| unfit(&error))?;
    Envelope::new(Some(from), vec![to]).map_err(|error| unfit(&error))
}

fn tls(settings: &MailSettings) -> Result<Tls, MailSettingsError> {
    let parameters = || {
        let mut builder = TlsParameters::builder(settings.host.clone());
        if let Some(path) = &settings.roots_file {
            builder = builder.add_root_certificate(roots(path)?);
        }
        builder.build().map_err(|error| MailSettingsError::Tls(error.to_string()))
    };
    Ok(match settings.security {
        Security::Tls => Tls::Wrapper(parameters()?),
        Security::StartTls => Tls::Required(parameters()?),
        Security::None => Tls::None,
    })
}

fn roots(path: &Path) -> Result<Certificate, MailSettingsError> {
    let failed = |why: String| MailSettingsError::Roots(path.to_owned(), why);
    let open = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut pem = Vec::new();
    let read = io::Read::read_to_end(&mut io::Read::take(open, ROOTS_BYTES_MAX + 1), &mut pem);
    read.map_err(|error| failed(error.to_string()))?;
    if pem.len() as u64 > ROOTS_BYTES_MAX {
        return Err(failed(format!("it has more than {ROOTS_BYTES_MAX} bytes")));
    }
    if !pem.windows(BEGIN.len()).any(|window| window == BEGIN) {
        return Err(failed("it holds no certificate in PEM".to_owned()));
    }
    Certificate::from_pem(&pem).map_err(|error| failed(error.to_string()))
}

const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";

fn credentials(settings: &MailSettings) -> Result<Option<Credentials>, MailSettingsError> {
    let (user, path) = match (&settings.user, &settings.password_file) {
        (None, None) => return Ok(None),
        (Some(user), Some(path)) => (user, path),
        _ => return Err(MailSettingsError::HalfAUser),
    };
    if settings.security == Security::None && !is_here(&settings.host) {
        return Err(MailSettingsError::Unencrypted);
    }
    if user.is_empty() || user.len() > USER_BYTES_MAX || user.contains(char::is_control) {
        return Err(MailSettingsError::User);
    }
    let read = read_private_file(path, PASSWORD_BYTES_MAX).map_err(MailSettingsError::Password)?;
    let text = read.ok_or_else(|| MailSettingsError::PasswordText(path.clone()))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.is_empty() || line.contains(char::is_control) {
        return Err(MailSettingsError::PasswordText(path.clone()));
    }
    Ok(Some(Credentials::new(user.clone(), line.to_owned())))
}

fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.len() <= HOST_BYTES_MAX
        && (host.parse::<IpAddr>().is_ok() || host.split('.').all(is_label))
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Describes an error without the server's text, which may repeat the address.
fn told(error: &smtp::Error) -> MailError {
    let why = match (error.status(), io_kind(error)) {
        (Some(code), _) => format!("the server answered {code}"),
        (None, Some(io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)) => {
            "the server took too long".to_owned()
        }
        (None, Some(io::ErrorKind::InvalidData)) => {
            "the server's certificate or its TLS was not accepted".to_owned()
        }
        (None, Some(kind)) => format!("the connection failed: {kind}"),
        (None, None) if error.is_client() => {
            "the server offers no STARTTLS, or no way to sign in that is known here".to_owned()
        }
        (None, None) if error.is_response() => {
            "the server's answer cannot be read, or it ended the connection".to_owned()
        }
        (None, None) => "the connection failed".to_owned(),
    };
    MailError { is_final: error.is_permanent(), why }
}

/// Returns the kind of the first I/O error in the chain of sources.
fn io_kind(error: &smtp::Error) -> Option<io::ErrorKind> {
    let mut beneath = std::error::Error::source(error);
    while let Some(error) = beneath {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        beneath = error.source();
    }
    None
}

impl fmt::Display for MailSettingsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(host) => {
                write!(out, "the mail server {host:?} is neither a host name nor an IP address")
            }
            Self::From(error) => write!(out, "the address that mails come from: {error}"),
            Self::FromName => out.write_str(
                "the name that mails come from has other characters than visible ASCII, or a quote",
            ),
            Self::Timeout(found) => write!(
                out,
                "the time bound of the mail server is {} to {} seconds, not {found:?}",
                TIMEOUT_SECONDS.start(),
                TIMEOUT_SECONDS.end()
            ),
            Self::HalfAUser => out.write_str(
                "a user of the mail server needs a password file, and a password file needs a user",
            ),
            Self::User => write!(
                out,
                "the user of the mail server has 1 to {USER_BYTES_MAX} bytes and no control characters"
            ),
            Self::Unencrypted => out.write_str(
                "without encryption the password of the mail server is sent to this machine only: \
                 use tls or starttls",
            ),
            Self::Password(error) => write!(out, "the password of the mail server: {error}"),
            Self::PasswordText(path) => {
                write!(out, "{} is to hold the password, one line of text", path.display())
            }
            Self::Roots(path, why) => {
                write!(out, "the certificates in {}: {why}", path.display())
            }
            Self::Tls(why) => write!(out, "TLS to the mail server: {why}"),
        }
    }
}

impl std::error::Error for MailSettingsError {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use engine::os::clock::{SystemClock, SystemRandom};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tempfile::TempDir;

    use super::super::sink::{Manner, Sink};
    use super::*;

    fn settings(port: u16, security: Security) -> MailSettings {
        MailSettings {
            host: "127.0.0.1".into(),
            port,
            security,
            user: None,
            password_file: None,
            roots_file: None,
            from: "no-reply@recall.example".into(),
            timeout: Duration::from_secs(20),
        }
    }

    fn open(settings: &MailSettings) -> Result<SmtpMailer, MailSettingsError> {
        SmtpMailer::open(settings, Arc::new(SystemClock), Arc::new(SystemRandom))
    }

    fn send(settings: &MailSettings) -> Result<(), MailError> {
        let to = Address::parse("ada@b.example").unwrap();
        let link = "https://recall.example/confirm?token=T";
        let mail = Mail::confirmation(to, "acme", link, Duration::from_secs(3600)).unwrap();
        open(settings).unwrap().send(&mail)
    }

    /// Creates a server's TLS configuration, and a file with the root certificate for it.
    fn certified(folder: &TempDir) -> (PathBuf, Arc<ServerConfig>) {
        let pair = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key)
            .unwrap();
        let path = folder.path().join("roots.pem");
        std::fs::write(&path, pair.cert.pem()).unwrap();
        (path, Arc::new(config))
    }

    fn password(folder: &TempDir, text: &str, mode: u32) -> PathBuf {
        let path = folder.path().join("password");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_mail_reaches_a_server_as_it_is() {
        let sink = Sink::open(Manner::default());
        assert_eq!(send(&settings(sink.port, Security::None)), Ok(()));
        let lines = sink.talk();
        assert_eq!(
            lines[..4],
            [
                "EHLO recall.example",
                "MAIL FROM:<no-reply@recall.example>",
                "RCPT TO:<ada@b.example>",
                "DATA"
            ]
        );
        let text = lines[4..].join("\n");
        assert!(text.contains("\nTo: ada@b.example\n"), "{text}");
        assert!(text.contains("\nhttps://recall.example/confirm?token=T\n"), "{text}");
        assert!(text.ends_with("\n.\nQUIT"), "{text}");
    }

    #[test]
    fn nothing_is_said_before_the_connection_is_encrypted() {
        let folder = tempfile::tempdir().unwrap();
        let (roots, config) = certified(&folder);
        let with = |port, security| MailSettings {
            roots_file: Some(roots.clone()),
            user: Some("me".into()),
            password_file: Some(password(&folder, "secret\n", 0o600)),
            ..settings(port, security)
        };
        let sink = Sink::open(Manner { starttls: Some(Arc::clone(&config)), ..Manner::default() });
        assert_eq!(send(&with(sink.port, Security::StartTls)), Ok(()));
        let lines = sink.talk();
        let hello = "EHLO recall.example";
        assert_eq!(lines[..4], [hello, "STARTTLS", "[encrypted]", hello]);
        // "\0me\0secret" in base64.
        assert_eq!(lines[4], "AUTH PLAIN AG1lAHNlY3JldA==");
        let sink = Sink::open(Manner { tls: Some(config), ..Manner::default() });
        assert_eq!(send(&with(sink.port, Security::Tls)), Ok(()));
        assert_eq!(sink.talk()[..2], ["[encrypted]", hello]);
    }

    #[test]
    fn a_server_without_encryption_or_with_a_foreign_certificate_gets_no_mail() {
        let folder = tempfile::tempdir().unwrap();
        let (roots, config) = certified(&folder);
        let sink = Sink::open(Manner::default());
        let none = send(&settings(sink.port, Security::StartTls)).unwrap_err();
        assert!(!none.is_final && none.why.contains("STARTTLS"), "{none:?}");
        assert!(!sink.talk().iter().any(|line| line.contains("b.example")));
        let foreign = Manner { starttls: Some(Arc::clone(&config)), ..Manner::default() };
        let sink = Sink::open(foreign);
        let refused = send(&settings(sink.port, Security::StartTls)).unwrap_err();
        assert!(refused.why.contains("certificate"), "{refused:?}");
        assert!(!sink.talk().iter().any(|line| line.contains("b.example")));
        // The host name is verified as well: this certificate is valid for 127.0.0.1 only.
        let sink = Sink::open(Manner { tls: Some(config), ..Manner::default() });
        let other = MailSettings {
            host: "localhost".into(),
            roots_file: Some(roots),
            ..settings(sink.port, Security::Tls)
        };
        assert!(send(&other).is_err());
        // TLS with a server that does not support it.
        let sink = Sink::open(Manner::default());
        assert!(send(&settings(sink.port, Security::Tls)).is_err());
        // STARTTLS that is offered and then rejected.
        let instead = Some(("STARTTLS", "454 not now"));
        let (_, config) = certified(&folder);
        let sink = Sink::open(Manner { starttls: Some(config), instead, ..Manner::default() });
        let refused = send(&settings(sink.port, Security::StartTls)).unwrap_err();
        assert!(!refused.is_final && refused.why.contains("454"), "{refused:?}");
        assert!(!sink.talk().iter().any(|line| line.contains("b.example")));
    }

    #[test]
    fn what_the_server_refuses_for_good_is_told_without_the_address() {
        for (answer, is_final) in
            [("550 <ada@b.example> who?", true), ("451 <ada@b.example> later", false)]
        {
            let instead = Some(("RCPT", answer));
            let sink = Sink::open(Manner { instead, ..Manner::default() });
            let error = send(&settings(sink.port, Security::None)).unwrap_err();
            assert_eq!(error.is_final, is_final);
            assert!(error.why.contains(&answer[..3]) && !error.why.contains("ada"), "{error:?}");
            sink.talk();
        }
        let nobody = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = nobody.local_addr().unwrap().port();
        drop(nobody);
        let error = send(&settings(port, Security::None)).unwrap_err();
        assert!(!error.is_final && error.why.contains("refused"), "{error:?}");
    }

    #[test]
    fn settings_that_contradict_themselves_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let fine = MailSettings {
            user: Some("me".into()),
            password_file: Some(password(&folder, "secret\r\n", 0o600)),
            ..settings(25, Security::None)
        };
        assert!(open(&fine).is_ok());
        let refused = |change: &dyn Fn(&mut MailSettings)| {
            let mut settings = fine.clone();
            change(&mut settings);
            let error = open(&settings).err().expect("it is refused").to_string();
            assert!(!error.contains("secret"), "{error}");
            error
        };
        assert!(refused(&|it| it.host = "a b".into()).contains("\"a b\""));
        assert!(refused(&|it| it.host = String::new()).contains("host name"));
        assert!(refused(&|it| it.from = "x".into()).contains("name@host"));
        assert!(refused(&|it| it.timeout = Duration::ZERO).contains("1 to 120 seconds"));
        assert!(refused(&|it| it.timeout = Duration::from_secs(121)).contains("1 to 120"));
        assert!(refused(&|it| it.user = None).contains("needs a user"));
        assert!(refused(&|it| it.password_file = None).contains("needs a password"));
        assert!(refused(&|it| it.host = "mail.example".into()).contains("this machine only"));
        assert!(refused(&|it| it.user = Some("a\nb".into())).contains("control characters"));
        let gone = folder.path().join("gone");
        let no_file = |it: &mut MailSettings| it.password_file = Some(gone.clone());
        assert!(refused(&no_file).contains("gone"));
        let no_roots = |it: &mut MailSettings| {
            it.security = Security::Tls;
            it.roots_file = it.password_file.clone();
        };
        assert!(refused(&no_roots).contains("no certificate"));
        for (text, mode, why) in
            [("secret", 0o640, "chmod 600"), ("", 0o600, "one line"), ("a\nb", 0o600, "one line")]
        {
            let path = password(&folder, text, mode);
            assert!(refused(&|it| it.password_file = Some(path.clone())).contains(why), "{text}");
        }
    }
}
