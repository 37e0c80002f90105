use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::environment::{Environment, Unusable};
use crate::limits::PROFILE_BYTES_MAX;

/// Entries of a profile in `~/.aws/credentials` and `~/.aws/config`; each may be absent.
#[derive(Default)]
pub(super) struct Profile {
    /// Source of the entries, for messages.
    pub(super) origin: String,
    pub(super) key: Option<String>,
    pub(super) secret: Option<String>,
    pub(super) token: Option<String>,
    pub(super) region: Option<String>,
    pub(super) endpoint: Option<String>,
}

impl Profile {
    /// Reads the profile in `AWS_PROFILE`, or `default`.
    ///
    /// # Errors
    /// A file cannot be read, or the named profile does not exist.
    pub(super) fn read(environment: Environment<'_>) -> Result<Self, Unusable> {
        let named = environment("AWS_PROFILE").filter(|name| !name.is_empty());
        let name = named.as_deref().unwrap_or("default");
        let file = |variable: &str, file: &str| {
            let home = || Some(PathBuf::from(environment("HOME")?).join(".aws").join(file));
            environment(variable).map(PathBuf::from).or_else(home)
        };
        let keys = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let config = file("AWS_CONFIG_FILE", "config");
        let mut found = BTreeMap::new();
        // Entries of `credentials`, read last, override those of `config`.
        for (file, section) in [(&config, config_section(name)), (&keys, name.to_owned())] {
            let Some(file) = file else { continue };
            found.extend(entries(&text(file)?, &section));
        }
        if let Some(name) = named.as_ref().filter(|_| found.is_empty()) {
            return Err(Unusable::new(format!(
                "AWS_PROFILE names the profile {name:?}, which is in neither of ~/.aws/credentials and ~/.aws/config"
            )));
        }
        let mut take = |entry: &str| found.remove(entry).filter(|value| !value.is_empty());
        Ok(Self {
            origin: format!("the profile {name:?}"),
            key: take("aws_access_key_id"),
            secret: take("aws_secret_access_key"),
            token: take("aws_session_token"),
            region: take("region"),
            endpoint: take("endpoint_url"),
        })
    }
}

fn config_section(name: &str) -> String {
    if name == "default" { name.to_owned() } else { format!("profile {name}") }
}

/// Reads a file; empty if there is none.
fn text(file: &Path) -> Result<String, Unusable> {
    let wrong = |why: String| Unusable::new(format!("{}: {why}", file.display()));
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let mut text = String::new();
    let read = opened.take(PROFILE_BYTES_MAX + 1).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 <= PROFILE_BYTES_MAX => Ok(text),
        Ok(_) => Err(wrong(format!("it has more than {PROFILE_BYTES_MAX} bytes"))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// Entries of a section. An indented line continues the entry above; no needed entry has such lines, so they are
/// skipped.
fn entries<'a>(text: &'a str, section: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
    let mut is_ours = false;
    text.lines().filter_map(move |line| {
        let plain = line.trim_end();
        if plain.starts_with(['#', ';', ' ', '\t']) {
            return None;
        }
        if let Some(head) = plain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            is_ours = head.0.split_whitespace().eq(section.split_whitespace());
            return None;
        }
        let (name, value) = plain.split_once('=').filter(|_| is_ours)?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_found_in_both_files() {
        let folder = tempfile::tempdir().unwrap();
        let aws = folder.path().join(".aws");
        std::fs::create_dir(&aws).unwrap();
        let keys = "# ours\n[default]\naws_access_key_id = one\naws_secret_access_key=a=b/c+\n\n[other]\naws_access_key_id=two\n";
        std::fs::write(aws.join("credentials"), keys).unwrap();
        let config = "[default]\nregion = eu-1\naws_access_key_id = never\ns3 =\n  region = no\n[profile  other]\nregion=eu-2\nendpoint_url=http://h:1\n";
        std::fs::write(aws.join("config"), config).unwrap();
        let home = folder.path().display().to_string();
        let read = |profile: Option<&str>| {
            Profile::read(&|name| match name {
                "HOME" => Some(home.clone()),
                "AWS_PROFILE" => profile.map(str::to_owned),
                _ => None,
            })
        };
        let one = read(None).unwrap();
        assert_eq!((one.key.as_deref(), one.secret.as_deref()), (Some("one"), Some("a=b/c+")));
        assert_eq!((one.region.as_deref(), one.endpoint), (Some("eu-1"), None));
        let two = read(Some("other")).unwrap();
        assert_eq!((two.key.as_deref(), two.secret), (Some("two"), None));
        assert_eq!(
            (two.region.as_deref(), two.endpoint.as_deref()),
            (Some("eu-2"), Some("http://h:1"))
        );
        let none = read(Some("third")).err().unwrap().to_string();
        assert!(none.contains("\"third\""), "{none}");
        assert!(Profile::read(&|_| None).unwrap().key.is_none());
    }

    #[test]
    fn a_file_that_is_too_long_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let long = "#".repeat(usize::try_from(PROFILE_BYTES_MAX).unwrap() + 1);
        std::fs::write(&file, long).unwrap();
        let name = file.display().to_string();
        let read = Profile::read(&|variable| {
            (variable == "AWS_SHARED_CREDENTIALS_FILE").then(|| name.clone())
        });
        assert!(read.err().unwrap().to_string().contains("more than"));
    }
}
