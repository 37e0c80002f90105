//! Objects in a bucket of an S3-compatible store. Owns the form of each request and the meaning of its response.
//!
//! A conditional put is a single request on the wire. Idempotent requests are retried a few times. URLs contain the
//! signature, so no message contains a URL.

mod credentials;
mod profile;
mod said;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use jiff::Timestamp;
use rusty_s3::actions::{DeleteObjectsResponse, ListObjectsV2, ObjectIdentifier};
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use ureq::http::Method;
use url::Url;

use self::credentials::Keys;
use self::profile::Profile;
use crate::counts::{Counts, Op};
use crate::environment::{Environment, Unusable};
use crate::http::{Answer, Ask, Http, NoAnswer};
use crate::limits::{
    LIST_BYTES_MAX, LIST_PAGES_MAX, LISTED_AT_ONCE, OBJECT_BYTES_MAX, REMOVED_AT_ONCE, REPEAT_FOR,
    REPEAT_PAUSE_MIN, SIGNED_FOR, TRIES_MAX,
};
use crate::names::Key;
use crate::objects::{About, Away, Objects, Tried};
use crate::open::S3Settings;

/// A bucket, or the part of a bucket below a prefix.
pub struct S3 {
    bucket: Bucket,
    prefix: String,
    http: Http,
    keys: Keys,
    removes_singly: AtomicBool,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl S3 {
    /// Opens the part of `bucket` below `prefix`, which is empty or ends with `/`. Sends no request yet.
    ///
    /// # Errors
    /// A setting is wrong, or there are no credentials.
    pub fn open(
        bucket: &str,
        prefix: &str,
        settings: &S3Settings,
        environment: Environment<'_>,
        counts: Arc<Counts>,
    ) -> Result<Self, Unusable> {
        let profile = Profile::read(environment)?;
        let endpoint = settings
            .endpoint
            .clone()
            .or_else(|| environment("AWS_ENDPOINT_URL_S3"))
            .or_else(|| environment("AWS_ENDPOINT_URL"))
            .or_else(|| profile.endpoint.clone());
        let region = settings
            .region
            .clone()
            .or_else(|| environment("AWS_REGION"))
            .or_else(|| environment("AWS_DEFAULT_REGION"))
            .or_else(|| profile.region.clone());
        let is_aws = endpoint.is_none();
        if is_aws && region.is_none() {
            return Err(Unusable::new(
                "neither an endpoint nor a region is set: set `remote.endpoint` or AWS_ENDPOINT_URL, or, for AWS, \
                 `remote.region` or AWS_REGION",
            ));
        }
        let region = region.unwrap_or_else(|| "us-east-1".into());
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let url = check_endpoint(&endpoint, settings.allow_http)?;
        // A bucket name with a dot does not match the wildcard certificate of AWS.
        let path_style = settings.path_style.unwrap_or(!is_aws || bucket.contains('.'));
        let style = if path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let by_proxy = !is_this_machine(&url);
        let bucket = Bucket::new(url, style, bucket.to_owned(), region.clone());
        let bucket = bucket.map_err(|error| {
            Unusable::new(format!("the endpoint {endpoint} does not fit the bucket: {error}"))
        })?;
        let http = Http::new(settings.ca_file.as_deref(), by_proxy, Arc::clone(&counts));
        let http = http.map_err(Unusable::new)?;
        let keys = Keys::find(environment, profile, is_aws, &region, counts)?;
        Ok(Self {
            bucket,
            prefix: prefix.into(),
            http,
            keys,
            removes_singly: AtomicBool::new(false),
        })
    }

    fn name(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Sends a request once. `sign` builds the signed URL from the credentials.
    fn once(
        &self,
        op: Op,
        method: &Method,
        headers: &[(&str, &str)],
        body: &[u8],
        most: u64,
        sign: impl Fn(&Credentials) -> Url,
    ) -> Result<Answer, Fault> {
        let keys = self.keys.get().map_err(Fault::Keys)?;
        let url = sign(&keys);
        let ask = Ask { op, method: method.clone(), url: url.as_str(), headers, body, most };
        let answer = self.http.ask(&ask).map_err(Fault::Silent)?;
        if said::wants_other_keys(&answer) {
            self.keys.forget();
        }
        Ok(answer)
    }

    /// Sends a request until it succeeds, its response is `wanted`, or a retry cannot succeed. Only for idempotent
    /// requests.
    fn again(
        &self,
        wanted: impl Fn(&Answer) -> bool,
        ask: impl Fn() -> Result<Answer, Fault>,
    ) -> Result<Answer, Away> {
        let began = Instant::now();
        let mut pause = REPEAT_PAUSE_MIN;
        let mut tries = 1;
        loop {
            let away = match ask() {
                Ok(answer) if answer.is_good() || wanted(&answer) => return Ok(answer),
                Ok(answer) => self.explain(&answer),
                Err(fault) => self.away(fault),
            };
            if !away.may_pass || tries == TRIES_MAX || began.elapsed() >= REPEAT_FOR {
                return Err(away);
            }
            std::thread::sleep(pause);
            pause *= 2;
            tries += 1;
        }
    }

    fn explain(&self, answer: &Answer) -> Away {
        said::explain(answer, self.bucket.name(), self.bucket.region(), self.keys.origin())
    }

    fn away(&self, fault: Fault) -> Away {
        match fault {
            Fault::Keys(away) => away,
            Fault::Silent(NoAnswer { why, may_pass, .. }) => {
                Away { why: format!("{}: {why}", self.host()), may_pass }
            }
        }
    }

    fn host(&self) -> String {
        let url = self.bucket.base_url();
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}{port}", url.host_str().unwrap_or_default())
    }

    /// Lists one page of objects; also returns the token of the next page.
    fn page(&self, prefix: &str, after: Option<&str>, token: Option<&str>, most: usize) -> Page {
        let answer = self.again(said::is_nothing, || {
            self.once(Op::List, &Method::GET, &[], &[], LIST_BYTES_MAX, |keys| {
                let mut list = self.bucket.list_objects_v2(Some(keys));
                list.with_prefix(prefix);
                list.with_max_keys(most);
                if let Some(token) = token {
                    list.with_continuation_token(token);
                } else if let Some(after) = after {
                    list.with_start_after(after);
                }
                list.sign(SIGNED_FOR)
            })
        })?;
        if !answer.is_good() {
            return Err(self.explain(&answer));
        }
        let strange = || Away {
            why: format!("{} answers a request for a list with something else", self.host()),
            may_pass: false,
        };
        let text = std::str::from_utf8(&answer.body).map_err(|_| strange())?;
        let listed = ListObjectsV2::parse_response(text).map_err(|_| strange())?;
        let now = said::date(&answer);
        let objects = listed.contents.into_iter().map(|object| {
            let written = object.last_modified.and_then(|time| time.parse().ok());
            (object.key, object.size.unwrap_or_default(), age(now, written))
        });
        Ok((objects.collect(), listed.next_continuation_token))
    }

    /// Removes one object; an absent object counts as removed.
    fn remove_one(&self, name: &str) -> Result<(), Away> {
        let removed = self.again(said::is_nothing, || {
            self.once(Op::Remove, &Method::DELETE, &[], &[], LIST_BYTES_MAX, |keys| {
                self.bucket.delete_object(Some(keys), name).sign(SIGNED_FOR)
            })
        });
        removed.map(drop)
    }

    /// Removes several objects in one request; `None` if the store does not support the request.
    fn remove_many(&self, names: &[ObjectIdentifier]) -> Result<Option<()>, Away> {
        let (body, md5) = self.bucket.delete_objects(None, names.iter()).body_with_md5();
        let headers = [("content-md5", md5.as_str())];
        let sign = |keys: &Credentials| {
            let mut removes = self.bucket.delete_objects(Some(keys), names.iter());
            // Ceph requires the content headers to be signed.
            removes.headers_mut().insert("content-md5", md5.as_str());
            removes.sign(SIGNED_FOR)
        };
        let (post, body, most) = (Method::POST, body.as_bytes(), LIST_BYTES_MAX);
        let knows_not = |answer: &Answer| matches!(answer.status, 405 | 501);
        let answer =
            self.again(knows_not, || self.once(Op::Remove, &post, &headers, body, most, sign))?;
        if !answer.is_good() {
            return Ok(None);
        }
        let parsed = std::str::from_utf8(&answer.body)
            .ok()
            .and_then(|text| DeleteObjectsResponse::parse(text).ok());
        let Some(response) = parsed else { return Ok(None) };
        let left = response.errors.iter().find(|error| error.code != "NoSuchKey");
        left.map_or(Ok(Some(())), |error| {
            let why = format!("{} was not removed: {}, {}", error.key, error.code, error.message);
            Err(Away { why, may_pass: said::is_passing(&error.code) })
        })
    }
}

type Page = Result<(Vec<(String, u64, u64)>, Option<String>), Away>;

/// Error of a request without a response.
enum Fault {
    /// There are no credentials now, so no request was sent.
    Keys(Away),
    /// No response, or a truncated one.
    Silent(NoAnswer),
}

impl Objects for S3 {
    fn put(&self, key: &Key, bytes: &[u8]) -> Result<(), Away> {
        let name = self.name(key);
        let answer = self.again(said::is_nothing, || {
            self.once(Op::Put, &Method::PUT, &[], bytes, LIST_BYTES_MAX, |keys| {
                self.bucket.put_object(Some(keys), &name).sign(SIGNED_FOR)
            })
        })?;
        if answer.is_good() { Ok(()) } else { Err(self.explain(&answer)) }
    }

