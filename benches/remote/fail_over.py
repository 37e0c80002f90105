"""How long nothing is written when the writer is killed, and when it ends in good order."""
import signal
import statistics
import threading
import time

import nodes
from cluster import Cluster, remember
from costs import text
from report import shown, table

CLIENTS = 4
# A client that waits for longer asks again.
PATIENCE = 5
SETTLED = 20


def measure(given, report):
    took = {"killed": [], "ended": []}
    lease = 5 if given.quick else 15
    for _ in range(given.rounds):
        for how, sign in (("killed", signal.SIGKILL), ("ended", signal.SIGTERM)):
            with Cluster(given.mode, given.server, lease) as cluster:
                took[how].append(once(cluster, sign))
    report.say(f"### Until another node takes writes ({given.mode}, lease of {lease} s)\n")
    rows = []
    for how, values in took.items():
        middle = statistics.median(values)
        rows.append([f"writer {how}", shown(middle), shown(min(values)), shown(max(values)), f"{middle / lease:.2f}"])
        report.add("remote", f"fail-over, writer {how}, lease {lease} s", given.mode, f"{middle:.4g}", "s", len(values))
    report.say(table(["", "seconds, median", "least", "most", "leases"], rows))


def once(cluster, sign):
    """Seconds from the signal to the first write that was asked for after it and acknowledged."""
    first, second = cluster.writer("first"), cluster.writer("second")
    done, over = [], threading.Event()

    def write(client):
        asker, number = nodes.Asker(PATIENCE), client
        while not over.wait(0.02):
            for node in (first, second):
                asked = time.perf_counter()
                try:
                    item, _ = remember(asker, node, text(number))
                except (nodes.NoAnswer, nodes.NotAsked):
                    item = None
                number += CLIENTS
                if item:
                    done.append((asked, time.perf_counter()))

    threads = [threading.Thread(target=write, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        while len(done) < SETTLED:
            time.sleep(0.05)
        at = time.perf_counter()
        ending = threading.Thread(target=first.end, args=(sign,))
        ending.start()
        while time.perf_counter() < at + 120:
            later = [answered for asked, answered in list(done) if asked > at]
            if later:
                return min(later) - at
            time.sleep(0.01)
        raise SystemExit("no write was taken for 120 s")
    finally:
        over.set()
        for thread in threads:
            thread.join()
        ending.join()
