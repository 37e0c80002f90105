//! Credentials for signing: their source, and their renewal.
//!
//! Sources, in this order:
//!
//! - the environment;
//! - the files of the profile;
//! - a web identity, whose token is a file;
//! - the agent of a container;
//! - the metadata service of the machine, which is used only with AWS's own endpoint.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rusty_s3::Credentials;
use rusty_s3::credentials::Ec2SecurityCredentialsMetadataResponse as Fetched;
use ureq::http::Method;

use super::profile::Profile;
use super::said::element;
use crate::counts::{Counts, Op};
use crate::environment::{Environment, Unusable};
use crate::http::{Answer, Ask, Http};
use crate::limits::{ERROR_BYTES_MAX, KEYS_FETCHED_BEFORE, TOKEN_BYTES_MAX};
use crate::objects::Away;

/// Addresses of the ECS container agent, and of the instance metadata service.
const CONTAINER: &str = "http://169.254.170.2";
const MACHINE: &str = "http://169.254.169.254";

/// Cache of credentials, renewed shortly before they expire.
pub(super) struct Keys {
    source: Source,
    origin: String,
    held: Mutex<Option<Held>>,
}

#[derive(Clone)]
struct Held {
    keys: Arc<Credentials>,
    /// Time of expiry; `None` if the credentials never expire.
    ends: Option<Timestamp>,
}

enum Source {
    /// Static credentials, known at the start.
    Given(Arc<Credentials>),
    /// Credentials in exchange for a token in a file.
    WebIdentity { http: Http, endpoint: String, token_file: PathBuf, role: String, session: String },
    /// Credentials of a container agent.
    Container { http: Http, url: String, token: Token },
    /// Credentials of the instance metadata service.
    Machine { http: Http, url: String },
}

/// Authorization token for a container agent.
enum Token {
    None,
    Text(String),
    File(PathBuf),
}

