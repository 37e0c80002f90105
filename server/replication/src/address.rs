use std::fmt;
use std::path::PathBuf;

use crate::limits::{ENDPOINTS_MAX, PREFIX_BYTES_MAX};

/// Address of an object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `s3://BUCKET/PREFIX`
    S3 {
        /// Bucket name.
        bucket: String,
        /// Prefix of all keys: empty, or ending with `/`.
        prefix: String,
    },
    /// `file:///FOLDER`
    Folder(PathBuf),
}

/// Address of a coordinator, for record logs outside of the object store: `etcd://HOST:PORT,HOST:PORT/PREFIX`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinator {
    /// True for TLS (`etcds://`).
    pub tls: bool,
    /// Endpoints as `HOST:PORT`.
    pub endpoints: Vec<String>,
    /// Prefix of all keys, ending with `/`.
    pub prefix: String,
}

/// Error of an invalid address, with the allowed form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnAddress(String);

impl fmt::Display for NotAnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAnAddress {}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// The text is no address; the error names the allowed form.
    pub fn parse(text: &str) -> Result<Self, NotAnAddress> {
        if let Some(folder) = text.strip_prefix("file://") {
            let is_right = folder.len() > 1 && folder.starts_with('/') && !folder.contains('\0');
            return if is_right {
                Ok(Self::Folder(folder.into()))
            } else {
                Err(NotAnAddress(format!("{text:?}: file:///FOLDER is wanted, with a whole path")))
            };
        }
        let Some(rest) = text.strip_prefix("s3://") else {
            let wanted = "s3://BUCKET/PREFIX or file:///FOLDER is wanted";
            return Err(NotAnAddress(format!("{text:?} is no address of a remote: {wanted}")));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_plain) {
            return Err(NotAnAddress(format!(
                "{bucket:?} is not the name of a bucket: 3 to 63 of a-z, 0-9, '.', '-' and '_'"
            )));
        }
        Ok(Self::S3 { bucket: bucket.into(), prefix: prefix_of(prefix)? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 { bucket, prefix } => {
                write!(f, "s3://{bucket}/{}", prefix.trim_end_matches('/'))
            }
            Self::Folder(folder) => write!(f, "file://{}", folder.display()),
        }
    }
}

impl Coordinator {
    /// Parses the address of a coordinator.
    ///
    /// # Errors
    /// The text is no address; the error names the allowed form.
    pub fn parse(text: &str) -> Result<Self, NotAnAddress> {
        let wrong = |why: &str| {
            // The error omits the text, which may contain a password.
            let form = "etcd://HOST:PORT,HOST:PORT/PREFIX (etcds:// by TLS) is wanted";
            NotAnAddress(format!("the address of the coordinator {why}: {form}"))
        };
        let (tls, rest) = match (text.strip_prefix("etcd://"), text.strip_prefix("etcds://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(wrong("has no scheme that is known")),
        };
        let (hosts, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let endpoints: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if endpoints.len() > ENDPOINTS_MAX {
            return Err(wrong(&format!("has more than {ENDPOINTS_MAX} hosts")));
        }
        if !endpoints.iter().all(|endpoint| is_endpoint(endpoint)) {
            return Err(wrong("has a host that is not HOST:PORT"));
        }
        let prefix = match prefix_of(prefix)? {
            none if none.is_empty() => "recalld/".into(),
            prefix => prefix,
        };
        Ok(Self { tls, endpoints, prefix })
    }
}

impl fmt::Display for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "etcds" } else { "etcd" };
        let prefix = self.prefix.trim_end_matches('/');
        write!(f, "{scheme}://{}/{prefix}", self.endpoints.join(","))
    }
}

fn is_endpoint(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-[]:".contains(&byte);
    !host.is_empty() && host.bytes().all(is_plain) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Validates a prefix and appends `/`. The allowed characters need no escaping in any protocol.
fn prefix_of(text: &str) -> Result<String, NotAnAddress> {
    let text = text.trim_end_matches('/');
    if text.is_empty() {
        return Ok(String::new());
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_part =
        |part: &str| !part.is_empty() && part != "." && part != ".." && part.bytes().all(is_plain);
    if text.len() <= PREFIX_BYTES_MAX && text.split('/').all(is_part) {
        return Ok(format!("{text}/"));
    }
    Err(NotAnAddress(format!(
        "{text:?} is not a prefix: at most {PREFIX_BYTES_MAX} of a-z, A-Z, 0-9, '.', '-', '_' and single '/' are \
         allowed"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        let s3 = |prefix: &str| Address::S3 { bucket: "memories".into(), prefix: prefix.into() };
        let right = [
            ("s3://memories", s3("")),
            ("s3://memories/", s3("")),
            ("s3://memories/team/one", s3("team/one/")),
            ("s3://memories/team/", s3("team/")),
            ("file:///srv/far", Address::Folder("/srv/far".into())),
        ];
        for (text, address) in right {
            assert_eq!(Address::parse(text), Ok(address.clone()), "{text}");
            assert_eq!(Address::parse(&address.to_string()), Ok(address));
        }
        for wrong in [
            "",
            "memories",
            "s3://",
            "s3://ab",
            "s3://Memories",
            "s3://memories//x",
            "s3://memories/a b",
            "s3://memories/../x",
            "file://srv",
            "file:///",
            "http://x/y",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_coordinator_has_hosts_and_a_prefix() {
        let one = Coordinator::parse("etcd://a:2379,10.0.0.2:2379,[::1]:1/box").unwrap();
        assert_eq!(one.endpoints, ["a:2379", "10.0.0.2:2379", "[::1]:1"]);
        assert_eq!((one.tls, one.prefix.as_str()), (false, "box/"));
        assert_eq!(Coordinator::parse(&one.to_string()), Ok(one));
        let two = Coordinator::parse("etcds://a:2379").unwrap();
        assert_eq!((two.tls, two.prefix.as_str()), (true, "recalld/"));
        for wrong in [
            "a:2379",
            "etcd://",
            "etcd://a",
            "etcd://a:0",
            "etcd://u:secret@a:1/x",
            "etcd://a:1,/x",
        ] {
            let error = Coordinator::parse(wrong).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
