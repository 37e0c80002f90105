//! A minimal S3 server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use url::form_urlencoded;

use super::wire::{Acts, Answer, Seen, Server};

/// Objects of the bucket `memories`.
#[derive(Debug, Default)]
pub(crate) struct TinyS3 {
    objects: BTreeMap<String, Vec<u8>>,
    /// Maximum names on a page of a listing.
    page: Option<usize>,
    knows_no_bulk: bool,
}

pub(crate) type Tiny = Server<TinyS3>;

impl Tiny {
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.host)
    }

    /// Sets the page size of listings.
    pub(crate) fn pages(&self, names: usize) {
        self.with(|s3| s3.page = Some(names));
    }

    /// Switches off removals of several objects in one request.
    pub(crate) fn knows_no_bulk(&self) {
        self.with(|s3| s3.knows_no_bulk = true);
    }

    /// Puts an object on behalf of another client.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        self.with(|s3| drop(s3.objects.insert(name.into(), bytes.into())));
    }
}

fn key(seen: &Seen) -> String {
    let path = seen.url.path().strip_prefix("/memories").unwrap_or_default();
    path.trim_start_matches('/').to_owned()
}

impl Acts for TinyS3 {
    fn act(&mut self, seen: &Seen) -> Answer {
        if !seen.url.path().starts_with("/memories") {
            return error(404, "NoSuchBucket");
        }
        let key = key(seen);
        match seen.method.as_str() {
            "PUT" => {
                assert!(seen.headers.contains_key("content-length"));
                if seen.headers.get("if-none-match").is_some_and(|value| value == "*") {
                    assert_eq!(seen.query("X-Amz-SignedHeaders").unwrap(), "host;if-none-match");
                    if self.objects.contains_key(&key) {
                        return error(412, "PreconditionFailed");
                    }
                }
                self.objects.insert(key, seen.body.clone());
                Answer::new(200, Vec::new())
            }
            "GET" if seen.query("list-type").is_some() => self.list(seen),
            "GET" | "HEAD" => match self.objects.get(&key) {
                None => error(404, "NoSuchKey"),
                Some(bytes) => part(bytes, seen.headers.get("range")),
            },
            "DELETE" => {
                self.objects.remove(&key);
                Answer::new(204, Vec::new())
            }
            "POST" if self.knows_no_bulk => error(501, "NotImplemented"),
            "POST" => self.remove(seen),
            _ => error(405, "MethodNotAllowed"),
        }
    }

    fn error(status: u16, code: &str) -> Answer {
        error(status, code)
    }
}

fn error(status: u16, code: &str) -> Answer {
    let body = format!("<Error><Code>{code}</Code><Message>told to</Message></Error>");
    Answer { status, headers: Vec::new(), body: body.into() }
}

impl TinyS3 {
    fn list(&self, seen: &Seen) -> Answer {
        let prefix = seen.query("prefix").unwrap_or_default();
        let after = seen.query("continuation-token").or_else(|| seen.query("start-after"));
        let most: usize = seen.query("max-keys").unwrap().parse().unwrap();
        let most = most.min(self.page.unwrap_or(1000));
        let mut text = format!("<ListBucketResult xmlns=\"{NAMESPACE}\"><Name>memories</Name>");
        let matching: Vec<_> = self
            .objects
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix) && Some(*name) > after.as_ref())
            .collect();
        for (name, bytes) in matching.iter().take(most) {
            let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
            let length = bytes.len();
            write!(text, "<Contents><Key>{name}</Key><LastModified>2026-11-26T06:00:00.000Z</LastModified><ETag>\"e\"</ETag><Size>{length}</Size><StorageClass>STANDARD</StorageClass></Contents>").unwrap();
        }
        let is_cut = matching.len() > most;
        write!(text, "<EncodingType>url</EncodingType><IsTruncated>{is_cut}</IsTruncated>")
            .unwrap();
        if is_cut {
            let last = matching[most - 1].0;
            write!(text, "<NextContinuationToken>{last}</NextContinuationToken>").unwrap();
        }
        text.push_str("</ListBucketResult>");
        Answer::new(200, text.into())
    }

    fn remove(&mut self, seen: &Seen) -> Answer {
        // Ceph requires the content headers to be signed.
        assert!(!seen.headers.contains_key("content-type"));
        assert_eq!(seen.query("X-Amz-SignedHeaders").unwrap(), "content-md5;host");
        assert!(seen.headers.contains_key("content-md5"));
        let body = String::from_utf8(seen.body.clone()).unwrap();
        let mut text = format!("<DeleteResult xmlns=\"{NAMESPACE}\">");
        for part in body.split("<Key>").skip(1) {
            let name = part.split("</Key>").next().unwrap();
            if name.ends_with("locked") {
                write!(
                    text,
                    "<Error><Key>{name}</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
                )
                .unwrap();
            } else {
                self.objects.remove(name);
                write!(text, "<Deleted><Key>{name}</Key></Deleted>").unwrap();
            }
        }
        text.push_str("</DeleteResult>");
        Answer::new(200, text.into())
    }
}

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

fn part(bytes: &[u8], range: Option<&String>) -> Answer {
    let Some(range) = range else { return Answer::new(200, bytes.into()) };
    let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    if from >= bytes.len() {
        return error(416, "InvalidRange");
    }
    let to = to.min(bytes.len() - 1);
    let mut answer = Answer::new(206, bytes[from..=to].into());
    answer.headers.push(("content-range", format!("bytes {from}-{to}/{}", bytes.len())));
    answer
}
