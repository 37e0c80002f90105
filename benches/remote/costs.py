"""Requests and bytes to the remote for a thousand small writes, and what acknowledging them there costs in time."""
import re
import statistics
import time

import nodes
from cluster import Cluster, in_threads, metrics, remember, wait_sent
from report import shown, table

WRITES = 1000
WARM_UP = 20
# How long an open workspace is watched that nobody uses, once it has come to rest.
IDLE_SECONDS, REST_SECONDS = 60, 20
WORDS = "lamp fog horn tide keeper boat wind reef signal log segment torn write page harbour beacon".split()
REQUEST = re.compile(r'recalld_remote_requests_total\{to="(\w+)",op="(\w+)",outcome="(\w+)"\}')
BYTES = re.compile(r'recalld_remote_bytes_total\{to="(\w+)",way="(\w+)"\}')


def text(number):
    """About 400 bytes, as a paragraph has."""
    return f"item {number} " + " ".join(WORDS[(number * 7 + place * place) % len(WORDS)] for place in range(70))


def grown(before, after):
    """What was asked of the remote between two pages of metrics."""
    found = {}
    for name, value in after.items():
        more = value - before.get(name, 0)
        if (match := REQUEST.match(name)) and more:
            key = match[2]
            found[key] = found.get(key, 0) + more
        elif (match := BYTES.match(name)) and more:
            found[match[2]] = found.get(match[2], 0) + more
    return found


def write(node, clients, writes, first):
    """Milliseconds of each write, and of all together."""
    took = [[] for _ in range(clients)]

    def run(client):
        asker = nodes.Asker(60)
        for number in range(first + client, first + writes, clients):
            done, said = remember(asker, node, text(number))
            if done is None:
                raise SystemExit(f"{node.name} did not take a write: {said}")
            took[client].append(said)

    began = time.perf_counter()
    in_threads(clients, run)
    return sorted(one for some in took for one in some), time.perf_counter() - began


def measure(given, report):
    writes = 100 if given.quick else WRITES
    rows, first = [], 0
    kinds = {"without a remote": None, "local": ("--set", "remote.durability=local"),
             "remote": ("--set", "remote.durability=remote")}
    baseline = {}
    for kind, more in kinds.items():
        with Cluster(given.mode, given.server) as cluster:
            node = cluster.alone("alone") if more is None else cluster.writer("writer", more=more)
            write(node, 1, WARM_UP, 10_000_000)
            if more:
                wait_sent(node)
                puts = cluster.remote.puts(50, 2000)
                report.add("remote", "creation of an object of 2 kB, nothing of ours", given.mode,
                           f"{statistics.median(puts):.3g}", "ms", len(puts))
            for clients in (1, 16):
                before = metrics(node)
                took, seconds = write(node, clients, writes, first)
                first += writes
                if more:
                    wait_sent(node)
                asked = grown(before, metrics(node))
                p50 = took[len(took) // 2]
                baseline.setdefault(clients, p50)
                name = f"{kind}, {clients} client{'s' if clients > 1 else ''}"
                thousand = 1000 / writes
                requests = {what: count * thousand for what, count in asked.items()
                            if what not in ("sent", "received")}
                rows.append([name, f"{shown(p50)} ({p50 / baseline[clients]:.2f})", shown(took[len(took) * 99 // 100]),
                             shown(writes / seconds), ", ".join(f"{count:.0f} {what}" for what, count in
                                                                sorted(requests.items())),
                             shown(asked.get("sent", 0) * thousand / 1e6)])
                report.add("remote", f"{name}: write p50", given.mode, f"{p50:.4g}", "ms", writes)
                report.add("remote", f"{name}: write p50 to that without a remote", given.mode,
                           f"{p50 / baseline[clients]:.3g}", "ratio", writes)
                report.add("remote", f"{name}: writes", given.mode, f"{writes / seconds:.4g}", "1/s", writes)
                for what, count in requests.items():
                    report.add("remote", f"{name}: {what} per 1000 writes", given.mode, f"{count:.4g}", "requests", 1)
                for what in ("sent", "received"):
                    report.add("remote", f"{name}: bytes {what} per 1000 writes", given.mode,
                               f"{asked.get(what, 0) * thousand:.5g}", "bytes", 1)
            if kind == "remote":
                idle(given, report, cluster, node)
    report.say(f"### A thousand writes of 400 bytes ({given.mode})\n")
    report.say(table(["", "p50, ms (to that without a remote)", "p99, ms", "writes/s", "requests per 1000", "MB sent"],
                     rows))


def idle(given, report, cluster, writer):
    """What an open workspace costs that nobody uses: at its writer, and at a replica."""
    replica = cluster.replica("replica")
    seconds = 5 if given.quick else IDLE_SECONDS
    time.sleep(1 if given.quick else REST_SECONDS)
    before = {node: metrics(node) for node in (writer, replica)}
    time.sleep(seconds)
    for node, page in before.items():
        asked = grown(page, metrics(node))
        said = ", ".join(f"{count * 60 / seconds:.1f} {what}" for what, count in sorted(asked.items()))
        report.say(f"Idle, a minute of the {node.name}: {said}.\n")
        for what, count in asked.items():
            if what not in ("sent", "received"):
                report.add("remote", f"idle {node.name}: {what} per minute", given.mode, f"{count * 60 / seconds:.3g}",
                           "requests", 1)
