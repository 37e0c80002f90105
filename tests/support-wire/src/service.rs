//! The real program on a temporary directory, started and ended by tests.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::Value;
use tempfile::TempDir;

use crate::documents;
use crate::wire::{self, Answer, Ask, Client};

/// Binaries of the packages `recalld-cli` and `e2e`.
const BINARIES: [&str; 2] = ["recalld", "recalld-e2e"];

/// Starts a service for all tests of a process, with a hosted listener. The documents of `documents::write_all`, below
/// its temporary directory, are ingested.
///
/// # Panics
/// As [`Service::start_shared`].
pub fn with_documents(arguments: &[&str]) -> Service {
    let scratch = scratch();
    let folder = scratch.path().join("documents");
    documents::write_all(&folder);
    let folder = folder.to_str().expect("scratch folders have plain names");
    let own = ["--hosted", "127.0.0.1:0", "--ingest", folder];
    Service::start_shared(scratch, &[&own, arguments].concat())
}

/// Path of the `recalld` program: a binary of the tests' package, which cargo builds before them. If two packages have
/// built one, the newer is used.
///
/// # Panics
/// The program is missing.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let me = std::env::current_exe().expect("a test knows where it is");
        let profile_dir = me.ancestors().nth(2).expect("target/PROFILE/deps/test");
        let built = BINARIES.map(|name| profile_dir.join(name)).into_iter();
        let newest = built.max_by_key(|path| path.metadata().and_then(|it| it.modified()).ok());
        let newest = newest.filter(|path| path.is_file());
        newest.unwrap_or_else(|| panic!("none of {BINARIES:?} is in {}", profile_dir.display()))
    })
}

/// Makes a temporary directory that is removed with the test.
///
/// # Panics
/// The directory cannot be made.
pub fn scratch() -> TempDir {
    tempfile::Builder::new().prefix("recalld-test-").tempdir().expect("a scratch folder")
}

/// Makes a command of the program on a data directory, without running it.
pub fn command(data: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).arg("--data").arg(data).env("RECALLD_CACHE", cache());
    command
}

/// A cache of the tests' own beside the program, so that tests and operator do not share packed weights and remembered
/// state. The downloaded models are shared.
fn cache() -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let own = binary().with_file_name("recalld-test-cache");
        fs::create_dir_all(&own).expect("a folder beside the program");
        let home = home().expect("the environment names a cache");
        let models = home.join("models");
        fs::create_dir_all(&models).expect("the cache can be written");
        match std::os::unix::fs::symlink(models, own.join("models")) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => panic!("{error}"),
            _ => own,
        }
    })
}

/// The operator's cache: `RECALLD_CACHE` if set, else below `XDG_CACHE_HOME` if that is absolute, else below `HOME`.
fn home() -> Option<PathBuf> {
    let path = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let xdg = || path("XDG_CACHE_HOME").filter(|it| it.is_absolute()).map(|it| it.join("recalld"));
    path("RECALLD_CACHE").or_else(xdg).or_else(|| path("HOME").map(|it| it.join(".cache/recalld")))
}

/// Runs a command to its end.
///
/// # Panics
/// The command does not start.
pub fn run(data: &Path, arguments: &[&str]) -> Output {
    command(data, arguments).stdin(Stdio::null()).output().expect("recalld starts")
}

