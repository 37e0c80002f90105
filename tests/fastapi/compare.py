"""Asks FastAPI and `recalld serve` the same and compares status, kind and body: compare.py RECALLD REQUESTS SEED.

Both listen on loopback. What was thought of is asked first (bodies.py), then REQUESTS from the seed (wild.py). The
differences that are meant are those of `excused`, and of nothing else; format-spec/http.md has them with their reasons.
"""

import collections
import http.client
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading

import uvicorn
from bodies import cases
from reference import app, plain
from wild import request

SECONDS_MAX = 60
SHOWN_MAX = 20
# Ours stops here; Python where its stack ends, which is another place for each value.
DEPTH_MAX = 900
BODY_BYTES_MAX = 1024 * 1024
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def start_reference():
    """FastAPI under uvicorn, on a thread of this process."""
    listener = socket.create_server(("127.0.0.1", 0))
    # Inherited by what is accepted; without it each answer waits 40 ms for its second half.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    config = uvicorn.Config(app, log_level="critical", access_log=False, timeout_keep_alive=600)
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
    return listener.getsockname()[1]


def start_recalld(program, data):
    """The service on scratch data with enough in it that `limit` shows."""
    command = [program, "serve", "--local", "127.0.0.1:0", "--data", data, "--ingest", str(REPOSITORY / "format-spec")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = child.stdout.readline()
    if not line.startswith("ready local=http://"):
        sys.exit(f"recalld did not become ready: {line!r}")
    port = int(line.split()[1].rsplit(":", 1)[1])
    shown = subprocess.run(
        [program, "credentials", "show", "--json", "--data", data], check=True, capture_output=True
    ).stdout
    return child, port, json.loads(shown)


class Side:
    """One connection, opened again where it was closed."""

    def __init__(self, port, fields):
        self.port, self.fields, self.connection = port, fields, None

    def ask(self, method, path, kinds, body):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)
        self.connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in self.fields:
            self.connection.putheader(name, value)
        for kind in kinds:
            self.connection.putheader("Content-Type", kind.encode("latin-1"))
        self.connection.putheader("Content-Length", str(len(body)))
        self.connection.endheaders(body)
        answer = self.connection.getresponse()
        told = answer.status, answer.headers, answer.read()
        if answer.will_close:
            self.connection.close()
            self.connection = None
        return told


def depth(body):
    """How deep the brackets of a body go, those in strings too."""
    deepest = level = 0
    for byte in body:
        level += (byte in b"[{") - (byte in b"]}")
        deepest = max(deepest, level)
    return deepest


def excused(body, theirs, ours):
    """Why two answers may differ, or None."""
    if len(body) > BODY_BYTES_MAX and ours[0] == 413:
        return "larger than we take"
    if theirs[0] == 307 and ours[0] == 404:
        return "a path with a slash behind it is another path"
    if abs(depth(body) - DEPTH_MAX) < DEPTH_MAX // 10 and {theirs[0], ours[0]} == {400, 422}:
        return "nested as deep as only one of them reads"
    return None


def same_success(path, theirs, ours):
    """Whether what was read is what FastAPI read, as far as an answer shows it."""
    wanted, given = json.loads(theirs[2]), json.loads(ours[2])
    if path == "/recall":
        return len(given) <= wanted["limit"] and all(same_seed(wanted, seed) for seed in given)
    # Fewer are stored than may be asked for only where nothing was ingested.
    return plain(given["query"]) == wanted["query"] and given["count"] == len(given["results"]) == wanted["limit"]


def same_seed(wanted, seed):
    """Whether a seed is one that these wishes allow."""
    neighbors = seed.get("neighbors")
    has_neighbors = neighbors is not None and len(neighbors) <= wanted["neighbor_limit"]
    return has_neighbors == wanted["graph"] and wanted["modality"] in (None, seed["modality"])


def same(path, theirs, ours):
    if theirs[0] != ours[0] or theirs[1]["content-type"] != ours[1]["content-type"]:
        return False
    if theirs[0] == 200:
        return same_success(path, theirs, ours)
    return theirs[2] == ours[2]


def asked(count, seed):
    for path, kind, body in cases():
        raw = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
        yield "POST", path, [] if kind is None else [kind], raw
    for levels in (200, 300, 500, 800, 899, 900, 1100, 5000):
        yield "POST", "/recall", ["application/json"], b'{"query":' + b"[" * levels + b"]" * levels + b"}"
    yield "POST", "/recall", ["application/json"], b'{"query":"' + b"a" * BODY_BYTES_MAX + b'"}'
    for method, path in [("GET", "/recall"), ("PUT", "/recall"), ("DELETE", "/stats"), ("PATCH", "/semantic-recall"),
                         ("POST", "/health"), ("GET", "/"), ("GET", "/nothing"), ("POST", "/RECALL"), ("GET", "/recall%2f"),
                         ("POST", "/recall?query=a"), ("POST", "/semantic-recall?limit=0&x")]:
        yield method, path, ["application/json"], b'{"query":1}'
    rng = random.Random(seed)
    for _ in range(count):
        path, kinds, body = request(rng)
        yield "POST", path, kinds, body


def main(program, count, seed):
    with tempfile.TemporaryDirectory(prefix="recalld-fastapi-") as folder:
        child, port, credentials = start_recalld(program, os.path.join(folder, "data"))
        try:
            return compare(start_reference(), port, credentials, count, seed)
        finally:
            child.terminate()
            child.wait()


def compare(reference_port, port, credentials, count, seed):
    fields = [
        ("x-gateway-client-id", credentials["gateway_client_id"]),
        ("x-gateway-client-secret", credentials["gateway_client_secret"]),
        ("Authorization", "Bearer " + credentials["bearer"]),
    ]
    reference, recalld = Side(reference_port, fields[2:]), Side(port, fields)
    statuses, excuses, found = collections.Counter(), collections.Counter(), []
    for method, path, kinds, body in asked(count, seed):
        theirs, ours = (side.ask(method, path, kinds, body) for side in (reference, recalld))
        statuses[theirs[0]] += 1
        if theirs[1]["x-repaired"]:
            excuses["FastAPI fails (500), its answer mended"] += 1
        if same(path.split("?")[0], theirs, ours):
            continue
        why = excused(body, theirs, ours)
        if why:
            excuses[why] += 1
        else:
            found.append((method, path, kinds, body, theirs, ours))
    print(f"seed {seed}: {sum(statuses.values())} requests, answered by FastAPI with {dict(statuses)}")
    for why, times in excuses.items():
        print(f"  meant: {why}: {times}")
    for method, path, kinds, body, theirs, ours in found[:SHOWN_MAX]:
        print(f"DIFFERENT: {method} {path} {kinds} {body[:300]!r}")
        print(f"  FastAPI {theirs[0]} {theirs[2][:600]!r}\n  recalld {ours[0]} {ours[2][:600]!r}")
    print(f"{len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
