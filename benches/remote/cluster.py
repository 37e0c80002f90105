"""Nodes that are measured, and the remote that they share. Knows nothing of what is measured."""
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import nodes
import s3
from network import Loopback

WAIT_SECONDS_MAX = 900


class Remote:
    """A prefix of its own on the store of this run."""

    count = 0

    def __init__(self, mode, folder):
        Remote.count += 1
        self.mode = mode
        self.prefix = f"bench-{time.time_ns():x}-{Remote.count}"
        self.folder = folder / "objects" / self.prefix
        if mode == "folder":
            self.folder.mkdir(parents=True)
            self.address = f"file://{self.folder}"
        else:
            self.address = f"s3://{os.environ['REMOTE_BUCKET']}/{self.prefix}"

    def puts(self, count, size):
        """Milliseconds of that many creations of new objects, one after the other, without any of ours between."""
        body, took = os.urandom(size), []
        client = None if self.mode == "folder" else s3.Client(s3.Settings.of_environment())
        for number in range(count):
            began = time.perf_counter()
            if client:
                answer = client.create(os.environ["REMOTE_BUCKET"], f"{self.prefix}/raw/{number}", body)
                if not answer.good:
                    raise SystemExit(f"the store says {answer} to a creation")
            else:
                create(self.folder / "raw", str(number), body)
            took.append((time.perf_counter() - began) * 1e3)
        return took


def create(folder, name, body):
    """A file that is there as a whole, and synced, as a folder of objects has them."""
    folder.mkdir(exist_ok=True)
    beside = folder / f".{name}"
    with beside.open("xb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    os.link(beside, folder / name)
    beside.unlink()
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


class Cluster:
    """Nodes with one remote; all end with it."""

    def __init__(self, mode, server, lease=15):
        self.scratch = Path(tempfile.mkdtemp(prefix="recalld-bench-"))
        self.server, self.lease = server, lease
        self.remote = Remote(mode, self.scratch)
        self.nodes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in reversed(self.nodes):
            if node.process:
                node.end(9)
        shutil.rmtree(self.scratch)

    def alone(self, name, data=None):
        """A node without a remote: the baseline."""
        return self._node(name, [], data)

    def writer(self, name, data=None, more=()):
        settings = ["--set", f"remote.lease_seconds={self.lease}", "--set", f"remote.node={name}"]
        return self._node(name, ["--remote", self.remote.address, *settings, *more], data)

    def replica(self, name):
        return self._node(name, ["--replica-of", self.remote.address], None)

    def _node(self, name, options, data):
        # Nobody with a key is measured: the hosted listener stays off.
        place = Loopback(name, None)
        node = nodes.Node(name, place, self.scratch, self.server, options, {}, None)
        if data:
            shutil.copytree(data, node.data)
        self.nodes.append(node)
        node.begin()
        node.wait_ready(WAIT_SECONDS_MAX)
        return node


def metrics(node):
    """The page of metrics: {(name, labels): value}."""
    connection = http.client.HTTPConnection(*node.address, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def wait_sent(node):
    """Until all that the node wrote is on the remote."""
    until = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < until:
        page = metrics(node)
        if page["recalld_remote_unsent_bytes"] == 0 and page["recalld_remote_unsent_seconds"] == 0:
            return
        time.sleep(0.05)
    raise SystemExit(f"{node.name} has not sent all in {WAIT_SECONDS_MAX} s")


def credentials(node):
    """Fields that open the HTTP API."""
    command = [node.program, "credentials", "show", "--json", "--data", node.data]
    shown = json.loads(subprocess.run(list(map(str, command)), capture_output=True, check=True).stdout)
    return {"x-gateway-client-id": shown["gateway_client_id"],
            "x-gateway-client-secret": shown["gateway_client_secret"],
            "Authorization": f"Bearer {shown['bearer']}", "Content-Type": "application/json"}


def semantic(node, fields, question):
    """Status and body of one answer by meaning."""
    connection = http.client.HTTPConnection(*node.address, timeout=120)
    connection.request("POST", "/semantic-recall", json.dumps({"query": question, "limit": 5}), fields)
    answer = connection.getresponse()
    said = answer.status, answer.read()
    connection.close()
    return said


def remember(asker, node, text):
    """Writes an item; gives its id and how long it took in milliseconds."""
    began = time.perf_counter()
    status, _, body = asker.call(node, "brain_remember", {"text": text, "kind": "note"})
    result = body.get("result", {})
    if status != 200 or not result or result.get("isError"):
        return None, body
    return result["structuredContent"]["item"]["id"], (time.perf_counter() - began) * 1e3


def in_threads(count, body):
    """Runs `body(number)` in so many threads; the first failure is raised."""
    failed = []

    def run(number):
        try:
            body(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
