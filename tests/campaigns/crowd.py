"""A crowd, slow clients and a soak, for crowd.sh: PROGRAM CONNECTIONS STREAMS SOAK_SECONDS."""

import concurrent.futures
import json
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import serving

# Bounds, wide enough for a machine that does other things as well.
IDLE_BYTES_MAX = 4096
STREAM_BYTES_MAX = 16 * 1024
# The middle time of those who are served, beside the crowd and without it.
SLOWER_MAX = 2.0
SLOWER_MS_MAX = 1.0
# What a soak may leave behind: new text grows the store a little.
SOAK_GROWTH_MAX = 1.10
SOAK_GROWTH_BYTES_MAX = 24 << 20
DESCRIPTORS_MORE_MAX = 8

# Threads that open connections: their answers overlap.
TOGETHER = 64
HEALTH_ASKED = 2000
RECALLS_ASKED = 200
# One stream in so many is a listening one; the others belong to sessions.
LISTENS_AMONG = 10
SLOW_OF_EACH_KIND = 100
JSON = "Content-Type: application/json"
BOTH = "Accept: application/json, text/event-stream"
REVISION = "2025-11-25"
WORDS = "lamp fog horn tide keeper boat wind reef signal log segment torn write page".split()

failures = []


def held(what, is_so):
    if not is_so:
        failures.append(what)
        print(f"NOT HELD: {what}", flush=True)


class Scene:
    """A server, the addresses of its listeners, and who may ask."""

    def __init__(self, server, ready, credentials):
        self.pid, self.url = server.pid, ready["local"]
        self.local = ready["local"].split("//")[1]
        self.hosted = ready["hosted"].split("//")[1]
        self.bearer = f"Authorization: Bearer {credentials['bearer']}"
        self.signed = [f"x-gateway-client-id: {credentials['gateway_client_id']}",
                       f"x-gateway-client-secret: {credentials['gateway_client_secret']}", self.bearer, JSON]

    def health(self):
        return serving.request(self.local, "GET", "/health")

    def recall(self, words):
        body = json.dumps({"query": " ".join(words), "limit": 5}).encode()
        return serving.request(self.local, "POST", "/recall", self.signed, body)

    def call(self, tool, arguments):
        params = {"name": tool, "arguments": arguments}
        return self.message({"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": params})

    def message(self, message, fields=()):
        body = json.dumps(message).encode()
        return serving.request(self.local, "POST", "/mcp", [JSON, BOTH, *fields], body)


def times(scene):
    """Milliseconds of health and of recall, one at a time on one connection."""
    connection = serving.connect(scene.local)
    dice = random.Random(1)

    def timed(said):
        began = time.perf_counter()
        status, _, body = serving.answered(connection, said)
        if status != 200:
            sys.exit(f"FAILED: status {status}: {body[:200]!r}")
        return (time.perf_counter() - began) * 1000

    health = [timed(scene.health()) for _ in range(HEALTH_ASKED)]
    recall = [timed(scene.recall(dice.sample(WORDS, 3))) for _ in range(RECALLS_ASKED)]
    connection.close()
    return {"health": health, "recall": recall}


