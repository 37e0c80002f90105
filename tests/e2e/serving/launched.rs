//! A `recalld serve` process started as a service manager does.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support_wire::service::binary;
use support_wire::wire::{self, Ask};

/// A timeout that only a broken program reaches.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(60);

/// The shell replaces itself by the program, so that the known process id is the one to signal. The two sockets come as
/// the shell's standard input and error; the program's log goes to a file.
const SHELL: &str = "export LISTEN_PID=$$; exec 3<&0 4<&2 0</dev/null 2>\"$SAID\"; exec \"$@\"";

/// [`SHELL`] without sockets.
const SHELL_ALONE: &str = "exec 0</dev/null 2>\"$SAID\"; exec \"$@\"";

/// A running program, killed on drop.
pub(crate) struct Launched {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    said: PathBuf,
    local: String,
    pub(crate) ready: Value,
}

/// The log of a program, read after its exit.
pub(crate) struct Said(PathBuf);

impl Said {
    pub(crate) fn read(&self) -> String {
        fs::read_to_string(&self.0).unwrap()
    }
}

fn command<const N: usize>(
    shell: &str,
    data: &Path,
    arguments: &[&str],
    variables: [(&str, &str); N],
) -> (Command, PathBuf) {
    let said = data.with_extension("said");
    File::create(&said).unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", shell, "sh"])
        .arg(binary())
        .args(["serve", "--json", "--local", "127.0.0.1:0", "--data"])
        .arg(data)
        .args(arguments)
        .env("SAID", &said)
        .envs(variables)
        .stdout(Stdio::piped());
    (command, said)
}

impl Launched {
    /// Starts the program and waits until it is ready.
    pub(crate) fn start<const N: usize>(
        data: &Path,
        arguments: &[&str],
        variables: [(&str, &str); N],
    ) -> Self {
        let (mut command, said) = command(SHELL_ALONE, data, arguments, variables);
        Self::ready(command.stdin(Stdio::null()).spawn().unwrap(), said)
    }

    /// Starts the program with two sockets as its descriptors 3 and 4.
    pub(crate) fn with_sockets<const N: usize>(
        data: &Path,
        arguments: &[&str],
        variables: [(&str, &str); N],
        sockets: (TcpListener, TcpListener),
    ) -> Self {
        let (mut command, said) = command(SHELL, data, arguments, variables);
        Self::ready(give(&mut command, sockets).spawn().unwrap(), said)
    }

    /// Runs a program that must not start, and returns its exit code and log.
    pub(crate) fn refused<const N: usize>(
        data: &Path,
        arguments: &[&str],
        variables: [(&str, &str); N],
        sockets: (TcpListener, TcpListener),
    ) -> (Option<i32>, String) {
        let (mut command, said) = command(SHELL, data, arguments, variables);
        let status = give(&mut command, sockets).status().unwrap();
        (status.code(), Said(said).read())
    }

    fn ready(mut child: Child, said: PathBuf) -> Self {
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("not ready but {line:?}: {}", Said(said.clone()).read()));
        let local = ready["local"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Self { child, _stdout: stdout, said, local, ready }
    }

    pub(crate) fn local(&self) -> &str {
        &self.local
    }

    /// The log, to be read after the exit.
    pub(crate) fn said(&self) -> Said {
        Said(self.said.clone())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.unwrap(), signal).unwrap();
    }

    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn terminate(self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    pub(crate) fn metrics(&self) -> String {
        let answer = wire::ask(self.local(), &Ask::get("/metrics"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    /// Fetches the unauthenticated health response.
    pub(crate) fn health(&self) -> Value {
        wire::ask(self.local(), &Ask::get("/health")).json()
    }

    /// Waits until the metrics page satisfies the condition.
    pub(crate) fn until(&self, says: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !says(&self.metrics()) {
            assert!(began.elapsed() < TIME_MAX, "waited in vain:\n{}", self.metrics());
            std::thread::yield_now();
        }
    }

    /// Waits until the log contains `what`.
    pub(crate) fn until_said(&self, what: &str) {
        let began = Instant::now();
        while !self.said().read().contains(what) {
            assert!(began.elapsed() < TIME_MAX, "waited in vain:\n{}", self.said().read());
            std::thread::yield_now();
        }
    }
}

fn give(command: &mut Command, (three, four): (TcpListener, TcpListener)) -> &mut Command {
    command.stdin(Stdio::from(OwnedFd::from(three))).stderr(Stdio::from(OwnedFd::from(four)))
}

impl Drop for Launched {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
