"""Ten times the rows: the approximate search beside the exact one on the smaller store, over HTTP, and how
many of the exact ten nearest it finds."""
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import alone
from client import drive
from corpus import Corpus, Programs
from process import WorkerError
from quiet import Gate
from report import Report, shown, table
from scheduling import first_in_line
from servers import Ours
from service import p50

OPTION = "--search-mode"
RECALL_QUESTIONS = 200
WARM_UP = 50
LOOK_SECONDS = 2.0
STILL_SECONDS = 300.0  # as long as nothing is indexed any more


@dataclass(frozen=True)
class Found:
    """Over HTTP: rounds of both, in milliseconds, and the share of the exact answers that were found."""

    exact: list[float]
    approximate: list[float]
    recall: float
    promised: float  # by the store's own measurement
    waited: float  # seconds for the index

    @property
    def ratio(self) -> float:
        return statistics.median(many / few for many, few in zip(self.approximate, self.exact))


def exact_answers(before: list[str], programs: Programs, corpus: Corpus, asked: list[str],
                  folder: Path) -> list[list[str]]:
    """From the store itself, without a server."""
    store = alone.Store(before, programs, corpus, folder)
    try:
        return store.nearest(store.embed(asked, corpus.folder), 0, len(asked))["ids"]
    finally:
        store.close()


def measure(before: list[str], programs: Programs, small: Corpus, large: Corpus, asked: list[str],
            folder: Path, rounds: int, seconds: float, gate: Gate, real_time: bool) -> Found:
    exact = exact_answers(before, programs, large, asked[:RECALL_QUESTIONS], folder)
    log = folder / "servers.log"
    few = Ours(before, programs, small, log, [OPTION, "exact"])
    many = Ours(before, programs, large, log, [OPTION, "approximate"])
    times: dict[str, list[float]] = {"few": [], "many": []}
    try:
        few.wait()
        many.wait()
        waited, promised = wait_for_indexes(many)
        limit = alone.BEST
        answers = many.answers(many.semantic(text, limit) for text in asked[:RECALL_QUESTIONS])
        found = [[item["id"] for item in answer["results"]] for answer in answers]
        rest = asked[RECALL_QUESTIONS:]
        for server in (few, many):
            server.answers(map(server.semantic, rest[:WARM_UP]))
        rest = rest[WARM_UP:]
        for number in range(rounds):
            print(f"large: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            taken = 0
            sides = [("few", few), ("many", many)]
            for side, server in sides if number % 2 else reversed(sides):
                gate.wait()
                with first_in_line(real_time):
                    turn = drive(server.port, map(server.semantic, rest), 1, seconds)
                taken = max(taken, len(turn.milliseconds))
                times[side].append(p50(turn))
            rest = rest[taken:]
    finally:
        few.stop()
        many.stop()
    return Found(times["few"], times["many"], alone.overlap(exact, found), promised, waited)


def wait_for_indexes(server: Ours) -> tuple[float, float]:
    """Seconds until every row is in an index that is used, and the recall that the store promises."""
    start = last = time.monotonic()
    indexed = 0
    while time.monotonic() - last < STILL_SECONDS:
        search = server.stats()["search"]
        if search["approximate"] and search["indexed_rows"] == search["rows"]:
            return time.monotonic() - start, search["recall_at_10"]
        if search["indexed_rows"] > indexed:
            indexed, last = search["indexed_rows"], time.monotonic()
        time.sleep(LOOK_SECONDS)
    raise WorkerError(f"for {STILL_SECONDS:.0f} s no more rows came to be searched through indexes: {search}")


def tell(report: Report, small: Corpus, large: Corpus, found: Found) -> None:
    few, many = statistics.median(found.exact), statistics.median(found.approximate)
    report.say("### Ten times the rows, POST /semantic-recall, 1 client\n")
    report.say(table(
        ["", "p50, ms", "to the exact one", f"recall@{alone.BEST}", "promised"],
        [[f"{small.rows} rows, exact", shown(few), "", "", ""],
         [f"{large.rows} rows, approximate", shown(many), f"{found.ratio:.2f}", f"{found.recall:.4f}",
          f"{found.promised:.4f}"]]))
    report.say(f"All rows were in indexes {found.waited:.0f} s after the server was ready.\n")
    runs = len(found.exact)
    report.add("recall", f"{small.rows} rows exact: p50", "ours", f"{few:.4g}", "ms", runs)
    report.add("recall", f"{large.rows} rows approximate: p50", "ours", f"{many:.4g}", "ms", runs)
    report.add("recall", f"{large.rows} rows approximate: recall@{alone.BEST}", "ours",
               f"{found.recall:.4f}", "share", RECALL_QUESTIONS)
    report.add("recall", f"{large.rows} rows approximate: recall@{alone.BEST} by the store", "ours",
               f"{found.promised:.4f}", "share", 1)