/// Runs a command that must succeed, and returns its standard output as JSON.
///
/// # Panics
/// The command fails or prints something else.
pub fn run_json(data: &Path, arguments: &[&str]) -> Value {
    let output = run(data, &[arguments, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

/// A running `recalld serve`, killed on drop.
pub struct Service {
    child: Child,
    /// Held open, as a terminal would.
    _stdout: BufReader<ChildStdout>,
    /// A process that waits for the end of its standard input, which the system closes when this process ends.
    _guard: Option<Child>,
    data: PathBuf,
    local: String,
    hosted: Option<String>,
    credentials: Credentials,
}

/// The credentials of the HTTP API.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Value of `x-gateway-client-id`.
    pub gateway_id: String,
    /// Value of `x-gateway-client-secret`.
    pub gateway_secret: String,
    /// Bearer token.
    pub bearer: String,
}

impl Service {
    /// Starts `serve` on free ports and waits until it is ready.
    ///
    /// # Panics
    /// The process ends before it is ready; the message has its output.
    pub fn start(data: &Path, arguments: &[&str]) -> Self {
        let serve = [&["serve", "--local", "127.0.0.1:0"], arguments].concat();
        Self::start_as(data, command(data, &serve))
    }

    /// Starts `serve` by a shell that ignores `SIGXFSZ`, so that a write beyond the file size limit fails and does not
    /// end the process. [`Service::let_files_grow`] then simulates a full disk, and a disk with space again.
    ///
    /// # Panics
    /// As [`Service::start`].
    pub fn start_on_a_small_disk(data: &Path, arguments: &[&str]) -> Self {
        let serve = [&["serve", "--local", "127.0.0.1:0"], arguments].concat();
        let inner = command(data, &serve);
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        command.arg(inner.get_program()).args(inner.get_args());
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Self::start_as(data, command)
    }

    fn start_as(data: &Path, mut command: Command) -> Self {
        let said = data.with_extension("stderr");
        let stderr = File::create(&said).expect("a file for what the service says");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("recalld starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("it was piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("its output can be read");
        if !line.starts_with("ready ") {
            let status = child.wait();
            let said = fs::read_to_string(said).unwrap_or_default();
            panic!("not ready but {line:?}, {status:?}\n{said}");
        }
        let address = |name: &str| {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            word.and_then(|url| url.split_once("://")).map(|(_, authority)| authority.to_owned())
        };
        let local = address("local=").expect("the local listener is on");
        let hosted = address("hosted=");
        assert!(line.contains(&format!("data={}", data.display())), "{line}");
        let shown = run_json(data, &["credentials", "show"]);
        let word = |name: &str| shown[name].as_str().expect("credentials are texts").to_owned();
        let credentials = Credentials {
            gateway_id: word("gateway_client_id"),
            gateway_secret: word("gateway_client_secret"),
            bearer: word("bearer"),
        };
        let data = data.to_owned();
        Self { child, _stdout: stdout, _guard: None, data, local, hosted, credentials }
    }

    /// Starts a service for all tests of this process. Statics are not dropped, so a guard process ends the service and
    /// removes `scratch` when this process has ended in any way.
    ///
    /// # Panics
    /// The guard does not start.
    pub fn start_shared(scratch: TempDir, arguments: &[&str]) -> Self {
        let mut service = Self::start(&scratch.path().join("data"), arguments);
        let guard = Command::new("sh")
            .args(["-c", "read -r _; kill -9 \"$1\"; rm -rf \"$2\"", "guard"])
            .arg(service.child.id().to_string())
            .arg(scratch.keep())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh starts");
        service._guard = Some(guard);
        service
    }

    /// `127.0.0.1:PORT` of the local listener.
    pub fn local(&self) -> &str {
        &self.local
    }

    /// `127.0.0.1:PORT` of the hosted listener.
    ///
    /// # Panics
    /// The hosted listener is off.
    pub fn hosted(&self) -> &str {
        self.hosted.as_deref().expect("started with --hosted")
    }

    /// Path of the data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The credentials of the HTTP API.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Adds both credentials to a request.
    pub fn signed(&self, ask: Ask) -> Ask {
        let Credentials { gateway_id, gateway_secret, bearer } = &self.credentials;
        ask.header("x-gateway-client-id", gateway_id)
            .header("x-gateway-client-secret", gateway_secret)
            .header("Authorization", &format!("Bearer {bearer}"))
    }

    /// Sends one request to the local listener, on a connection of its own.
    pub fn ask(&self, ask: &Ask) -> Answer {
        wire::ask(&self.local, ask)
    }

    /// Sends a `POST` with both credentials and returns the body.
    ///
    /// # Panics
    /// The status is not 200.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask(&self.signed(Ask::post(path, body)));
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text());
        answer.json()
    }

    /// Connects to the local listener.
    ///
    /// # Panics
    /// The connection is refused.
    pub fn connect(&self) -> Client {
        Client::open(&self.local).expect("the local listener takes connections")
    }

    /// Sends SIGTERM, and returns the exit status.
    ///
    /// # Panics
    /// The signal cannot be sent.
    pub fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.child.wait().expect("the child can be waited for")
    }

    /// Sends SIGKILL, which leaves no more than a power cut does. Client threads may still be writing meanwhile.
    ///
    /// # Panics
    /// The signal cannot be sent.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("the child can be waited for");
    }

    /// Sets whether files may grow beyond their first byte. If not, every write beyond it fails.
    ///
    /// # Panics
    /// A system call fails.
    pub fn let_files_grow(&self, may: bool) {
        self.let_files_grow_to(if may { None } else { Some(1) });
    }

    /// Sets the largest size of files in bytes; `None` for the limit of this process. Only writes beyond the limit
    /// fail.
    ///
    /// # Panics
    /// A system call fails.
    pub fn let_files_grow_to(&self, bytes: Option<u64>) {
        let ours = getrlimit(Resource::Fsize);
        let current = bytes.or(ours.current);
        let limited = prlimit(Some(self.pid()), Resource::Fsize, Rlimit { current, ..ours });
        limited.expect("our child can be limited");
    }

    fn pid(&self) -> Pid {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.expect("a child has a pid")
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("our child can be signalled");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Writes a file, and creates its missing parent folders.
///
/// # Panics
/// A system call fails.
pub fn write(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders are made");
    let mut file = File::create(&path).expect("the file is made");
    file.write_all(bytes.as_ref()).expect("the file is written");
    path
}
