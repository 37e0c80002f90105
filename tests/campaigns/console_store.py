"""Lines for `recalld import`: a store that the console is looked at with. `console_store.py COUNT`: a few dozen items that tell of a
project, some that would do harm if they were taken for anything but text, and COUNT plain ones. The same lines each time."""
import json
import random
import sys
from datetime import datetime, timedelta, timezone

DAYS = 400
SEED = 9
NOW = datetime.now(timezone.utc)

# Ref, kind, days ago, title, text, what it replaces.
PROJECT = [
    ("front", "decision", 12, "The front end waits on epoll",
     "We use epoll and not io_uring for the front end: a third of the fleet runs kernels from before 5.10, and under our load both "
     "are within two percent of each other. Look again when the fleet has been upgraded.", "front-first"),
    ("front-first", "decision", 96, "The front end uses io_uring",
     "The front end moves to io_uring: fewer system calls for each request, and batches come for free.", "front-threads"),
    ("front-threads", "decision", 310, "A thread for each connection",
     "Each connection has a thread of its own. It is simple, and we have a few hundred connections.", None),
    ("writes", "decision", 40, "Writes are acknowledged after the sync",
     "A write is acknowledged once its log record is on disk. Many writers share one sync, so that it costs each of them little.", None),
    ("kernel", "fact", 30, "Kernels of the fleet",
     "Of 48 machines, 17 run a kernel older than 5.10. The upgrade is planned for the spring, rack by rack.", None),
    ("bench", "fact", 14, "epoll beside io_uring", "With 10,000 connections epoll answered 212,000 requests a second and io_uring 216,000.", None),
    ("backup-a", "fact", 60, "Backups", "We keep backups for 30 days.", None),
    ("backup-b", "fact", 20, "Backups", "We keep backups for 90 days.", None),
    ("style", "preference", 200, "Short commits", "Commits are small, each builds, and its body says why with the evidence.", None),
    ("tone", "preference", 150, "Plain words", "Write documents in short, plain sentences. No marketing.", None),
    ("reviews", "preference", 90, "Reviews before noon", "Reviews are done before noon; the afternoon is for work that needs quiet.", None),
    ("rotate", "decision", 33, "Keys rotate every quarter", "Workspace keys are rotated every quarter; both keys are good for a day.", None),
    ("hnsw", "decision", 75, "No graph index", "We search exactly below 300,000 rows and by lists above: a graph index takes four times the memory, "
     "and its recall falls as rows are replaced.", None),
    ("incident", "note", 51, "Incident: the disk was full", "On the night of the 4th the log could not grow: writes were refused, "
     "reads went on, nothing was lost. We raised the alarm to 80 percent.", None),
    ("port", "fact", 110, "The service listens on 8788", "The local listener is 127.0.0.1:8788; tenants come through the gateway on 443.", None),
]
LINKS = [("front", "kernel", "depends_on"), ("front", "bench", "supported_by"), ("front", "writes", "relates_to"),
         ("front", "port", "relates_to"), ("incident", "writes", "explains"), ("bench", "kernel", "measured_on"), ("hnsw", "bench", "relates_to"),
         ("backup-a", "incident", "after"), ("rotate", "port", "relates_to"), ("front", "hnsw", "decided_with")]

SCRIPT = "<script>window.harmed = true</script>"
HOSTILE = [
    ("hostile-script", SCRIPT, f"zebrafish {SCRIPT}<img src=x onerror=\"window.harmed = true\"><svg onload=\"window.harmed = true\">"),
    ("hostile-link", "[click](javascript:window.harmed=true)", "zebrafish javascript:window.harmed=true data:text/html,<b>x</b>"),
    ("hostile-bidi", "zebrafish \u202ethgir morf\u202c \u2066isolate", "zebrafish \u202e\u202e\u202ereversed without an end \u200b\ufeff and zero width"),
    ("hostile-names", "__proto__ constructor toString", "zebrafish ${window.harmed = true} {{constructor.constructor('window.harmed=true')()}} \\u003cb\\u003e"),
    ("hostile-wide", "zebrafish-" + "w" * 900, "zebrafish " + "unbroken" * 4000),
    ("hostile-tall", "A title\nof many\nlines", "zebrafish " + "line\n" * 9000),
    ("hostile-marks", "zebrafish Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e" * 8, "zebrafish \U0001f468\u200d\U0001f469\u200d\U0001f467 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea"),
]
THINGS = "queue ledger segment gateway backup encoder socket tenant index manifest cache policy kernel listener scheduler buffer".split()
ACTS = "moved split measured replaced bounded sealed drained verified renamed compacted restored tuned".split()
PLACES = "Oslo Lisbon Turin Gdansk Cork Bergen Porto Ghent Lviv Tartu Malmo Graz".split()
REASONS = ["it was slow under load", "its memory grew", "the disk was full", "a client asked for it", "two of them disagreed", "nobody used it", "the tests were not sure"]
KINDS = ["note", "fact", "decision", "observation"]


def at(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def item(ref: str, kind: str, days: float, title: str, text: str, **more: object) -> dict[str, object]:
    return {"type": "item", "ref": ref, "kind": kind, "modality": "text", "title": title, "text": text, "recorded_at": at(days),
            "recorded_by": "user:ada", "via": "import", **more}


def lines(count: int):
    for ref, kind, days, title, text, replaced in sorted(PROJECT, key=lambda row: -row[2]):
        more = {"supersedes": [replaced]} if replaced else {}
        yield item(ref, kind, days, title, text, tags=["project"], **more)
    for start, end, relation in LINKS:
        yield {"type": "edge", "from": start, "to": end, "relation": relation, "weight": 0.8, "recorded_at": at(5), "recorded_by": "user:ada"}
    for number, (ref, title, text) in enumerate(HOSTILE):
        source = {"kind": "url", "uri": ["javascript:window.harmed=true", "https://example.org/?q=<script>"][number % 2]}
        yield item(ref, "<b>kind</b>", 3, title, text, tags=[SCRIPT, "plain"], source=source, attributes={"__proto__": SCRIPT, "note": "<i>x</i>"})
    for ref, _, _ in HOSTILE[1:]:
        yield {"type": "edge", "from": HOSTILE[0][0], "to": ref, "relation": "<i>harms</i>", "note": SCRIPT, "recorded_at": at(2), "recorded_by": SCRIPT}
    dice = random.Random(SEED)
    for number in range(count):
        thing, other, place = dice.choice(THINGS), dice.choice(THINGS), dice.choice(PLACES)
        title = f"The {thing} of {place} {number}"
        text = f"The {thing} of {place} was {dice.choice(ACTS)} beside the {other}, since {dice.choice(REASONS)}. Note {number}."
        yield item(f"plain-{number}", dice.choice(KINDS), 5 + dice.random() * DAYS, title, text)


if __name__ == "__main__":
    for line in lines(int(sys.argv[1])):
        print(json.dumps(line))
