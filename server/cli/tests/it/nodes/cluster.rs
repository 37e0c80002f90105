//! Nodes over a folder that stands for an object store.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use support_wire::service::{self, Service, run, scratch};
use support_wire::tiny_model::Tiny;
use tempfile::TempDir;

/// A folder of objects, and what its nodes share.
pub(crate) struct Cluster {
    scratch: TempDir,
    model: PathBuf,
    has_secret: bool,
}

impl Cluster {
    /// Without any node yet; its nodes share a secret, or do not.
    pub(crate) fn new(has_secret: bool) -> Self {
        let scratch = scratch();
        let model = Tiny::new(1, 16).write(scratch.path(), "model");
        std::fs::create_dir(scratch.path().join("bucket")).unwrap();
        let mut made = Self { scratch, model, has_secret: false };
        if has_secret {
            made.share_a_secret();
        }
        made
    }

    /// From now on its nodes share one.
    pub(crate) fn share_a_secret(&mut self) {
        let mut command = Command::new(service::binary());
        command.args(["remote", "secret"]).arg(self.secret());
        assert!(command.status().unwrap().success());
        self.has_secret = true;
    }

    pub(crate) fn secret(&self) -> PathBuf {
        self.scratch.path().join("nodes.secret")
    }

    pub(crate) fn data(&self, node: &str) -> PathBuf {
        self.scratch.path().join(node)
    }

    /// A node that may write.
    pub(crate) fn writer(&self, node: &str) -> Service {
        self.node(node, "--remote")
    }

    /// A node that only follows.
    pub(crate) fn replica(&self, node: &str) -> Service {
        self.node(node, "--replica-of")
    }

    /// One of them, with more settings.
    pub(crate) fn node_with(&self, node: &str, how: &str, set: &[&str]) -> Service {
        let mut arguments = self.arguments(node, how);
        for one in set {
            arguments.extend(["--set".to_owned(), (*one).to_owned()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Service::start(&self.data(node), &arguments)
    }

    /// One of them, which issues access tokens under the address that all have.
    pub(crate) fn public(&self, node: &str, how: &str) -> Service {
        let mut arguments = self.arguments(node, how);
        arguments.extend(["--public-url", "https://recall.example"].map(str::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Service::start(&self.data(node), &arguments)
    }

    /// A link by which that node, once it starts, reaches the objects.
    pub(crate) fn way(&self, node: &str) -> PathBuf {
        let way = self.data(node).with_extension("way");
        std::os::unix::fs::symlink(self.bucket(), &way).unwrap();
        way
    }

    /// Where objects lie.
    pub(crate) fn bucket(&self) -> PathBuf {
        self.scratch.path().join("bucket")
    }

    fn node(&self, node: &str, how: &str) -> Service {
        let arguments = self.arguments(node, how);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Service::start(&self.data(node), &arguments)
    }

    /// What a node is started with.
    pub(crate) fn arguments(&self, node: &str, how: &str) -> Vec<String> {
        let port = free_port();
        let way = self.data(node).with_extension("way");
        let bucket = if way.exists() { way } else { self.bucket() };
        let mut arguments: Vec<String> = [
            "--model".to_owned(),
            self.model.display().to_string(),
            how.to_owned(),
            format!("file://{}", bucket.display()),
            "--hosted".to_owned(),
            format!("127.0.0.1:{port}"),
        ]
        .to_vec();
        let mut set = |what: String| arguments.extend(["--set".to_owned(), what]);
        set(format!("remote.node={node}"));
        set(format!("remote.node_url=http://127.0.0.1:{port}"));
        if self.has_secret {
            set(format!("remote.secret_file={}", self.secret().display()));
        }
        arguments
    }

    /// What comes of a start that is refused.
    pub(crate) fn refused(&self, node: &str) -> Output {
        let arguments = self.arguments(node, "--remote");
        let mut all = vec!["serve", "--local", "127.0.0.1:0"];
        all.extend(arguments.iter().map(String::as_str));
        run(&self.data(node), &all)
    }
}

/// A port that nobody has. A node has to know it before it starts, so it is none of those that the system gives to
/// others meanwhile (32768 and above), and each process begins elsewhere.
fn free_port() -> u16 {
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    loop {
        let drawn = std::process::id() * 64 + DRAWN.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(10_000 + drawn % 20_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
