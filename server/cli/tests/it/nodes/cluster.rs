//! Nodes as programs, over a folder in place of an object store.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use support_wire::service::{self, Service, run, scratch};
use support_wire::tiny_model::Tiny;
use tempfile::TempDir;

/// A folder of objects, and the files shared by its nodes.
pub(crate) struct Cluster {
    scratch: TempDir,
    model: PathBuf,
    has_secret: bool,
}

impl Cluster {
    /// A cluster without nodes, with or without a shared secret.
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

    /// Creates the secret for all nodes started from now on.
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

    /// Starts a node that may lead.
    pub(crate) fn writer(&self, node: &str) -> Service {
        self.node(node, "--remote")
    }

    /// Starts a read-only replica.
    pub(crate) fn replica(&self, node: &str) -> Service {
        self.node(node, "--replica-of")
    }

    /// Starts a node with additional settings.
    pub(crate) fn node_with(&self, node: &str, how: &str, set: &[&str]) -> Service {
        let mut arguments = self.arguments(node, how);
        for one in set {
            arguments.extend(["--set".to_owned(), (*one).to_owned()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Service::start(&self.data(node), &arguments)
    }

    /// Starts a node that issues access tokens under the cluster's common URL.
    pub(crate) fn public(&self, node: &str, how: &str) -> Service {
        let mut arguments = self.arguments(node, how);
        arguments.extend(["--public-url", "https://recall.example"].map(str::to_owned));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Service::start(&self.data(node), &arguments)
    }

    /// Creates a symbolic link through which the node, once started, accesses the objects.
    pub(crate) fn way(&self, node: &str) -> PathBuf {
        let way = self.data(node).with_extension("way");
        std::os::unix::fs::symlink(self.bucket(), &way).unwrap();
        way
    }

    /// The folder of the objects.
    pub(crate) fn bucket(&self) -> PathBuf {
        self.scratch.path().join("bucket")
    }

    fn node(&self, node: &str, how: &str) -> Service {
        let arguments = self.arguments(node, how);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Service::start(&self.data(node), &arguments)
    }

    /// Command-line arguments of a node.
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

    /// Output of a start that is expected to fail.
    pub(crate) fn refused(&self, node: &str) -> Output {
        let arguments = self.arguments(node, "--remote");
        let mut all = vec!["serve", "--local", "127.0.0.1:0"];
        all.extend(arguments.iter().map(String::as_str));
        run(&self.data(node), &all)
    }
}

/// A free port. The node must know its port before its start, so the port is below the ephemeral range (32768 and
/// above) that the system assigns meanwhile. Each process begins at another port.
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