def told(name, measured):
    for what, each in measured.items():
        at99 = sorted(each)[len(each) * 99 // 100]
        print(f"{name}: {what} {statistics.median(each):.3f} ms in the middle, {at99:.3f} ms for 99 of 100", flush=True)


def compare(name, alone, beside):
    told(name, beside)
    for what, each in beside.items():
        before, now = statistics.median(alone[what]), statistics.median(each)
        print(f"{name}: {what} takes {now / before:.2f} of the time that it takes alone", flush=True)
        held(f"{name}: {what} {now:.3f} ms, alone {before:.3f} ms", now <= before * SLOWER_MAX + SLOWER_MS_MAX)


def until(what, condition):
    end = time.monotonic() + serving.SILENCE_MAX
    while not condition():
        if time.monotonic() > end:
            held(what, False)
            return
        time.sleep(0.05)


def stream(scene, number):
    """An open stream on either listener: a session's GET, or a listening one."""
    authority, fields = (scene.local, []) if number % 2 else (scene.hosted, [scene.bearer])
    connection = serving.connect(authority)
    if number % LISTENS_AMONG:
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "crowd", "version": "1"}}}
        said = serving.request(authority, "POST", "/mcp", [JSON, BOTH, *fields], json.dumps(message).encode())
        _, text, _ = serving.answered(connection, said)
        session = f"Mcp-Session-Id: {serving.field(text, 'mcp-session-id')}"
        said = serving.request(authority, "GET", "/mcp", ["Accept: text/event-stream", session, *fields])
    else:
        prefix = "io.modelcontextprotocol/"
        meta = {prefix + "protocolVersion": "2026-07-28", prefix + "clientCapabilities": {}}
        message = {"jsonrpc": "2.0", "id": number, "method": "subscriptions/listen",
                   "params": {"_meta": meta, "notifications": {"resourceSubscriptions": ["memory://brief/today"]}}}
        headers = [JSON, BOTH, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen", *fields]
        said = serving.request(authority, "POST", "/mcp", headers, json.dumps(message).encode())
    connection.sendall(said)
    text, _ = serving.head(connection)
    if "text/event-stream" not in text:
        sys.exit(f"FAILED: no stream but {text}")
    return connection


def idle(scene):
    connection = serving.connect(scene.local)
    serving.answered(connection, scene.health())
    return connection


def many(make, count):
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        return list(pool.map(make, range(count)))


def crowd(scene, connections, streams, alone):
    # What the first ones make the server allocate for good is not theirs.
    for connection in many(lambda _: idle(scene), 64) + many(lambda number: stream(scene, number), 8):
        connection.close()
    until("the first have left", lambda: serving.numbers(scene.url)["recalld_connections"] <= 1)
    descriptors = serving.descriptors(scene.pid)
    before = serving.resident(scene.pid)
    reading = many(lambda number: stream(scene, number), streams)
    between = serving.resident(scene.pid)
    resting = many(lambda _: idle(scene), connections)
    after = serving.resident(scene.pid)
    compare(f"beside {connections} idle connections and {streams} streams", alone, times(scene))
    open_now = serving.numbers(scene.url)["recalld_connections"]
    held(f"{open_now} connections are open", open_now >= connections + streams)
    of_stream, of_idle = (between - before) / max(streams, 1), (after - between) / connections
    print(f"memory: {of_idle:.0f} bytes for an idle connection, {of_stream:.0f} for a session and its stream")
    held(f"{of_idle:.0f} bytes for an idle connection", of_idle < IDLE_BYTES_MAX)
    held(f"{of_stream:.0f} bytes for a stream", of_stream < STREAM_BYTES_MAX)
    for connection in reading + resting:
        connection.close()
    until("the crowd has left", lambda: serving.descriptors(scene.pid) <= descriptors + 1)
    print(f"descriptors: {descriptors} before, {serving.descriptors(scene.pid)} after")


class Slow:
    """Clients that take their time, all served by one thread of ours."""

    def __init__(self, scene):
        self.scene, self.going = scene, True
        self.heads, self.bodies, self.readers = [], [], []
        for _ in range(SLOW_OF_EACH_KIND):
            self.heads.append(self.begin(b"GET /health HTTP/1.1\r\nHost: x\r\nA: "))
            body = serving.request(scene.local, "POST", "/mcp", [JSON, BOTH, "Content-Length: 1000000"])
            # The field of ours takes the place of the one that a body of nothing has.
            self.bodies.append(self.begin(body.replace(b"Content-Length: 0\r\n", b"")))
            page = serving.request(scene.local, "GET", "/openapi.json")
            self.readers.append(self.begin(page * 200))
        self.thread = threading.Thread(target=self.drip)
        self.thread.start()

    def begin(self, said):
        connection = serving.connect(self.scene.local)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        try:
            connection.sendall(said)
        except BlockingIOError:
            pass
        return connection

    def drip(self):
        while self.going:
            for connection in self.heads + self.bodies:
                try:
                    connection.send(b"x")
                except OSError:
                    pass
            time.sleep(0.5)

    def end(self):
        self.going = False
        self.thread.join()
        for connection in self.heads + self.bodies + self.readers:
            connection.close()

    def answers(self, connections):
        """Statuses that were told, of those that were told one."""
        said = []
        for connection in connections:
            try:
                said.append(connection.recv(64)[9:12].decode())
            except BlockingIOError:
                pass
            except OSError:
                said.append("reset")
        return said


def slow(scene, alone, waits):
    clients = Slow(scene)
    began = time.monotonic()
    compare(f"beside {SLOW_OF_EACH_KIND} slow heads, bodies and readers each", alone, times(scene))
    # 10 s for a head, 30 s for a body and for a reader: the table in format-spec/limits.md.
    time.sleep(max(0, began + 13 - time.monotonic()))
    heads = clients.answers(clients.heads)
    held(f"slow heads are told 408: {sorted(set(heads))}, {len(heads)}", heads == ["408"] * SLOW_OF_EACH_KIND)
    if waits:
        time.sleep(max(0, began + 40 - time.monotonic()))
        bodies = clients.answers(clients.bodies)
        held(f"slow bodies are told 408: {sorted(set(bodies))}", bodies == ["408"] * SLOW_OF_EACH_KIND)
        left = serving.numbers(scene.url)["recalld_connections"]
        print(f"slow clients: {left:.0f} connections of {3 * SLOW_OF_EACH_KIND} are left after 40 s")
        held(f"{left} connections are left", left <= 1)
    clients.end()


def aborted(scene, dice):
    """A request that ends somewhere, by an end or by a reset."""
    said = scene.recall(dice.sample(WORDS, 3))
    connection = serving.connect(scene.local)
    connection.sendall(said[:dice.randrange(1, len(said) + 1)])
    if dice.random() < 0.5:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def worker(scene, seed, end, counts):
    dice = random.Random(seed)
    connection = serving.connect(scene.local)
    while time.monotonic() < end:
        what = dice.choices(("health", "recall", "question", "aborted", "new"), (8, 4, 2, 4, 1))[0]
        if what == "aborted":
            aborted(scene, dice)
        elif what == "new":
            connection.close()
            connection = serving.connect(scene.local)
        else:
            said = {"health": scene.health, "recall": lambda: scene.recall(dice.sample(WORDS, 3)),
                    "question": lambda: scene.call("retrieval_arbitrate_tool", {"query": " ".join(dice.sample(WORDS, 4))})}
            status, _, body = serving.answered(connection, said[what]())
            if status != 200:
                counts["wrong"] = counts.get("wrong", 0) + 1
                print(f"{what}: status {status}: {body[:200]!r}", flush=True)
        counts[what] = counts.get(what, 0) + 1
    connection.close()


def ingests(scene, folder, end, counts):
    """Two of the files change, again and again."""
    connection, number = serving.connect(scene.local), 0
    while time.monotonic() < end:
        number += 1
        for name in ("a.md", "b.md"):
            (folder / name).write_text(f"# Page {name}\n\nThe lamp was lit {number} times beside the reef.\n")
        _, _, body = serving.answered(connection, scene.call("ingest_paths_tool", {"paths": [str(folder)]}))
        if json.loads(body).get("result", {}).get("isError", True):
            counts["wrong"] = counts.get("wrong", 0) + 1
            print(f"ingest: {body[:300]!r}", flush=True)
        counts["ingest"] = counts.get("ingest", 0) + 1
        time.sleep(2)
    connection.close()


def soak(scene, folder, seconds):
    descriptors, began = serving.descriptors(scene.pid), time.monotonic()
    end, counts, sizes = began + seconds, [{} for _ in range(5)], []
    threads = [threading.Thread(target=worker, args=(scene, seed, end, counts[seed])) for seed in range(4)]
    threads.append(threading.Thread(target=ingests, args=(scene, folder, end, counts[4])))
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        sizes.append((time.monotonic() - began, serving.resident(scene.pid), serving.descriptors(scene.pid)))
        time.sleep(1)
    for thread in threads:
        thread.join()
    total = {}
    for one in counts:
        for what, count in one.items():
            total[what] = total.get(what, 0) + count
    print(f"soak of {seconds:.0f} s: {total}")
    third = len(sizes) // 3
    early = statistics.median(size for _, size, _ in sizes[third:2 * third])
    late = statistics.median(size for _, size, _ in sizes[2 * third:])
    most = max(count for _, _, count in sizes)
    print(f"soak: {early / 1e6:.1f} MB in its second third, {late / 1e6:.1f} MB in its last; at most {most} descriptors")
    held(f"memory went from {early} to {late}", late <= early * SOAK_GROWTH_MAX + SOAK_GROWTH_BYTES_MAX)
    held("some were answered wrong", "wrong" not in total)
    held("every kind was done", len(total) == 6)
    until(f"descriptors come back to {descriptors} or so",
          lambda: serving.descriptors(scene.pid) <= descriptors + DESCRIPTORS_MORE_MAX)
    print(f"soak: {descriptors} descriptors before, {serving.descriptors(scene.pid)} after")


def main():
    program, connections, streams, seconds = sys.argv[1], *map(int, sys.argv[2:])
    room = serving.many_descriptors() - 1024
    if connections + streams > room:
        print(f"this system gives descriptors for {room} connections")
        connections = room - streams
    with tempfile.TemporaryDirectory(prefix="recalld-crowd-") as place:
        folder, data = Path(place, "pages"), f"{place}/data"
        folder.mkdir()
        dice = random.Random(0)
        for number in range(40):
            text = " ".join(dice.choice(WORDS) for _ in range(80))
            (folder / f"page-{number}.md").write_text(f"# Page {number}\n\n{text}\n")
        command = [program, "serve", "--json", "--local", "127.0.0.1:0", "--hosted", "127.0.0.1:0",
                   "--peer-connections", "16384",
                   "--ingest", str(folder), "--data", data]
        with open(f"{place}/said", "w") as said, serving.serve(command, stderr=said) as (server, ready):
            shown = subprocess.run([program, "credentials", "show", "--json", "--data", data],
                                   check=True, capture_output=True)
            scene = Scene(server, ready, json.loads(shown.stdout))
            times(scene)
            alone = times(scene)
            told("alone", alone)
            crowd(scene, connections, streams, alone)
            slow(scene, alone, waits=seconds >= 60)
            soak(scene, folder, seconds)
    if failures:
        sys.exit(f"FAILED: {len(failures)} bounds were passed")


main()
