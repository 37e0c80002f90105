//! The model hub: files of one repository over HTTP, the large ones resumable.
//!
//! Owns the requests and the checks of responses. Only files with a pinned hash are resumed: otherwise, halves of two
//! revisions would pass for a whole file.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use ureq::http::{Response, StatusCode, header};
use ureq::{Agent, Body};

use super::cache::{self, Cache, Turn};
use super::error::FileFault;
use super::files::{self, CONFIG, Kind, POOLING, SENTENCE, TOKENIZER, WEIGHTS};
use super::progress::Progress;
use super::request::{Hub, ModelRequest, Sha256};

/// Maximum number of requests for one large file. Each request must receive at least one new byte.
const TRIES_MAX: u32 = 16;
const REDIRECTS_MAX: u32 = 5;
const PIECE_BYTES: usize = 64 << 10;

/// Reason for which the hub returned no model.
#[derive(Debug)]
pub(super) enum HubFault {
    /// The settings are invalid for an HTTP client.
    Settings(ureq::Error),
    /// A request without a usable response.
    Unreachable { url: String, error: ureq::Error },
    /// A response whose status is not that of the requested file.
    Refused { url: String, status: StatusCode },
    /// The body ended early on the last attempt.
    Cut { url: String, have: u64, error: io::Error },
    /// The received file is invalid.
    File(FileFault),
    /// A local disk error.
    Disk(io::Error),
}

impl fmt::Display for HubFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => write!(f, "no client for it: {error}"),
            Self::Unreachable { url, error } => write!(f, "{url}: {error}"),
            Self::Refused { url, status } => write!(f, "{url} answered {status}"),
            Self::Cut { url, have, error } => {
                write!(f, "{url} broke off after {have} bytes: {error}")
            }
            Self::File(fault) => fault.fmt(f),
            Self::Disk(error) => write!(f, "the cache cannot be written: {error}"),
        }
    }
}

/// Downloads the model's files into the staging directory of `cache`. Unfinished files stay for the next start.
pub(super) fn download(
    hub: &Hub,
    request: &ModelRequest,
    cache: &Cache,
    turn: &Turn,
    progress: &mut dyn Progress,
) -> Result<(), HubFault> {
    let staging = cache.stage(turn).map_err(HubFault::Disk)?;
    let partial = cache.partial();
    fs::create_dir_all(&partial).map_err(HubFault::Disk)?;
    let agent = agent(hub).map_err(HubFault::Settings)?;
    let url = |kind: Kind| {
        format!("{}/{}/resolve/{}/{}", hub.base_url, request.name, hub.revision, kind.name)
    };

    // The pinned files first: the smaller one detects the page of a captive portal in place of the hub.
    for (kind, wanted) in
        [(TOKENIZER, request.expected.tokenizer), (WEIGHTS, request.expected.weights)]
    {
        let mut part = Part::open(&partial, kind).map_err(HubFault::Disk)?;
        part.complete(&agent, &url(kind), &wanted, progress)?;
        fs::rename(&part.path, staging.join(kind.name)).map_err(HubFault::Disk)?;
    }
    for kind in [CONFIG, POOLING, SENTENCE] {
        let Some(bytes) = small(&agent, &url(kind), kind)? else { continue };
        files::object(kind, &bytes).map_err(HubFault::File)?;
        cache::put(&staging, kind, &bytes).map_err(HubFault::Disk)?;
    }
    Ok(())
}

/// HTTP client that returns statuses to the caller. Only a base URL of plain HTTP may redirect to plain HTTP.
fn agent(hub: &Hub) -> Result<Agent, ureq::Error> {
    let proxy = hub.proxy.as_deref().map(ureq::Proxy::new).transpose()?;
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .https_only(hub.base_url.starts_with("https:"))
        .max_redirects(REDIRECTS_MAX)
        .proxy(proxy)
        .user_agent(concat!("recalld/", env!("CARGO_PKG_VERSION")))
        .timeout_resolve(Some(hub.connect_wait))
        .timeout_connect(Some(hub.connect_wait))
        .timeout_recv_response(Some(hub.read_wait))
        .timeout_per_read(Some(hub.read_wait))
        .build();
    Ok(config.new_agent())
}

/// Fetches a small file in one request. Returns `None` if an optional file does not exist in the repository.
fn small(agent: &Agent, url: &str, kind: Kind) -> Result<Option<Vec<u8>>, HubFault> {
    let mut response = ask(agent, url, 0)?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::NOT_FOUND if kind != CONFIG => return Ok(None),
        status => return Err(HubFault::Refused { url: url.into(), status }),
    }
    let mut bytes = Vec::new();
    let read = response.body_mut().as_reader().take(kind.bytes_max + 1).read_to_end(&mut bytes);
    let have = bytes.len() as u64;
    read.map_err(|error| HubFault::Cut { url: url.into(), have, error })?;
    if have > kind.bytes_max {
        return Err(HubFault::File(too_large(kind)));
    }
    Ok(Some(bytes))
}

