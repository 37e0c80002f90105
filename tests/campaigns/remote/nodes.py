"""Nodes of a campaign: processes of `recalld serve`, begun, ended and asked."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

READY_SECONDS_MAX = 120
END_SECONDS_MAX = 60
# One that ended by itself is begun again after this, as a service manager would.
AGAIN_SECONDS = 1.0


class Node:
    """One node, and its process while it has one."""

    def __init__(self, name, place, folder, program, options, environment, hosted):
        self.name, self.place, self.program, self.options = name, place, program, options
        # Where those with keys reach it, from its own place, if it is to listen there.
        self.hosted = hosted
        self.data, self.log = Path(folder) / name, Path(folder) / f"{name}.log"
        self.environment = {**os.environ, **environment}
        self.process, self.address = None, None
        # When it was begun, and when it said that it was ready.
        self.began_at = self.ready_at = None
        # How often it was begun; what was connected to an earlier process is of no use.
        self.life = 0
        self.wanted = False
        self.ended_alone = []
        self._lock = threading.RLock()
        # Held while a command asks it, and while its disk is made empty: without a server, a command would begin what
        # is there anew.
        self.asked = threading.Lock()

    @property
    def may_write(self):
        return "--remote" in self.options

    def begin(self):
        """Begins it; `address` is known once it is ready."""
        with self._lock:
            self.wanted = True
            if self.process and self.process.poll() is None:
                return
            hosted = ["--hosted", "{}:{}".format(*self.hosted)] if self.hosted else []
            command = [*self.place.before, self.program, "serve", "--json", "--local", "127.0.0.1:0",
                       *hosted, "--data", self.data, *self.options]
            self.life += 1
            self.address, self.began_at = None, time.perf_counter()
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL,
                                                stdout=subprocess.PIPE, stderr=log, env=self.environment)
            threading.Thread(target=self._wait, args=(self.process, self.life), daemon=True).start()

    def _wait(self, process, life):
        line = process.stdout.readline()
        if line and life == self.life:
            host, port = json.loads(line)["local"].removeprefix("http://").rsplit(":", 1)
            self.ready_at = time.perf_counter()
            self.address = host, int(port)
        process.wait()
        time.sleep(AGAIN_SECONDS)
        with self._lock:
            if self.wanted and self.process is process:
                self.ended_alone.append((process.returncode, self.last_words()))
                self.begin()

    def wait_ready(self, seconds=READY_SECONDS_MAX):
        until = time.monotonic() + seconds
        while self.address is None:
            if time.monotonic() > until:
                raise SystemExit(f"FAILED: {self.name} was not ready in {seconds} s: {self.last_words()}")
            time.sleep(0.02)

    def end(self, sign=signal.SIGTERM):
        """Ends it; gives its code."""
        with self._lock:
            self.wanted = False
            process = self.process
        if process.poll() is None:
            process.send_signal(sign)
            process.send_signal(signal.SIGCONT)
        try:
            code = process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        self.address = None
        return code

    def send(self, sign):
        with self._lock:
            if self.process and self.process.poll() is None:
                self.process.send_signal(sign)

    def wipe(self):
        """The machine is gone with its disk."""
        with self.asked:
            shutil.rmtree(self.data, ignore_errors=True)

    def last_words(self):
        return self.log.read_text(errors="replace")[-400:].strip() if self.log.exists() else ""

    def panics(self):
        said = self.log.read_text(errors="replace") if self.log.exists() else ""
        return [line for line in said.splitlines() if "panicked" in line]


class NoAnswer(Exception):
    """The node said nothing, or not all: nobody knows what became of the question."""


class NotAsked(Exception):
    """The node cannot be reached: it does not know of the question."""


class Asker:
    """Connections to all nodes, for one thread: to where no key is asked for, or to where it is."""

    def __init__(self, timeout, hosted=False):
        self.timeout, self.hosted, self.connections = timeout, hosted, {}

    def call(self, node, tool, arguments, key=None):
        """Status, fields and body of an answer."""
        return self.mcp(node, "tools/call", {"name": tool, "arguments": arguments}, key)

    def mcp(self, node, method, params, key=None):
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self.ask(node, "POST", "/mcp", json.dumps(message), key)

    def ask(self, node, method, path, body=None, key=None):
        connection = self._connection(node)
        fields = {"Content-Type": "application/json"} if body else {}
        if key:
            fields["Authorization"] = f"Bearer {key}"
        try:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            return answer.status, dict((k.lower(), v) for k, v in answer.getheaders()), json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._forget(node)
            raise NoAnswer(f"{type(error).__name__}: {error}") from None

    def _connection(self, node):
        kept = self.connections.get(node.name)
        if kept and kept[0] == node.life and kept[1].sock is not None:
            return kept[1]
        self._forget(node)
        address, life = node.address, node.life
        if address is None:
            raise NotAsked(f"{node.name} is not there")
        if self.hosted:
            address = node.hosted
        connection = http.client.HTTPConnection(*address, timeout=self.timeout)
        connection.auto_open = 0
        try:
            connection.sock = node.place.connect(address, self.timeout)
        except OSError as error:
            raise NotAsked(str(error)) from None
        self.connections[node.name] = life, connection
        return connection

    def _forget(self, node):
        kept = self.connections.pop(node.name, None)
        if kept:
            kept[1].close()
