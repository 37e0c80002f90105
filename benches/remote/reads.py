"""Answers of one, two and three replicas, asked all at once."""
import json
import os
import statistics
import sys
import time

from client import drive, request
from cluster import Cluster, credentials, in_threads, wait_sent
from corpus import Programs, made_alone
from report import shown, table

CLIENTS_EACH = 2
QUESTIONS = 4000


def measure(given, report):
    items = made_alone(given.folder, Programs(given.server, given.worker, None), given.rows)
    rates = {count: [] for count in (1, 2, 3)}
    with Cluster(given.mode, given.server) as cluster:
        writer = cluster.writer("writer", data=items.data)
        wait_sent(writer)
        replicas = [cluster.replica(f"replica{number}") for number in (1, 2, 3)]
        fields = {node: credentials(node) for node in replicas}
        turn = 0
        for number in range(given.rounds):
            for count in rates:
                print(f"reads: round {number + 1}, {count} replicas", file=sys.stderr, flush=True)
                rates[count].append(ask(replicas[:count], fields, given.seconds / 4, turn))
                turn += 1
    rows = []
    one = statistics.median(rates[1])
    for count, values in rates.items():
        middle = statistics.median(values)
        rows.append([f"{count}", shown(middle), f"{middle / one:.2f}"])
        report.add("remote", f"{given.rows} rows, {count} replicas: answers by meaning", given.mode, f"{middle:.4g}",
                   "1/s", len(values))
        report.add("remote", f"{given.rows} rows, {count} replicas to one: answers by meaning", given.mode,
                   f"{middle / one:.3g}", "ratio", len(values))
    report.say(f"### Answers by meaning, {given.rows} rows, {CLIENTS_EACH} clients for each replica ({given.mode})\n")
    report.say(table(["replicas", "answers/s", "to one"], rows))
    report.say(f"All of them, their clients and the store share {os.cpu_count()} processors: with fewer than one for each "
               "replica this shows that they do not wait for one another, and not what each adds on a machine of its own.\n")


def ask(replicas, fields, seconds, turn):
    """Answers a second of these, asked for so long; each has clients of its own."""
    done = []

    def run(number):
        node = replicas[number]
        port = node.address[1]
        texts = (f"{turn} {number} {place} lamp fog horn tide keeper boat wind reef" for place in range(QUESTIONS))
        messages = (request(port, "POST", "/semantic-recall", fields[node], body(text)) for text in texts)
        done.append(len(drive(port, messages, CLIENTS_EACH, seconds).milliseconds))

    began = time.perf_counter()
    in_threads(len(replicas), run)
    return sum(done) / (time.perf_counter() - began)


def body(text):
    return json.dumps({"query": text, "limit": 5}).encode()