impl Keys {
    /// Chooses the source of credentials. Sends no request yet.
    ///
    /// # Errors
    /// There are no credentials, or they are incomplete.
    pub(super) fn find(
        environment: Environment<'_>,
        profile: Profile,
        is_aws: bool,
        region: &str,
        counts: Arc<Counts>,
    ) -> Result<Self, Unusable> {
        let get = |name: &str| environment(name).filter(|value| !value.is_empty());
        let (key, secret) = (get("AWS_ACCESS_KEY_ID"), get("AWS_SECRET_ACCESS_KEY"));
        let is_named = get("AWS_PROFILE").is_some();
        if key.is_some() || secret.is_some() {
            return Self::given("AWS_ACCESS_KEY_ID", key, secret, get("AWS_SESSION_TOKEN"));
        }
        if profile.key.is_some() || profile.secret.is_some() || is_named {
            return Self::given(&profile.origin, profile.key, profile.secret, profile.token);
        }
        let http = |by_proxy| Http::new(None, by_proxy, Arc::clone(&counts)).map_err(Unusable::new);
        let source = |origin: &str, source| {
            Ok(Self { source, origin: origin.into(), held: Mutex::new(None) })
        };
        if let (Some(file), Some(role)) = (get("AWS_WEB_IDENTITY_TOKEN_FILE"), get("AWS_ROLE_ARN"))
        {
            let endpoint = get("AWS_ENDPOINT_URL_STS")
                .unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com"));
            let session = get("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "recalld".into());
            let (http, token_file) = (http(endpoint.starts_with("https:"))?, file.into());
            return source(
                "the web identity of AWS_WEB_IDENTITY_TOKEN_FILE",
                Source::WebIdentity { http, endpoint, token_file, role, session },
            );
        }
        let relative = get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let url = relative.map(|path| format!("{CONTAINER}{path}"));
        if let Some(url) = url.or_else(|| get("AWS_CONTAINER_CREDENTIALS_FULL_URI")) {
            let file = get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
            let text = get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
            let token = match (file, text) {
                (Some(file), _) => Token::File(file.into()),
                (None, Some(text)) => Token::Text(text),
                (None, None) => Token::None,
            };
            return source(
                "the container's agent",
                Source::Container { http: http(false)?, url, token },
            );
        }
        if is_aws && get("AWS_EC2_METADATA_DISABLED").is_none_or(|off| off != "true") {
            let url = get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or_else(|| MACHINE.into());
            let url = url.trim_end_matches('/').to_owned();
            return source("the machine", Source::Machine { http: http(false)?, url });
        }
        Err(Unusable::new(
            "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of \
             ~/.aws/credentials with AWS_PROFILE",
        ))
    }

    fn given(
        origin: &str,
        key: Option<String>,
        secret: Option<String>,
        token: Option<String>,
    ) -> Result<Self, Unusable> {
        let (Some(key), Some(secret)) = (key, secret) else {
            return Err(Unusable::new(format!(
                "the credentials from {origin} are not whole: a key and a secret are wanted"
            )));
        };
        let keys = match token {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        let source = Source::Given(Arc::new(keys));
        Ok(Self { source, origin: origin.into(), held: Mutex::new(None) })
    }

    /// Source of the credentials, for messages.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Credentials to sign with now. If there are none or they expire soon, they are fetched, by one thread at a time.
    pub(super) fn get(&self) -> Result<Arc<Credentials>, Away> {
        if let Source::Given(keys) = &self.source {
            return Ok(Arc::clone(keys));
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::now();
        let lasts = |held: &Held, length: Duration| {
            held.ends.is_none_or(|ends| {
                ends.duration_since(now).as_secs() > length.as_secs().cast_signed()
            })
        };
        if let Some(held) = held.as_ref().filter(|held| lasts(held, KEYS_FETCHED_BEFORE)) {
            return Ok(Arc::clone(&held.keys));
        }
        match self.source.fetch() {
            Ok(fetched) => {
                let keys = Arc::clone(&fetched.keys);
                *held = Some(fetched);
                Ok(keys)
            }
            Err(why) => {
                // The cached credentials are still valid for a while.
                if let Some(held) = held.as_ref().filter(|held| lasts(held, Duration::ZERO)) {
                    return Ok(Arc::clone(&held.keys));
                }
                let why = format!("there are no credentials from {}: {why}", self.origin);
                Err(Away { why, may_pass: true })
            }
        }
    }

    /// Drops the cached credentials, which the store rejected.
    pub(super) fn forget(&self) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Source {
    fn fetch(&self) -> Result<Held, String> {
        match self {
            Self::Given(keys) => Ok(Held { keys: Arc::clone(keys), ends: None }),
            Self::WebIdentity { http, endpoint, token_file, role, session } => {
                let token = token_of(token_file)?;
                let mut url = url::Url::parse(endpoint).map_err(|_| "its address is not valid")?;
                url.query_pairs_mut()
                    .append_pair("Action", "AssumeRoleWithWebIdentity")
                    .append_pair("Version", "2011-06-15")
                    .append_pair("RoleArn", role)
                    .append_pair("RoleSessionName", session)
                    .append_pair("WebIdentityToken", &token);
                assumed(&ask(http, &Method::POST, url.as_str(), &[])?.text())
            }
            Self::Container { http, url, token } => {
                let token = match token {
                    Token::None => None,
                    Token::Text(text) => Some(text.clone()),
                    Token::File(file) => Some(token_of(file)?),
                };
                let headers: Vec<_> =
                    token.iter().map(|token| ("authorization", token.as_str())).collect();
                fetched(&ask(http, &Method::GET, url, &headers)?)
            }
            Self::Machine { http, url } => {
                let lifetime = [("x-aws-ec2-metadata-token-ttl-seconds", "300")];
                let token = ask(http, &Method::PUT, &format!("{url}/latest/api/token"), &lifetime)?;
                let token = token.text();
                let headers = [("x-aws-ec2-metadata-token", token.trim())];
                let roles = format!("{url}/latest/meta-data/iam/security-credentials/");
                let role = ask(http, &Method::GET, &roles, &headers)?.text();
                let role = role.lines().next().unwrap_or_default().trim();
                let is_plain =
                    |letter: char| letter.is_ascii_alphanumeric() || "+=,.@_-".contains(letter);
                if role.is_empty() || !role.chars().all(is_plain) {
                    return Err("the machine has no role".into());
                }
                fetched(&ask(http, &Method::GET, &format!("{roles}{role}"), &headers)?)
            }
        }
    }
}

fn ask(
    http: &Http,
    method: &Method,
    url: &str,
    headers: &[(&str, &str)],
) -> Result<Answer, String> {
    let method = method.clone();
    let ask = Ask { op: Op::SignIn, method, url, headers, body: &[], most: ERROR_BYTES_MAX };
    let answer = http.ask(&ask).map_err(|none| none.why)?;
    if answer.is_good() {
        return Ok(answer);
    }
    let text = answer.text();
    let mut why = format!("it answered {}", answer.status);
    if let Some(code) = element(&text, "Code") {
        let _written = write!(why, ", {code}");
    }
    Err(why)
}

/// Parses the response of a container agent or of the metadata service.
fn fetched(answer: &Answer) -> Result<Held, String> {
    let text = std::str::from_utf8(&answer.body).ok();
    let fetched = text.and_then(|text| Fetched::deserialize(text).ok());
    let fetched = fetched.ok_or("what it answered are no credentials")?;
    let ends = Some(fetched.expiration());
    Ok(Held { keys: Arc::new(fetched.into_credentials()), ends })
}

/// Parses the response of the security token service.
fn assumed(text: &str) -> Result<Held, String> {
    let get = |name| element(text, name).map(str::to_owned);
    let (Some(key), Some(secret), Some(token)) =
        (get("AccessKeyId"), get("SecretAccessKey"), get("SessionToken"))
    else {
        return Err("what it answered are no credentials".into());
    };
    let ends = get("Expiration").and_then(|time| time.parse().ok());
    Ok(Held { keys: Arc::new(Credentials::new_with_token(key, secret, token)), ends })
}

fn token_of(file: &Path) -> Result<String, String> {
    let wrong = |why: String| format!("{}: {why}", file.display());
    let length = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?.len();
    if length > TOKEN_BYTES_MAX {
        return Err(wrong(format!("it has more than {TOKEN_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    Ok(text.trim().to_owned())
}