    fn put_new(&self, key: &Key, bytes: &[u8]) -> Tried {
        let name = self.name(key);
        let headers = [("if-none-match", "*")];
        // The header is signed: a proxy that removes the header breaks the signature.
        let sign = |keys: &Credentials| {
            let mut put = self.bucket.put_object(Some(keys), &name);
            put.headers_mut().insert("if-none-match", "*");
            put.sign(SIGNED_FOR)
        };
        match self.once(Op::Create, &Method::PUT, &headers, bytes, LIST_BYTES_MAX, sign) {
            Ok(answer) if answer.is_good() => Tried::Made,
            Ok(answer) => {
                let away = self.explain(&answer);
                let is_refusal = matches!(answer.status, 400 | 401 | 403 | 411 | 413 | 501);
                // If a retry may succeed, `Unsure` is equally true and lets the caller continue.
                if is_refusal && !away.may_pass {
                    Tried::Refused(away.why)
                } else {
                    Tried::Unsure(away.why)
                }
            }
            Err(fault) => Tried::Unsure(self.away(fault).why),
        }
    }

    fn get(
        &self,
        key: &Key,
        range: Option<Range<u64>>,
        most: u64,
    ) -> Result<Option<Vec<u8>>, Away> {
        if range.as_ref().is_some_and(Range::is_empty) {
            return Ok(self.head(key)?.map(|_| Vec::new()));
        }
        let name = self.name(key);
        let wanted = range.as_ref().map(|range| format!("bytes={}-{}", range.start, range.end - 1));
        let headers: Vec<(&str, &str)> =
            wanted.iter().map(|value| ("range", value.as_str())).collect();
        let length = range.as_ref().map_or(OBJECT_BYTES_MAX, |range| range.end - range.start);
        let most = most.min(length).min(OBJECT_BYTES_MAX);
        let answer = self.again(said::is_nothing, || {
            self.once(Op::Get, &Method::GET, &headers, &[], most, |keys| {
                self.bucket.get_object(Some(keys), &name).sign(SIGNED_FOR)
            })
        })?;
        match (answer.status, range) {
            (200, None) => Ok(Some(answer.body)),
            // The range is behind the end of the object.
            (416, Some(_)) => Ok(Some(Vec::new())),
            (404, _) => Ok(None),
            (206, Some(range)) if said::begins_at(&answer, range.start) => Ok(Some(answer.body)),
            // The whole object, which is no longer than the range.
            (200, Some(range)) if range.start == 0 => Ok(Some(answer.body)),
            (200 | 206, _) => Err(Away {
                why: format!("{} answers a request for a range with another one", self.host()),
                may_pass: false,
            }),
            _ => Err(self.explain(&answer)),
        }
    }

