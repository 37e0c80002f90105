"""A `recalld serve` under a campaign: started, asked by plain sockets, measured from outside."""

import contextlib
import json
import resource
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

# A server that is silent for this long fails the campaign instead of hanging it.
SILENCE_MAX = 60


def many_descriptors():
    """Takes as many descriptors as the system gives; how many that are."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def resident(pid):
    """Bytes of memory that a process has."""
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def descriptors(pid):
    """Files and sockets that a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@contextlib.contextmanager
def serve(command, stderr=None):
    """Runs `recalld serve --json ...`; gives the process and what it said when it was ready."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
    try:
        yield server, json.loads(server.stdout.readline())
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    if code != 0:
        sys.exit(f"FAILED: the server ended with {code}")


def connect(authority):
    host, port = authority.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), SILENCE_MAX)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def request(authority, method, path, fields=(), body=b""):
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {authority}", *fields]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def head(connection):
    """The head of the next answer and what came behind it."""
    said = b""
    while b"\r\n\r\n" not in said:
        piece = connection.recv(65536)
        if not piece:
            sys.exit(f"FAILED: the server closed after {said!r}")
        said += piece
    text, _, rest = said.partition(b"\r\n\r\n")
    return text.decode(), rest


def field(text, name):
    """A field of a head."""
    lines = (line.split(": ", 1) for line in text.split("\r\n")[1:])
    return next((value for key, value in lines if key == name), None)


def answered(connection, said):
    """Sends a request and reads its answer, which must have a length: status, head and body."""
    connection.sendall(said)
    text, body = head(connection)
    length = int(field(text, "content-length") or 0)
    while len(body) < length:
        piece = connection.recv(65536)
        if not piece:
            sys.exit(f"FAILED: the server closed in the middle of {text!r}")
        body += piece
    return int(text.split()[1]), text, body


def numbers(local):
    """The page of metrics: what has no labels."""
    with urllib.request.urlopen(f"{local}/metrics") as page:
        lines = page.read().decode().splitlines()
    pairs = (line.split(" ") for line in lines if not line.startswith("#") and "{" not in line)
    return {name: float(value) for name, value in pairs}