fn ask(agent: &Agent, url: &str, from: u64) -> Result<Response<Body>, HubFault> {
    let mut request = agent.get(url);
    if from > 0 {
        request = request.header(header::RANGE, format!("bytes={from}-"));
    }
    request.call().map_err(|error| HubFault::Unreachable { url: url.into(), error })
}

fn too_large(kind: Kind) -> FileFault {
    FileFault::TooLarge { file: kind.name, bytes_max: kind.bytes_max }
}

/// A download, possibly started by an earlier process.
struct Part {
    path: std::path::PathBuf,
    file: File,
    kind: Kind,
    have: u64,
}

/// Result of one request for the rest of a file.
enum Pull {
    /// The body is complete.
    Whole,
    /// The hub cannot resume at this offset.
    Stale,
    /// The body ended early.
    Cut(io::Error),
}

impl Part {
    fn open(folder: &Path, kind: Kind) -> io::Result<Self> {
        let path = folder.join(format!("{}.part", kind.name));
        let mut file =
            File::options().create(true).read(true).write(true).truncate(false).open(&path)?;
        let have = file.seek(SeekFrom::End(0))?;
        Ok(Self { path, file, kind, have })
    }

    /// Sends requests until the file is whole and hashes to `wanted`. If a resumed file has another hash, the file is
    /// fetched once more from its start: the earlier part may be of another revision.
    fn complete(
        &mut self,
        agent: &Agent,
        url: &str,
        wanted: &Sha256,
        progress: &mut dyn Progress,
    ) -> Result<(), HubFault> {
        let mut resumed = self.have > 0;
        for _ in 0..TRIES_MAX {
            let before = self.have;
            match self.pull(agent, url, progress)? {
                Pull::Whole => match self.check(wanted)? {
                    Ok(()) => return Ok(()),
                    Err(_) if resumed => {
                        progress.say("the resumed file is not the wanted one; starting it again")
                    }
                    Err(fault) => {
                        self.restart().map_err(HubFault::Disk)?;
                        return Err(HubFault::File(fault));
                    }
                },
                // The file may be whole already: the process may have ended between the last byte and the rename.
                Pull::Stale if self.check(wanted)?.is_ok() => return Ok(()),
                Pull::Stale => progress.say("the hub cannot resume the file; starting it again"),
                Pull::Cut(error) if self.have == before => {
                    return Err(HubFault::Cut { url: url.into(), have: self.have, error });
                }
                Pull::Cut(error) => {
                    progress.say(&format!("{url} broke off ({error}); resuming"));
                    resumed = true;
                    continue;
                }
            }
            self.restart().map_err(HubFault::Disk)?;
            resumed = false;
        }
        let error = io::Error::other(format!("gave up after {TRIES_MAX} requests"));
        Err(HubFault::Cut { url: url.into(), have: self.have, error })
    }

    /// Sends one request and appends its body.
    fn pull(
        &mut self,
        agent: &Agent,
        url: &str,
        progress: &mut dyn Progress,
    ) -> Result<Pull, HubFault> {
        let mut response = ask(agent, url, self.have)?;
        match response.status() {
            StatusCode::OK => self.restart().map_err(HubFault::Disk)?,
            StatusCode::PARTIAL_CONTENT if resumes_at(&response, self.have) => {}
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if self.have > 0 => {
                return Ok(Pull::Stale);
            }
            status => return Err(HubFault::Refused { url: url.into(), status }),
        }
        let total = response.body().content_length().map(|rest| self.have.saturating_add(rest));
        if total.is_some_and(|total| total > self.kind.bytes_max) {
            return Err(HubFault::File(too_large(self.kind)));
        }
        let mut body = response.body_mut().as_reader();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let count = match body.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Pull::Cut(error)),
            };
            if self.have + count as u64 > self.kind.bytes_max {
                return Err(HubFault::File(too_large(self.kind)));
            }
            self.file.write_all(&piece[..count]).map_err(HubFault::Disk)?;
            self.have += count as u64;
            progress.advance(self.kind.name, self.have, total);
        }
        match total {
            Some(total) if self.have < total => Ok(Pull::Cut(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(Pull::Whole),
        }
    }

    /// Compares the file's hash with `wanted`. The inner result is the comparison, the outer one a disk error.
    fn check(&self, wanted: &Sha256) -> Result<Result<(), FileFault>, HubFault> {
        let found = files::hash_of(&self.path).map_err(HubFault::Disk)?;
        Ok(files::same(self.kind, wanted, &found))
    }

    fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.have = 0;
        Ok(())
    }
}

/// Returns true if a 206 response continues at byte `have` (RFC 9110, section 14.4: `bytes FIRST-LAST/TOTAL`).
fn resumes_at(response: &Response<Body>, have: u64) -> bool {
    let range = response.headers().get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let first =
        range.and_then(|range| range.strip_prefix("bytes ")?.split_once('-')?.0.parse().ok());
    first == Some(have)
}