    fn head(&self, key: &Key) -> Result<Option<About>, Away> {
        let name = self.name(key);
        let answer = self.again(said::is_nothing, || {
            self.once(Op::Head, &Method::HEAD, &[], &[], 0, |keys| {
                self.bucket.head_object(Some(keys), &name).sign(SIGNED_FOR)
            })
        })?;
        if answer.status == 404 {
            return Ok(None);
        }
        let Some(bytes) = answer.header("content-length").and_then(|text| text.parse().ok()) else {
            let why = format!("{} does not say how long an object is", self.host());
            return Err(Away { why, may_pass: false });
        };
        let written = answer.header("last-modified").and_then(said::http_date);
        Ok(Some(About { key: key.clone(), bytes, age_s: age(said::date(&answer), written) }))
    }

    fn list(&self, prefix: &str, after: Option<&Key>, most: usize) -> Result<Vec<About>, Away> {
        let prefix = format!("{}{prefix}", self.prefix);
        let after = after.map(|key| self.name(key));
        let mut found: Vec<About> = Vec::new();
        let (mut token, mut last): (Option<String>, Option<String>) = (None, after.clone());
        for _ in 0..LIST_PAGES_MAX {
            let wanted = LISTED_AT_ONCE.min(most - found.len());
            if wanted == 0 {
                return Ok(found);
            }
            let (page, next) = self.page(&prefix, after.as_deref(), token.as_deref(), wanted)?;
            for (name, bytes, age_s) in page {
                if last.as_ref().is_some_and(|last| *last >= name) {
                    let why = format!(
                        "{} does not list objects in the order of their names",
                        self.host()
                    );
                    return Err(Away { why, may_pass: false });
                }
                let key = name.strip_prefix(&self.prefix).and_then(Key::parse);
                last = Some(name);
                found.extend(key.map(|key| About { key, bytes, age_s }));
            }
            found.truncate(most);
            token = next;
            if token.is_none() {
                return Ok(found);
            }
        }
        let why = format!(
            "below {prefix} are too many objects that are nobody's; give the remote a prefix of its own"
        );
        Err(Away { why, may_pass: false })
    }

