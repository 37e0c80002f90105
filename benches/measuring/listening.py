"""A server that is measured: a process that answers HTTP on a port of this machine."""
import http.client
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

ATTEMPTS, ATTEMPT_SECONDS = 1200, 0.05


class Server:
    """A process that answers on `port`."""

    def __init__(self, name, command, port, **options):
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)

    def ask(self, method, path, body=None, fields=None):
        """Status, fields (names in lower case) and body of one answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"content-type": "application/json"} if body else {}
        connection.request(method, path, body, sent | (fields or {}))
        answer = connection.getresponse()
        said = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        connection.close()
        return said

    def wait(self):
        """Waits until it answers."""
        for _ in range(ATTEMPTS):
            try:
                return self.ask("GET", "/health")
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(ATTEMPT_SECONDS)
        raise SystemExit(f"{self.name} does not answer on port {self.port}")

    def processes(self):
        """Ids of the process and its children."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *children.read_text().split()]

    def seconds(self):
        """Processor time of the process and its children so far."""
        ticks = 0
        for one in self.processes():
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def scheduled(real_time, priority=10):
    """What stands before a command that is to run when it wants to; nothing unless it is asked for."""
    if not real_time:
        return []
    before = ["chrt", "-f", str(priority)]
    if not shutil.which("chrt") or subprocess.run([*before, "true"]).returncode:
        raise SystemExit(f"--real-time: this user may not run anything under `{' '.join(before)}`")
    return before
