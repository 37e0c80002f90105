//! A `recalld serve` with all that a service manager can give it.

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

/// A bound that only a broken program reaches.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(60);

/// The program becomes the shell, so that its number is known and is the one that is signalled. The two
/// sockets come as the shell's standard input and error; what the program says goes to a file.
const SHELL: &str = "export LISTEN_PID=$$; exec 3<&0 4<&2 0</dev/null 2>\"$SAID\"; exec \"$@\"";

/// The same without sockets.
const SHELL_ALONE: &str = "exec 0</dev/null 2>\"$SAID\"; exec \"$@\"";

/// A running program; killed when dropped.
pub(crate) struct Launched {
    child: Child,
    _stdout: BufReader<ChildStdout>,
    said: PathBuf,
    local: String,
    pub(crate) ready: Value,
}

/// What a program said, which can be read once it has ended.
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
    /// Starts it and waits until it is ready.
    pub(crate) fn start<const N: usize>(
        data: &Path,
        arguments: &[&str],
        variables: [(&str, &str); N],
    ) -> Self {
        let (mut command, said) = command(SHELL_ALONE, data, arguments, variables);
        Self::ready(command.stdin(Stdio::null()).spawn().unwrap(), said)
    }

    /// The same with two sockets as its descriptors 3 and 4.
    pub(crate) fn with_sockets<const N: usize>(
        data: &Path,
        arguments: &[&str],
        variables: [(&str, &str); N],
        sockets: (TcpListener, TcpListener),
    ) -> Self {
        let (mut command, said) = command(SHELL, data, arguments, variables);
        Self::ready(give(&mut command, sockets).spawn().unwrap(), said)
    }

    /// The same for one that must not start: its exit code, and what it said.
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

    /// What it says, for when it has ended.
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

    /// Its page of metrics.
    pub(crate) fn metrics(&self) -> String {
        let answer = wire::ask(self.local(), &Ask::get("/metrics"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.text()
    }

    /// What it says of itself to anyone.
    pub(crate) fn health(&self) -> Value {
        wire::ask(self.local(), &Ask::get("/health")).json()
    }

    /// Waits until its page of metrics says so.
    pub(crate) fn until(&self, says: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !says(&self.metrics()) {
            assert!(began.elapsed() < TIME_MAX, "waited in vain:\n{}", self.metrics());
            std::thread::yield_now();
        }
    }

    /// Waits until it has said this.
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
        // It may have ended already, which is as good.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