    fn remove(&self, keys: &[Key]) -> Result<(), Away> {
        for some in keys.chunks(REMOVED_AT_ONCE) {
            if some.len() > 1 && !self.removes_singly.load(Relaxed) {
                let names: Vec<_> =
                    some.iter().map(|key| ObjectIdentifier::new(self.name(key))).collect();
                if self.remove_many(&names)?.is_some() {
                    continue;
                }
                self.removes_singly.store(true, Relaxed);
            }
            some.iter().try_for_each(|key| self.remove_one(&self.name(key)))?;
        }
        Ok(())
    }
}

/// Age in seconds; 0 if the store does not report the times.
fn age(now: Option<Timestamp>, written: Option<Timestamp>) -> u64 {
    let (Some(now), Some(written)) = (now, written) else { return 0 };
    u64::try_from(now.as_second() - written.as_second()).unwrap_or_default()
}

fn check_endpoint(text: &str, allow_http: bool) -> Result<Url, Unusable> {
    let url: Option<Url> = text.parse().ok();
    let is_right = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.host_str().is_some()
            && url.query().is_none()
    };
    let Some(url) = url.filter(is_right) else {
        return Err(Unusable::new(format!(
            "the endpoint {text:?} is not http(s)://HOST or http(s)://HOST:PORT"
        )));
    };
    if url.scheme() == "http" && !allow_http && !is_this_machine(&url) {
        return Err(Unusable::new(format!(
            "the endpoint {text} is plain HTTP, where everybody on the way reads what is stored: use https, or set \
             `remote.allow_http`"
        )));
    }
    Ok(url)
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}
