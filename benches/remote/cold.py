"""How long a replica with an empty disk takes to its first answer, beside a start on a disk that has all."""
import statistics
import time

from cluster import Cluster, credentials, metrics, semantic, wait_sent
from corpus import Programs, made_alone
from report import shown, table

QUESTION = "which lamp is lit when the fog comes in from the sea"


def measure(given, report):
    items = made_alone(given.folder, Programs(given.server, given.worker, None), given.rows)
    took = {"local": [], "ready": [], "first": []}
    with Cluster(given.mode, given.server) as cluster:
        began = time.perf_counter()
        writer = cluster.writer("writer", data=items.data)
        wait_sent(writer)
        sent = metrics(writer)['recalld_remote_bytes_total{to="objects",way="sent"}']
        report.say(f"{given.rows} rows were on the remote {time.perf_counter() - began:.1f} s after the start of their "
                   f"writer: {sent / 1e6:.0f} MB.\n")
        report.add("remote", f"{given.rows} rows carried for the first time", given.mode, f"{sent:.4g}", "bytes", 1)
        received = 0.0
        for number in range(given.rounds):
            with Cluster("folder", given.server) as other:
                (_, first), _ = started(lambda: other.alone(f"local{number}", data=items.data))
                took["local"].append(first)
            (ready, first), node = started(lambda: cluster.replica(f"replica{number}"))
            took["ready"].append(ready)
            took["first"].append(first)
            received = metrics(node)['recalld_remote_bytes_total{to="objects",way="received"}']
            node.end()
            node.wipe()
    middle = {what: statistics.median(values) for what, values in took.items()}
    ratio = middle["first"] / middle["local"]
    report.say(f"### A cold replica of {given.rows} rows ({given.mode})\n")
    report.say(table(["", "seconds, median", "least", "to the local start"], [
        ["local start, first answer by meaning", shown(middle["local"]), shown(min(took["local"])), ""],
        ["cold replica, ready", shown(middle["ready"]), shown(min(took["ready"])), ""],
        ["cold replica, first answer by meaning", shown(middle["first"]), shown(min(took["first"])), f"{ratio:.1f}"],
    ]))
    report.say(f"Received by then: {received / 1e6:.0f} MB.\n")
    for what, case in (("local", "local start: first answer"), ("ready", "cold replica: ready"),
                       ("first", "cold replica: first answer")):
        report.add("remote", f"{given.rows} rows, {case}", given.mode, f"{middle[what]:.4g}", "s", given.rounds)
    report.add("remote", f"{given.rows} rows, cold replica: received by its first answer", given.mode,
               f"{received:.4g}", "bytes", 1)


def started(begin):
    """Seconds from the start of a process until it is ready, and to its first answer; and the node."""
    began = time.perf_counter()
    node = begin()
    # What is copied before the process begins is not its time.
    ready = node.ready_at - node.began_at
    fields = credentials(node)
    asked = time.perf_counter()
    while True:
        status, _ = semantic(node, fields, QUESTION)
        if status == 200:
            return (ready, ready + time.perf_counter() - asked), node
        if time.perf_counter() - began > 600:
            raise SystemExit(f"{node.name} answers {status}")
        time.sleep(0.01)
