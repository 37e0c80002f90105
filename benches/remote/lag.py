"""How long after a write was acknowledged a replica shows it, under a steady load."""
import statistics
import threading
import time

import nodes
from cluster import Cluster, remember
from costs import text
from report import shown, table

RATES = (2, 20)
# Between two looks for an item that is not there yet.
LOOK_SECONDS = 0.004
AWAY_SECONDS_MAX = 120


def measure(given, report):
    rows = []
    with Cluster(given.mode, given.server) as cluster:
        writer = cluster.writer("writer")
        replica = cluster.replica("replica")
        puts = statistics.median(cluster.remote.puts(50, 2000))
        for rate in RATES:
            found, stale, refused = follow(writer, replica, rate, given.seconds * 2)
            found.sort()
            p50, p99 = found[len(found) // 2], found[len(found) * 99 // 100]
            rows.append([f"{rate} writes/s", f"{shown(p50)} ({p50 / puts:.0f})", shown(p99), str(max(stale, default=0)),
                         f"{refused}", str(len(found))])
            for what, value in (("p50", p50), ("p99", p99)):
                report.add("remote", f"replica lag at {rate} writes/s: {what}", given.mode, f"{value:.4g}", "ms",
                           len(found))
            report.add("remote", f"replica lag at {rate} writes/s: p50 to a creation", given.mode, f"{p50 / puts:.3g}",
                       "ratio", len(found))
            report.add("remote", f"replica at {rate} writes/s: Stale-Seconds, most", given.mode,
                       f"{max(stale, default=0)}", "s", len(stale))
            report.add("remote", f"replica at {rate} writes/s: answers 503", given.mode, f"{refused}", "answers", 1)
    report.say(f"### From an acknowledged write to its answer at a replica ({given.mode})\n")
    report.say(table(["", "p50, ms (to a creation of an object)", "p99, ms", "Stale-Seconds, most", "answers 503",
                      "writes looked for"], rows))


def follow(writer, replica, rate, seconds):
    """Milliseconds of writes that were looked for one after the other; ages told, and answers refused."""
    newest, over = [], threading.Event()

    def write():
        asker, number, due = nodes.Asker(60), 0, time.perf_counter()
        while not over.is_set():
            due += 1 / rate
            over.wait(max(0, due - time.perf_counter()))
            item, _ = remember(asker, writer, text(number))
            number += 1
            if item:
                newest.append((item, time.perf_counter()))

    thread = threading.Thread(target=write)
    thread.start()
    took, stale, refused = [], [], 0
    asker, end, last = nodes.Asker(60), time.perf_counter() + seconds, None
    try:
        while time.perf_counter() < end:
            if not newest or newest[-1][0] == last:
                time.sleep(LOOK_SECONDS / 4)
                continue
            last, at = newest[-1]
            until = time.perf_counter() + AWAY_SECONDS_MAX
            while time.perf_counter() < until:
                status, fields, body = asker.call(replica, "get_item_tool", {"item_id": last})
                refused += status == 503
                if "stale-seconds" in fields:
                    stale.append(int(fields["stale-seconds"]))
                if status == 200 and not body.get("result", {"isError": True}).get("isError"):
                    took.append((time.perf_counter() - at) * 1e3)
                    break
                time.sleep(LOOK_SECONDS)
    finally:
        over.set()
        thread.join()
    return took, stale, refused
